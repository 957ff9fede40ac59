import { isDirty, isOffline, isOthers, isOwnElsewhere, isYielding, type State } from '../machine/state';
import type { DocumentLockState, LockStatus } from './documentLock';

/** The machine's state as a component sees it. */
export function lockStateOf(state: State): DocumentLockState {
  const { hold, text, drafts } = state;
  const lockHolder = state.known?.lock.lock_holder ?? null;
  const isLockedByMe = hold.kind === 'held' || hold.kind === 'releasing';
  const isLockedByOther = !isLockedByMe && isOthers(state);
  return {
    status: statusOf(state),
    lockHolder,
    isLockedByMe,
    isLockedByOther,
    takenBy: hold.kind === 'releasing' ? hold.taker : null,
    canForceTake:
      state.role === 'owner' && isLockedByOther && lockHolder?.same_user === false && hold.kind === 'none',
    isLoading:
      state.known === null ||
      hold.kind === 'calling-tabs' ||
      hold.kind === 'requested' ||
      (text?.isStale === true && text.base === null),
    isEditable: isEditable(state),
    isSaving: text?.saving?.kind === 'sent',
    hasUnsavedText: isDirty(state),
    lastSaved: text?.lastSaved ?? null,
    version: text?.base ?? null,
    loaded: text?.loaded ?? null,
    idleIn: idleIn(state),
    notice: state.notice,
    draft: drafts.offered[0] ?? null,
    keepsDrafts: drafts.areKept,
  };
}

function statusOf(state: State): LockStatus {
  const { hold, notice } = state;
  if (isOffline(state)) return 'offline';
  switch (hold.kind) {
    case 'held':
      return 'mine';
    case 'releasing':
      return hold.taker ? 'taking' : isYielding(state) ? 'lost' : 'mine';
    case 'ended':
      return notice?.kind === 'taken' ? 'taken' : 'lost';
    case 'requested':
      if (hold.how === 'move') return statusOfMove(state);
      return hold.how === 'take' ? 'taking' : statusOfOthers(state);
    case 'calling-tabs':
      return statusOfMove(state);
    case 'none':
      return statusOfOthers(state);
  }
}

/** The other tab releases the lock before this one gets it; the document must not be shown as free in between. */
function statusOfMove(state: State): LockStatus {
  return isOthers(state) ? statusOfOthers(state) : 'other-tab';
}

function statusOfOthers(state: State): LockStatus {
  const { notice } = state;
  if (!isOthers(state)) return 'free';
  if (isOwnElsewhere(state)) return 'other-tab';
  return notice?.kind === 'taken' || notice?.kind === 'lost' ? notice.kind : 'other';
}

function isEditable(state: State): boolean {
  const { hold, text, role, known } = state;
  if (role === 'viewer' || known === null) return false;
  // None yet, or an old text, on which nothing may be based. Typing into changes that are based on it already goes on:
  // after the grant they are saved, or become a draft.
  const isBegun = hold.kind === 'requested' && isDirty(state);
  if (text && (text.base === null || (text.isStale && !isBegun))) return false;
  switch (hold.kind) {
    case 'held':
      return true;
    case 'releasing':
      return !isYielding(state);
    case 'requested':
      // Not for long: either the lock is granted, or changes made until then become a draft.
      return hold.how === 'acquire' && !isOthers(state);
    case 'none':
      return !isOthers(state) && !isOffline(state);
    case 'calling-tabs':
    case 'ended':
      return false;
  }
}

function idleIn(state: State): number | null {
  const { hold, times, activityAt, now } = state;
  if (hold.kind !== 'held' || isOffline(state)) return null;
  const left = activityAt / 1000 + times.idle - now / 1000;
  return left <= times.idleWarning ? Math.max(0, Math.ceil(left)) : null;
}
