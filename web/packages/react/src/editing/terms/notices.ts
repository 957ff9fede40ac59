import type { LockHolder, Person } from '../../protocol/messages.generated';

/** What became of the text that was not saved when the lock was lost. */
export type TextOutcome =
  /** Everything was saved before. */
  | { readonly kind: 'nothing-unsaved' }
  /** It is on its way; meanwhile it is kept in this browser. */
  | { readonly kind: 'saving' }
  /** It has become this version. */
  | { readonly kind: 'saved'; readonly version: number }
  /** Somebody had begun to edit: the service keeps it as a draft, beside the document's version. */
  | { readonly kind: 'rescued'; readonly draftId: string; readonly version: number }
  /** The service refuses it; it is kept in this browser. */
  | { readonly kind: 'kept-locally' };

export type LossReason =
  /** No heartbeat reached the service in time: sleep, no network, a page that hung. */
  | 'expired'
  /** The same person went on at another tab. */
  | 'moved'
  /** The right to edit has ended. */
  | 'not-allowed';

/** What happened last, for the banner. One at a time; the newest stands. */
export type Notice =
  | { readonly kind: 'released' }
  /** Released because idle: whoever types goes on. */
  | { readonly kind: 'idle' }
  | { readonly kind: 'taken'; readonly by: Person | null; readonly outcome: TextOutcome }
  | { readonly kind: 'lost'; readonly why: LossReason; readonly outcome: TextOutcome }
  /** Somebody was faster; what was typed meanwhile is kept as a local draft. `by` is null if they have gone already. */
  | { readonly kind: 'typed-kept'; readonly by: LockHolder | null }
  /** The lock was free, but there was a newer text; what was typed on the old one is kept as a local draft. */
  | { readonly kind: 'outdated' }
  /** This page has taken the lock from somebody: whether they saved before, null if nobody had to be asked. */
  | { readonly kind: 'took'; readonly saved: boolean | null }
  /** A take-over came to nothing: somebody else was faster, or there was no answer. */
  | { readonly kind: 'not-taken'; readonly holder: LockHolder | null }
  /** Asked for the lock, and it is held. */
  | { readonly kind: 'busy'; readonly holder: LockHolder | null }
  /** The service said no: a code and a sentence as in REST. */
  | { readonly kind: 'refused'; readonly code: string; readonly message: string };
