import type { Draft } from '../../drafts/draft';
import type { Content, LoadedDocument } from '../../protocol/content';
import type { LockHolder, Person } from '../../protocol/messages.generated';
import type { Notice } from '../terms/notices';

export type LockStatus =
  /** The document is not being edited. */
  | 'free'
  /** This tab edits. */
  | 'mine'
  | 'other'
  /** The same user edits in another tab. */
  | 'other-tab'
  /** A take-over is under way, by this page or from it (`takenBy`). */
  | 'taking'
  /** Another user took the lock from this page; see `notice`. Ends with their hold, or when it is dismissed. */
  | 'taken'
  /** The lock has ended or moves to another tab, and the text is being saved or has become a draft; see `notice`. */
  | 'lost'
  /** The service is unreachable. The holder may continue to type; the text is stored in this browser. */
  | 'offline';

/** The state of a document's lock for a component. A new object only after a change. */
export interface DocumentLockState {
  readonly status: LockStatus;
  readonly lockHolder: LockHolder | null;
  readonly isLockedByMe: boolean;
  /** By another user, or by the same user in another tab. */
  readonly isLockedByOther: boolean;
  /** The user who is taking the lock from this page, which is saving. */
  readonly takenBy: Person | null;
  readonly canForceTake: boolean;
  /** The state is not known yet, or the lock is being requested. */
  readonly isLoading: boolean;
  /** The editor accepts changes: the lock is this tab's, or it is free and the role may edit. */
  readonly isEditable: boolean;
  readonly isSaving: boolean;
  readonly hasUnsavedText: boolean;
  /** The last save that the service acknowledged to this component; `at` in Unix milliseconds. */
  readonly lastSaved: { readonly version: number; readonly at: number } | null;
  /** The version on which the text is based. */
  readonly version: number | null;
  /** The content for the editor. A new object whenever the editor's content must be replaced; not after own changes. */
  readonly loaded: LoadedDocument | null;
  /** Whole seconds until the release after inactivity, in the last few seconds; otherwise null. */
  readonly idleIn: number | null;
  readonly notice: Notice | null;
  /** Text in this browser that the service does not have, offered back; not while another tab of the user edits. */
  readonly draft: Draft | null;
  /** This browser stores unsaved text. If false, the text is lost with the page. */
  readonly keepsDrafts: boolean;
}

export interface DocumentLockActions {
  /** True once this tab holds the lock; false if it is not available. Waits while the service is unreachable. */
  acquireLock(): Promise<boolean>;
  /** Saves unsaved text and releases the lock. Harmless if it is not held. Resolves when both are done. */
  releaseLock(): Promise<void>;
  /** For owners: asks the holder to save, waits a few seconds for that, and takes the lock. */
  forceTakeLock(): Promise<boolean>;
  /** Moves the user's own lock from another tab to this one, after at most a few seconds in which that tab saves. */
  continueHere(): Promise<boolean>;
  /** Saves now. True only if the service has confirmed the text as it was at this call. */
  save(): Promise<boolean>;
  /** The user is active in the editor's area: restarts the idle time. */
  noteActivity(): void;
  /** The text has changed to `content`. In a free document this requests the lock. */
  noteChange(content: Content): void;
  /**
   * Takes the lock and puts the draft of that id, by default the one shown, into the editor (as `loaded`); the draft is kept
   * until it is saved. Unsaved text becomes a draft itself. False if the lock is not available.
   */
  restoreDraft(id?: string): Promise<boolean>;
  /** Deletes the draft of that id, by default the one shown. */
  discardDraft(id?: string): void;
  dismissNotice(): void;
  /** Repeats unanswered requests at once. */
  retry(): void;
  /** Loads the newest text, if nothing is unsaved. */
  reload(): void;
}

export type DocumentLock = DocumentLockState & DocumentLockActions;
