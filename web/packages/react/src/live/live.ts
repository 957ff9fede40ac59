import type { Lock, LockHolder, Person, Welcome } from '../protocol/messages.generated';
import type { Role } from '../protocol/rest';

/** An event for the watchers of one document. */
export type LiveEvent =
  /** The socket is authenticated; `welcome` has the service's times. */
  | { readonly kind: 'up'; readonly welcome: Welcome }
  | { readonly kind: 'down' }
  /** The snapshot after a join: it replaces all earlier states. */
  | { readonly kind: 'joined'; readonly role: Role; readonly lock: Lock }
  /** A state that is newer than all earlier ones. */
  | {
      readonly kind: 'changed';
      readonly type:
        | 'document_locked'
        | 'document_unlocked'
        | 'document_lock_expired'
        | 'document_force_save_requested'
        | 'document_force_taken';
      readonly lock: Lock;
      readonly by: Person | null;
    }
  | { readonly kind: 'heartbeat-requested' }
  | { readonly kind: 'heartbeat'; readonly extended: boolean; readonly holder: LockHolder | null }
  /** The document may not be watched. */
  | { readonly kind: 'refused'; readonly code: string };

/** `offline` after a failed attempt; `refused` if no attempt follows before `reconnect()`. */
export type LivePhase = 'idle' | 'connecting' | 'online' | 'offline' | 'refused';

/** One socket for all documents of a page. */
export interface Live {
  /** Calls `hear` with the document's events, first with the known state, until the returned function is called. */
  watch(documentId: string, hear: (event: LiveEvent) => void): () => void;
  /** Sends a heartbeat for the document's lock. False without a socket. */
  heartbeat(documentId: string, idleForSeconds: number): boolean;
  readonly phase: LivePhase;
  /** Calls `changed` whenever `phase` may have changed. */
  subscribe(changed: () => void): () => void;
  /** Attempts at once, also after `refused`. */
  reconnect(): void;
  /** Closes it permanently, for instance at logout. */
  close(): void;
}
