import type { Content, LoadedDocument } from '../../protocol/content';
import type { GrantedLock, Lock, LockHolder } from '../../protocol/rest';

/** A call succeeds, is refused, or has an unknown outcome (`unreachable`), which never counts as a refusal. */
export type Unanswered = { readonly kind: 'unreachable' };
/** The service refused: a code and a sentence as in REST. */
export type Refused = { readonly kind: 'refused'; readonly code: string; readonly message: string };

export type AcquireAnswer =
  | { readonly kind: 'granted'; readonly lock: GrantedLock; readonly saved: boolean | null }
  | { readonly kind: 'busy'; readonly holder: LockHolder | null }
  | Refused
  | Unanswered;

export type LookAnswer = { readonly kind: 'seen'; readonly lock: Lock } | Refused | Unanswered;

export type BeatAnswer =
  | { readonly kind: 'extended'; readonly lock: Lock }
  | { readonly kind: 'lost'; readonly holder: LockHolder | null }
  | Refused
  | Unanswered;

export interface SaveRequest {
  readonly content: Content;
  readonly baseVersion: number;
  readonly fence: string;
  /** The reason, if the same request also releases the lock. */
  readonly release: 'released' | 'idle' | null;
}

export type SaveAnswer =
  /** `lockLost`: the lock has ended in the meantime; null if the service could not find out. */
  | { readonly kind: 'saved'; readonly version: number; readonly lockLost: boolean | null }
  | { readonly kind: 'rescued'; readonly draftId: string; readonly version: number }
  | Refused
  | Unanswered;

export type LoadAnswer =
  | { readonly kind: 'loaded'; readonly document: LoadedDocument }
  | Refused
  | Unanswered;

/** The requests of a controller to the service. None rejects. */
export interface DocumentService {
  look(documentId: string): Promise<LookAnswer>;
  acquire(documentId: string, how: 'acquire' | 'move' | 'take'): Promise<AcquireAnswer>;
  beat(documentId: string, idleForSeconds: number): Promise<BeatAnswer>;
  release(
    documentId: string,
    reason: 'released' | 'idle',
    options?: { keepAlive: boolean },
  ): Promise<LookAnswer>;
  load(documentId: string): Promise<LoadAnswer>;
  save(documentId: string, request: SaveRequest, options?: { keepAlive: boolean }): Promise<SaveAnswer>;
}
