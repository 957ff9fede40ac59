import type { LockHolder, Person } from '../../protocol/messages.generated';

/** The outcome of the text that was unsaved when the lock was lost. */
export type TextOutcome =
  /** Everything was saved before. */
  | { readonly kind: 'nothing-unsaved' }
  /** It is being saved, and stored in this browser until then. */
  | { readonly kind: 'saving' }
  /** It became this version. */
  | { readonly kind: 'saved'; readonly version: number }
  /** Another user had started to edit: the service stores it as a draft beside the document's version. */
  | { readonly kind: 'rescued'; readonly draftId: string; readonly version: number }
  /** The service refused it; it is stored in this browser. */
  | { readonly kind: 'kept-locally' };

export type LossReason =
  /** No heartbeat reached the service in time: sleep, no network, a page that hung. */
  | 'expired'
  /** The same user continued in another tab. */
  | 'moved'
  /** The permission to edit has ended. */
  | 'not-allowed';

/** The latest event, for the banner. Each one replaces the one before. */
export type Notice =
  | { readonly kind: 'released' }
  /** Released after inactivity: typing continues. */
  | { readonly kind: 'idle' }
  | { readonly kind: 'taken'; readonly by: Person | null; readonly outcome: TextOutcome }
  | { readonly kind: 'lost'; readonly why: LossReason; readonly outcome: TextOutcome }
  /** Another user got the lock first; the typed text is a local draft. `by` is null if that hold has ended. */
  | { readonly kind: 'typed-kept'; readonly by: LockHolder | null }
  /** The lock was free, but the text was old; what was typed on it is a local draft. */
  | { readonly kind: 'outdated' }
  /** This page took the lock over. `saved`: the previous editor saved before; null if there was none. */
  | { readonly kind: 'took'; readonly saved: boolean | null }
  /** A take-over failed: another user was faster, or there was no answer. */
  | { readonly kind: 'not-taken'; readonly holder: LockHolder | null }
  /** The lock was requested, and is held. */
  | { readonly kind: 'busy'; readonly holder: LockHolder | null }
  /** The service refused: a code and a sentence as in REST. */
  | { readonly kind: 'refused'; readonly code: string; readonly message: string };
