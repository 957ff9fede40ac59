import type { Lock, LockHolder, Person, Welcome } from '../protocol/messages.generated';
import type { Role } from '../protocol/rest';

/** What a watcher of one document is told. */
export type LiveEvent =
  /** The socket is there, and this is how long things last. */
  | { readonly kind: 'up'; readonly welcome: Welcome }
  | { readonly kind: 'down' }
  /** The state to trust, whatever was known before. */
  | { readonly kind: 'joined'; readonly role: Role; readonly lock: Lock }
  /** A state that is newer than every one before it. */
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
  /** The document may not be watched, or not any more. */
  | { readonly kind: 'refused'; readonly code: string };

/** `offline` once an attempt has failed; `refused` if trying again is of no use before `reconnect()`. */
export type LivePhase = 'idle' | 'connecting' | 'online' | 'offline' | 'refused';

/** One socket for all documents of a page. */
export interface Live {
  /** Tells `hear` about the document until the returned function is called. Begins with what is known. */
  watch(documentId: string, hear: (event: LiveEvent) => void): () => void;
  /** Says that the lock is still wanted. False if there is no socket to say it over. */
  heartbeat(documentId: string, idleForSeconds: number): boolean;
  readonly phase: LivePhase;
  /** Calls `changed` whenever `phase` may have changed. */
  subscribe(changed: () => void): () => void;
  /** Tries at once, also after `refused`. */
  reconnect(): void;
  /** Ends it for good: signed out. */
  close(): void;
}
