// Made by scripts/generate.mjs from docs/protocol.schema.json. Change the server's types, not this file.
import type { Shape } from './shapes';

/** Must be the first message. */
export interface Authenticate {
  readonly type: 'authenticate';
  readonly data: Credentials;
}

/** The socket is ready. */
export interface Authenticated {
  readonly type: 'authenticated';
  readonly data: Welcome;
}

/** `idle_for`: seconds since the last activity. */
export interface Beat {
  readonly document_id: string;
  readonly idle_for?: number | null;
}

/** A change of a lock, its user, and the state that it led to. */
export interface Change {
  readonly document_id: string;
  readonly lock_holder: LockHolder | null;
  readonly triggered_by: Person | null;
  readonly timestamp: number;
  readonly lock: Lock;
}

export type ClientMessage = Authenticate | Join | Leave | Heartbeat | Ping;

/** Why the server ended a socket. */
export type CloseCode = 1011 | 1012 | 4400 | 4401 | 4403 | 4408 | 4409 | 4413 | 4429 | 4508;

/** A document, and the reason: a code as in REST. */
export interface Closed {
  readonly document_id: string;
  readonly code: string;
}

/** A token or a ticket, and the name of the tab. */
export interface Credentials {
  readonly token?: string | null;
  readonly ticket?: string | null;
  readonly tab?: string | null;
}

/** No data. */
export type Empty = Readonly<Record<string, never>>;

/** A message could not be handled. */
export interface Error {
  readonly type: 'error';
  readonly data: Fault;
}

/** A code as in REST, and a message. */
export interface Fault {
  readonly code: string;
  readonly message: string;
  readonly document_id: string | null;
}

/** A lock was taken by force. */
export interface ForceTaken {
  readonly type: 'document_force_taken';
  readonly data: Takeover;
}

/** Extend the hold. */
export interface Heartbeat {
  readonly type: 'heartbeat';
  readonly data: Beat;
}

/** The answer to a heartbeat. */
export interface HeartbeatHeard {
  readonly type: 'heartbeat';
  readonly data: Pulse;
}

/** Answer with a heartbeat for each. */
export interface HeartbeatRequested {
  readonly type: 'heartbeat_requested';
  readonly data: Wanted;
}

/** Watch a document's lock. */
export interface Join {
  readonly type: 'join';
  readonly data: Room;
}

/** The lock's current state; changes follow. */
export interface Joined {
  readonly type: 'joined';
  readonly data: Watched;
}

/** Stop watching a document's lock. */
export interface Leave {
  readonly type: 'leave';
  readonly data: Room;
}

/** A document. */
export interface Left {
  readonly document_id: string;
}

/** No more changes follow. */
export interface LeftRoom {
  readonly type: 'left';
  readonly data: Left;
}

/** The state of a document's lock. */
export interface Lock {
  readonly document_id: string;
  readonly locked: boolean;
  readonly lock_holder: LockHolder | null;
  readonly version: LockVersion;
  readonly expires_in: number | null;
  readonly taking: Taking | null;
}

/** A lock was acquired or released, has expired, or is about to be taken. */
export interface LockChanged {
  readonly type: 'document_locked' | 'document_unlocked' | 'document_lock_expired' | 'document_force_save_requested';
  readonly data: Change;
}

/** The holder; `same_user` and `tab_is_mine` are relative to the client that receives it. */
export interface LockHolder {
  readonly user_id: string;
  readonly user_name: string;
  readonly acquired_at: number;
  readonly same_user: boolean;
  readonly tab_is_mine: boolean;
  readonly idle_since: number | null;
}

/** Orders the states of one lock: by `fence` as a number, then by `step`. */
export interface LockVersion {
  readonly fence: string;
  readonly step: number;
}

/** No data. */
export type Nothing = Readonly<Record<string, never>>;

/** A user, as shown to others. */
export interface Person {
  readonly user_id: string;
  readonly user_name: string;
}

/** Ask for a pong. */
export interface Ping {
  readonly type: 'ping';
  readonly data?: Nothing;
}

/** The answer to a ping. */
export interface Pong {
  readonly type: 'pong';
  readonly data: Empty;
}

/** Whether the lock was extended, and its holder. */
export interface Pulse {
  readonly document_id: string;
  readonly extended: boolean;
  readonly lock_holder: LockHolder | null;
}

/** A document. */
export interface Room {
  readonly document_id: string;
}

/** The client may no longer watch the document. */
export interface RoomClosed {
  readonly type: 'room_closed';
  readonly data: Closed;
}

export type ServerMessage = Authenticated | Joined | LeftRoom | HeartbeatHeard | Pong | LockChanged | ForceTaken | HeartbeatRequested | RoomClosed | Error;

/** `saved`: whether the previous editor answered with a save; null where that is not known. */
export interface Takeover {
  readonly document_id: string;
  readonly lock_holder: LockHolder | null;
  readonly triggered_by: Person | null;
  readonly timestamp: number;
  readonly lock: Lock;
  readonly saved: boolean | null;
}

/** A force-take in progress: its user, and how long the holder may still save. */
export interface Taking {
  readonly user_id: string;
  readonly user_name: string;
  readonly seconds_left: number;
}

/** The documents whose locks this tab holds. */
export interface Wanted {
  readonly document_ids: readonly (string)[];
}

/** A document, the client's role for it, and its lock. */
export interface Watched {
  readonly document_id: string;
  readonly role: 'viewer' | 'editor' | 'owner';
  readonly lock: Lock;
}

/** The client's user, and the times that it must keep: seconds, except `expires_at`. */
export interface Welcome {
  readonly user_id: string;
  readonly user_name: string;
  readonly expires_at: number | null;
  readonly ttl: number;
  readonly heartbeat: number;
  readonly idle: number;
}

/** Why the server ended a socket. */
export const closeCodes = {
  FAILED: 1011,
  GOING_AWAY: 1012,
  BROKEN_PROTOCOL: 4400,
  NOT_SIGNED_IN: 4401,
  ORIGIN_REFUSED: 4403,
  NO_AUTHENTICATION: 4408,
  TOO_MANY_SOCKETS: 4409,
  MESSAGE_TOO_LARGE: 4413,
  TOO_MANY_MESSAGES: 4429,
  TOO_SLOW: 4508,
} as const;

/** What the server may send, to be checked on arrival. */
export const shapes: Readonly<Record<string, Shape>> = {
  Authenticated: { is: 'object', members: { type: [{ is: 'one-of', values: ['authenticated'] }, true], data: [{ is: 'named', name: 'Welcome' }, true] } },
  Change: { is: 'object', members: { document_id: [{ is: 'string' }, true], lock_holder: [{ is: 'any-of', shapes: [{ is: 'named', name: 'LockHolder' }, { is: 'null' }] }, true], triggered_by: [{ is: 'any-of', shapes: [{ is: 'named', name: 'Person' }, { is: 'null' }] }, true], timestamp: [{ is: 'number' }, true], lock: [{ is: 'named', name: 'Lock' }, true] } },
  Closed: { is: 'object', members: { document_id: [{ is: 'string' }, true], code: [{ is: 'string' }, true] } },
  Empty: { is: 'object', members: { } },
  Error: { is: 'object', members: { type: [{ is: 'one-of', values: ['error'] }, true], data: [{ is: 'named', name: 'Fault' }, true] } },
  Fault: { is: 'object', members: { code: [{ is: 'string' }, true], message: [{ is: 'string' }, true], document_id: [{ is: 'any-of', shapes: [{ is: 'string' }, { is: 'null' }] }, true] } },
  ForceTaken: { is: 'object', members: { type: [{ is: 'one-of', values: ['document_force_taken'] }, true], data: [{ is: 'named', name: 'Takeover' }, true] } },
  HeartbeatHeard: { is: 'object', members: { type: [{ is: 'one-of', values: ['heartbeat'] }, true], data: [{ is: 'named', name: 'Pulse' }, true] } },
  HeartbeatRequested: { is: 'object', members: { type: [{ is: 'one-of', values: ['heartbeat_requested'] }, true], data: [{ is: 'named', name: 'Wanted' }, true] } },
  Joined: { is: 'object', members: { type: [{ is: 'one-of', values: ['joined'] }, true], data: [{ is: 'named', name: 'Watched' }, true] } },
  Left: { is: 'object', members: { document_id: [{ is: 'string' }, true] } },
  LeftRoom: { is: 'object', members: { type: [{ is: 'one-of', values: ['left'] }, true], data: [{ is: 'named', name: 'Left' }, true] } },
  Lock: { is: 'object', members: { document_id: [{ is: 'string' }, true], locked: [{ is: 'boolean' }, true], lock_holder: [{ is: 'any-of', shapes: [{ is: 'named', name: 'LockHolder' }, { is: 'null' }] }, true], version: [{ is: 'named', name: 'LockVersion' }, true], expires_in: [{ is: 'any-of', shapes: [{ is: 'number' }, { is: 'null' }] }, true], taking: [{ is: 'any-of', shapes: [{ is: 'named', name: 'Taking' }, { is: 'null' }] }, true] } },
  LockChanged: { is: 'object', members: { type: [{ is: 'one-of', values: ['document_locked', 'document_unlocked', 'document_lock_expired', 'document_force_save_requested'] }, true], data: [{ is: 'named', name: 'Change' }, true] } },
  LockHolder: { is: 'object', members: { user_id: [{ is: 'string' }, true], user_name: [{ is: 'string' }, true], acquired_at: [{ is: 'number' }, true], same_user: [{ is: 'boolean' }, true], tab_is_mine: [{ is: 'boolean' }, true], idle_since: [{ is: 'any-of', shapes: [{ is: 'number' }, { is: 'null' }] }, true] } },
  LockVersion: { is: 'object', members: { fence: [{ is: 'string', pattern: '^[0-9]+$' }, true], step: [{ is: 'integer' }, true] } },
  Person: { is: 'object', members: { user_id: [{ is: 'string' }, true], user_name: [{ is: 'string' }, true] } },
  Pong: { is: 'object', members: { type: [{ is: 'one-of', values: ['pong'] }, true], data: [{ is: 'named', name: 'Empty' }, true] } },
  Pulse: { is: 'object', members: { document_id: [{ is: 'string' }, true], extended: [{ is: 'boolean' }, true], lock_holder: [{ is: 'any-of', shapes: [{ is: 'named', name: 'LockHolder' }, { is: 'null' }] }, true] } },
  RoomClosed: { is: 'object', members: { type: [{ is: 'one-of', values: ['room_closed'] }, true], data: [{ is: 'named', name: 'Closed' }, true] } },
  ServerMessage: { is: 'any-of', shapes: [{ is: 'named', name: 'Authenticated' }, { is: 'named', name: 'Joined' }, { is: 'named', name: 'LeftRoom' }, { is: 'named', name: 'HeartbeatHeard' }, { is: 'named', name: 'Pong' }, { is: 'named', name: 'LockChanged' }, { is: 'named', name: 'ForceTaken' }, { is: 'named', name: 'HeartbeatRequested' }, { is: 'named', name: 'RoomClosed' }, { is: 'named', name: 'Error' }] },
  Takeover: { is: 'object', members: { document_id: [{ is: 'string' }, true], lock_holder: [{ is: 'any-of', shapes: [{ is: 'named', name: 'LockHolder' }, { is: 'null' }] }, true], triggered_by: [{ is: 'any-of', shapes: [{ is: 'named', name: 'Person' }, { is: 'null' }] }, true], timestamp: [{ is: 'number' }, true], lock: [{ is: 'named', name: 'Lock' }, true], saved: [{ is: 'any-of', shapes: [{ is: 'boolean' }, { is: 'null' }] }, true] } },
  Taking: { is: 'object', members: { user_id: [{ is: 'string' }, true], user_name: [{ is: 'string' }, true], seconds_left: [{ is: 'number' }, true] } },
  Wanted: { is: 'object', members: { document_ids: [{ is: 'array', items: { is: 'string' } }, true] } },
  Watched: { is: 'object', members: { document_id: [{ is: 'string' }, true], role: [{ is: 'one-of', values: ['viewer', 'editor', 'owner'] }, true], lock: [{ is: 'named', name: 'Lock' }, true] } },
  Welcome: { is: 'object', members: { user_id: [{ is: 'string' }, true], user_name: [{ is: 'string' }, true], expires_at: [{ is: 'any-of', shapes: [{ is: 'number' }, { is: 'null' }] }, true], ttl: [{ is: 'number' }, true], heartbeat: [{ is: 'number' }, true], idle: [{ is: 'number' }, true] } },
};
