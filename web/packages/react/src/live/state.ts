import type {
  ClientMessage,
  Credentials,
  Lock,
  ServerMessage,
  Welcome,
} from '../protocol/messages.generated';
import type { Role } from '../protocol/rest';
import type { LiveEvent } from './live';

/** A watched document. It waits to be joined, again after each loss of the socket. */
export type Room =
  | { readonly kind: 'waiting' }
  | { readonly kind: 'joined'; readonly lock: Lock; readonly role: Role };

/** The connection, from none to an authenticated socket. */
export type ConnectionState =
  /** No document has been watched yet. */
  | { readonly phase: 'idle' }
  /** Getting credentials, opening, or authenticating. */
  | { readonly phase: 'connecting' }
  | { readonly phase: 'online'; readonly welcome: Welcome }
  /** Until the next attempt. */
  | { readonly phase: 'pausing' }
  /** The server refused the credentials: no further attempt before `reconnect`. */
  | { readonly phase: 'refused' }
  | { readonly phase: 'closed' };

export interface LiveState {
  readonly connection: ConnectionState;
  /** Attempts since the last success. */
  readonly failures: number;
  /** Of those, the latest in a row that ended with "not signed in". */
  readonly refusals: number;
  /** By document id, which may be any text, also the name of a member that every object has. */
  readonly rooms: ReadonlyMap<string, Room>;
  /** What the last input requires; empty before every step. */
  readonly effects: readonly Effect[];
}

export type Timer = 'reconnect' | 'silence' | 'response';

export type Input =
  | { readonly kind: 'watched'; readonly documentId: string }
  | { readonly kind: 'unwatched'; readonly documentId: string }
  | { readonly kind: 'opened'; readonly credentials: Credentials }
  | { readonly kind: 'received'; readonly message: ServerMessage }
  /** The socket has closed, or could not be opened. `code` is null if there was none. */
  | { readonly kind: 'ended'; readonly code: number | null }
  /** There are no credentials. */
  | { readonly kind: 'signed-out' }
  | { readonly kind: 'timer'; readonly timer: Timer }
  | { readonly kind: 'reconnect' }
  | { readonly kind: 'close' };

export type Effect =
  | { readonly kind: 'connect' }
  | { readonly kind: 'disconnect' }
  | { readonly kind: 'send'; readonly message: ClientMessage }
  | { readonly kind: 'notify'; readonly documentId: string; readonly event: LiveEvent }
  /** The duration of `reconnect` depends on `failures`; the others are constant. */
  | { readonly kind: 'start-timer'; readonly timer: Timer; readonly failures: number }
  | { readonly kind: 'stop-timer'; readonly timer: Timer };

export const initialState: LiveState = {
  connection: { phase: 'idle' },
  failures: 0,
  refusals: 0,
  rooms: new Map(),
  effects: [],
};

export function emit(state: LiveState, ...effects: readonly Effect[]): LiveState {
  return { ...state, effects: [...state.effects, ...effects] };
}
