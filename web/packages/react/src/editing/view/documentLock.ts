import type { Draft } from '../../drafts/draft';
import type { Content, LoadedDocument } from '../../protocol/content';
import type { LockHolder, Person } from '../../protocol/messages.generated';
import type { Notice } from '../terms/notices';

export type LockStatus =
  /** Nobody edits. */
  | 'free'
  /** This tab edits. */
  | 'mine'
  | 'other'
  /** The same person edits at another tab. */
  | 'other-tab'
  /** A take-over is under way: by this page, or from this page (`takenBy`). */
  | 'taking'
  /** Somebody has taken the lock from this page; see `notice`. Until they stop editing, or it is dismissed. */
  | 'taken'
  /** The lock has ended, or goes to another tab, and the text is not safe yet, or is a draft now; see `notice`. */
  | 'lost'
  /** The service cannot be reached. Who held the lock may go on typing; the text is kept in this browser. */
  | 'offline';

/** What is true of a document's lock, as a component needs it. A new object only if something in it has changed. */
export interface DocumentLockState {
  readonly status: LockStatus;
  readonly lockHolder: LockHolder | null;
  readonly isLockedByMe: boolean;
  /** Somebody else, or the same person at another tab. */
  readonly isLockedByOther: boolean;
  /** Who is about to take the lock from this page, which saves for them. */
  readonly takenBy: Person | null;
  readonly canForceTake: boolean;
  /** The state is not known yet, or the lock is being asked for. */
  readonly isLoading: boolean;
  /** Typing is welcome: the lock is this tab's, or free and the role allows to edit. */
  readonly isEditable: boolean;
  readonly isSaving: boolean;
  readonly hasUnsavedText: boolean;
  /** The last save that the service acknowledged in this session; `at` in Unix milliseconds. */
  readonly lastSaved: { readonly version: number; readonly at: number } | null;
  /** The version that the text was made from. */
  readonly version: number | null;
  /** What the editor has to show. A new object whenever its content must be replaced; not after own changes. */
  readonly loaded: LoadedDocument | null;
  /** Whole seconds until the lock is given back because idle, in the last few seconds; otherwise null. */
  readonly idleIn: number | null;
  readonly notice: Notice | null;
  /** Text that this browser has kept and the service has not got, offered back; not while another own tab edits. */
  readonly draft: Draft | null;
  /** Whether this browser keeps what is unsaved. If not, it lives as long as the page. */
  readonly keepsDrafts: boolean;
}

export interface DocumentLockActions {
  /** True once the lock is held at this tab; false if it is not to be had. Waits while the service is unreachable. */
  acquireLock(): Promise<boolean>;
  /** Saves what is unsaved and gives the lock back. Harmless if it is not held. Resolves when that is settled. */
  releaseLock(): Promise<void>;
  /** Owners: asks the holder to save, waits for that some seconds, and takes the lock. */
  forceTakeLock(): Promise<boolean>;
  /** Moves one's own lock from another tab to this one, which waits some seconds at most until that tab has saved. */
  continueHere(): Promise<boolean>;
  /** Saves now. True only if the service has said that it has the text as it was at this call. */
  save(): Promise<boolean>;
  /** Something was touched in the editor's area: not idle. */
  noteActivity(): void;
  /** The text is now this. In a free document it asks for the lock. */
  noteChange(content: Content): void;
  /**
   * Takes the lock and puts the draft of that id, or the one that is shown, into the editor (as `loaded`); it is kept until
   * it is saved. What was typed and is not saved becomes a draft itself. False if it did not come to that.
   */
  restoreDraft(id?: string): Promise<boolean>;
  /** Forgets the draft of that id, or the one that is shown. */
  discardDraft(id?: string): void;
  dismissNotice(): void;
  /** Tries at once what is waiting for the service. */
  retry(): void;
  /** Asks for the newest text, if nothing is unsaved. */
  reload(): void;
}

export type DocumentLock = DocumentLockState & DocumentLockActions;
