import { isObject } from '../protocol/shapes';
import type { TabMessage, Tabs } from './tabs';

/** Tabs over a BroadcastChannel for each user and document; none in a browser without it. */
export function broadcastTabs(): Tabs {
  return {
    open(userId, documentId, hear) {
      const channel = openChannel(nameOf(userId, documentId));
      if (!channel) return null;
      channel.onmessage = ({ data }: MessageEvent<unknown>) => {
        if (isTabMessage(data)) hear({ kind: data.kind, request: data.request });
      };
      return {
        say: (message) => channel.postMessage(message),
        hangUp: () => channel.close(),
      };
    },
  };
}

function openChannel(name: string): BroadcastChannel | null {
  try {
    return typeof BroadcastChannel === 'undefined' ? null : new BroadcastChannel(name);
  } catch {
    return null; // a browser that isolates pages may refuse
  }
}

/** Ids may hold any character: encoded, two pairs never make the same name. */
function nameOf(userId: string, documentId: string): string {
  return `leasehold/${encodeURIComponent(userId)}/${encodeURIComponent(documentId)}`;
}

/** Tabs may run different versions of a page. */
function isTabMessage(data: unknown): data is TabMessage {
  if (!isObject(data) || typeof data.request !== 'string') return false;
  return data.kind === 'wanted' || data.kind === 'heard' || data.kind === 'done';
}
