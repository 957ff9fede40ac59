import type { ServerMessage } from './messages.generated';
import { matchesNamed } from './shapes';

/** The message in `text`; null if it does not match the schema. Never throws. */
export function readMessage(text: unknown): ServerMessage | null {
  if (typeof text !== 'string') return null;
  try {
    const value: unknown = JSON.parse(text);
    return matchesNamed(value, 'ServerMessage') ? (value as ServerMessage) : null;
  } catch {
    return null;
  }
}
