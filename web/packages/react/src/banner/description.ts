import type { Notice, TextOutcome } from '../editing/terms/notices';
import type { DocumentLockState } from '../editing/view/documentLock';
import type { LockMessages } from './messages';

/** The banner's sentences: the state and the latest event. */
export interface Description {
  readonly headline: string;
  readonly detail: string | null;
}

export function describe(lock: DocumentLockState, say: LockMessages): Description {
  switch (lock.status) {
    case 'offline':
      return {
        headline: lock.isLockedByMe || lock.hasUnsavedText ? say.offlineKept : say.offline,
        detail: say.retrying,
      };
    case 'mine':
      return {
        headline: lock.idleIn === null ? say.youEdit : say.idleSoon,
        detail: detailOf(lock.notice, say),
      };
    case 'taking':
      return {
        headline: lock.takenBy ? say.yieldingTo(lock.takenBy.user_name) : say.savingPrevious,
        detail: null,
      };
    case 'other':
      return { headline: editedBy(lock, say), detail: detailOf(lock.notice, say) };
    case 'other-tab':
      return {
        headline: isMovingHere(lock) ? say.movingHere : say.otherTab,
        detail: detailOf(lock.notice, say),
      };
    case 'taken':
    case 'lost':
      return endingOf(lock.notice, say) ?? { headline: editedBy(lock, say), detail: null };
    case 'free':
      return describeFree(lock, say);
  }
}

/** Once the text is loaded, only the lock can be awaited. */
function isMovingHere({ isLoading, loaded }: DocumentLockState): boolean {
  return isLoading && loaded !== null;
}

function describeFree(lock: DocumentLockState, say: LockMessages): Description {
  const { notice } = lock;
  const ending = endingOf(notice, say);
  if (ending) return ending;
  if (notice?.kind === 'idle') return { headline: say.releasedIdle, detail: null };
  if (notice?.kind === 'released') return { headline: say.released, detail: null };
  const detail = detailOf(notice, say);
  // While the lock is requested the user types on: no message yet.
  if (lock.isLoading && !lock.isEditable) return { headline: say.loading, detail };
  return { headline: lock.isEditable ? say.free : say.readOnly, detail };
}

function endingOf(notice: Notice | null, say: LockMessages): Description | null {
  if (notice?.kind === 'taken') {
    return {
      headline: say.takenBy(notice.by?.user_name ?? say.somebody),
      detail: outcomeOf(notice.outcome, say),
    };
  }
  if (notice?.kind !== 'lost') return null;
  const headlines = { expired: say.lostExpired, moved: say.lostMoved, 'not-allowed': say.lostNotAllowed };
  return { headline: headlines[notice.why], detail: outcomeOf(notice.outcome, say) };
}

function outcomeOf(outcome: TextOutcome, say: LockMessages): string | null {
  switch (outcome.kind) {
    case 'nothing-unsaved':
      return null;
    case 'saving':
      return say.outcomeSaving;
    case 'saved':
      return say.outcomeSaved(outcome.version);
    case 'rescued':
      return say.outcomeRescued;
    case 'kept-locally':
      return say.outcomeKeptLocally;
  }
}

function detailOf(notice: Notice | null, say: LockMessages): string | null {
  switch (notice?.kind) {
    case 'typed-kept':
      return say.typedKept;
    case 'outdated':
      return say.outdated;
    case 'took':
      return notice.saved === null ? null : notice.saved ? say.tookSaved : say.tookUnsaved;
    case 'not-taken':
      return say.notTaken;
    case 'refused':
      return say.refused(notice.message);
    case 'taken':
    case 'lost':
      return outcomeOf(notice.outcome, say);
    default:
      return null;
  }
}

function editedBy({ lockHolder }: DocumentLockState, say: LockMessages): string {
  if (!lockHolder) return say.loading;
  return say.editedBy(lockHolder.user_name, timeOfDay(lockHolder.acquired_at * 1000, say));
}

export function timeOfDay(atMs: number, { locale }: LockMessages): string {
  return new Intl.DateTimeFormat(regionalOf(locale), { hour: '2-digit', minute: '2-digit' }).format(atMs);
}

/** The regional form of the language: 14:05 in British English, 2:05 PM in American. */
function regionalOf(locale: string): string {
  const preferred = globalThis.navigator?.languages ?? [];
  return preferred.find((tag) => tag.split('-')[0] === locale) ?? locale;
}
