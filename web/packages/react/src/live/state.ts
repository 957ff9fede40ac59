import type {
  ClientMessage,
  Credentials,
  Lock,
  ServerMessage,
  Welcome,
} from '../protocol/messages.generated';
import type { Role } from '../protocol/rest';
import type { LiveEvent } from './live';

/** A document that somebody here watches. `lock` is null until it is joined, and again after the socket was lost. */
export interface Room {
  readonly lock: Lock | null;
  readonly role: Role | null;
}

/** The connection, from nothing to a socket that may be used. */
export type Link =
  /** Nothing is watched, or nothing was yet. */
  | { readonly phase: 'idle' }
  /** Getting credentials, opening, or waiting to be let in. */
  | { readonly phase: 'dialling' }
  | { readonly phase: 'online'; readonly welcome: Welcome }
  /** Waiting for the next attempt. */
  | { readonly phase: 'pausing' }
  /** Not let in: trying again is of no use until somebody says so. */
  | { readonly phase: 'refused' }
  | { readonly phase: 'closed' };

export interface LiveState {
  readonly link: Link;
  /** Attempts since the last one that worked. */
  readonly failures: number;
  /** Of those, the ones in a row that ended with "not signed in". */
  readonly refusals: number;
  readonly rooms: Readonly<Record<string, Room>>;
}

export type Timer = 'redial' | 'quiet' | 'answer';

export type Input =
  | { readonly kind: 'watched'; readonly documentId: string }
  | { readonly kind: 'unwatched'; readonly documentId: string }
  | { readonly kind: 'opened'; readonly credentials: Credentials }
  | { readonly kind: 'received'; readonly message: ServerMessage }
  /** The socket has ended, or could not be opened. `code` is null where there was none. */
  | { readonly kind: 'ended'; readonly code: number | null }
  /** There are no credentials: nobody is signed in. */
  | { readonly kind: 'nobody' }
  | { readonly kind: 'rang'; readonly timer: Timer }
  | { readonly kind: 'reconnect' }
  | { readonly kind: 'close' };

export type Effect =
  | { readonly kind: 'dial' }
  | { readonly kind: 'hang-up' }
  | { readonly kind: 'send'; readonly message: ClientMessage }
  | { readonly kind: 'tell'; readonly documentId: string; readonly event: LiveEvent }
  /** `redial` takes its time from `failures`; the others have their own. */
  | { readonly kind: 'set'; readonly timer: Timer; readonly failures: number }
  | { readonly kind: 'clear'; readonly timer: Timer };

export interface Step {
  readonly state: LiveState;
  readonly effects: readonly Effect[];
}

export const initialState: LiveState = { link: { phase: 'idle' }, failures: 0, refusals: 0, rooms: {} };
