import { isDirty, isOthers, isOwnElsewhere, isYielding, type Session } from '../machine/state';
import type { DocumentLockState, LockStatus } from './documentLock';

/** What a component is shown of a session. */
export function view(session: Session): DocumentLockState {
  const { hold, lock, text, saving } = session;
  const isLockedByMe = hold.kind === 'held' || hold.kind === 'ending';
  const isLockedByOther = !isLockedByMe && isOthers(session);
  return {
    status: statusOf(session),
    lockHolder: lock?.lock_holder ?? null,
    isLockedByMe,
    isLockedByOther,
    takenBy: hold.kind === 'ending' ? hold.taker : null,
    canForceTake:
      session.role === 'owner' &&
      isLockedByOther &&
      lock?.lock_holder?.same_user === false &&
      hold.kind === 'none',
    isLoading:
      lock === null ||
      hold.kind === 'calling' ||
      hold.kind === 'asking' ||
      (text.isStale && text.base === null),
    isEditable: isEditable(session),
    isSaving: saving !== null && !saving.isUnknown,
    hasUnsavedText: isDirty(session),
    lastSaved: session.lastSaved,
    version: text.base,
    loaded: text.loaded,
    idleIn: idleIn(session),
    notice: session.notice,
    draft: session.drafts[0] ?? null,
    keepsDrafts: session.keepsDrafts,
  };
}

function statusOf(session: Session): LockStatus {
  const { hold, notice, failures } = session;
  if (failures > 0) return 'offline';
  switch (hold.kind) {
    case 'held':
      return 'mine';
    case 'ending':
      return hold.taker ? 'taking' : isYielding(session) ? 'lost' : 'mine';
    case 'over':
      return notice?.kind === 'taken' ? 'taken' : 'lost';
    case 'asking':
      if (hold.how === 'move') return statusOfMove(session);
      return hold.how === 'take' ? 'taking' : statusOfOthers(session);
    case 'calling':
      return statusOfMove(session);
    case 'none':
      return statusOfOthers(session);
  }
}

/** The other tab gives it back before this one gets it. That is no moment for anybody to be told that it is free. */
function statusOfMove(session: Session): LockStatus {
  return isOthers(session) ? statusOfOthers(session) : 'other-tab';
}

function statusOfOthers(session: Session): LockStatus {
  const { notice } = session;
  if (!isOthers(session)) return 'free';
  if (isOwnElsewhere(session)) return 'other-tab';
  return notice?.kind === 'taken' || notice?.kind === 'lost' ? notice.kind : 'other';
}

function isEditable(session: Session): boolean {
  const { hold, text, role, lock, managesText, failures } = session;
  if (role === 'viewer' || lock === null) return false;
  // Text on which nobody may build any more, or that is not here yet.
  if (managesText && (text.base === null || text.isStale)) return false;
  switch (hold.kind) {
    case 'held':
      return true;
    case 'ending':
      return !isYielding(session);
    case 'asking':
      // Not for long: either the answer is a yes, or what is typed meanwhile becomes a draft.
      return hold.how === 'acquire' && !isOthers(session);
    case 'none':
      return !isOthers(session) && failures === 0;
    case 'calling':
    case 'over':
      return false;
  }
}

function idleIn({ hold, failures, times, activityAt, now }: Session): number | null {
  if (hold.kind !== 'held' || failures > 0) return null;
  const left = activityAt / 1000 + times.idle - now / 1000;
  return left <= times.idleWarning ? Math.max(0, Math.ceil(left)) : null;
}
