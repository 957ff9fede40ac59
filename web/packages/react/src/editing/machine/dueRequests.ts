import { send } from './calls';
import { restore } from './draftRestoration';
import { listDrafts, putAside } from './drafts';
import { end } from './release';
import { repeatSave, startSave } from './save';
import {
  EDIT,
  emit,
  hasLease,
  isDirty,
  isOffline,
  isOthers,
  isYielding,
  NOT_HELD,
  type Releasing,
  type State,
} from './state';
import { endWait } from './tabHandover';

/**
 * Sends every request that is due. It depends on the state only, not on the last input, so a request that could not be sent or
 * was not answered is still due.
 */
export function sendDue(state: State): State {
  // The page has sent its one request. If it comes back, the rest is sent then.
  if (state.leaving === 'page') return state;
  if (state.now < state.waitsUntil) return state;
  const ready = listDrafts(restore(requestForChanges(endWait(state))));
  const { service, now } = ready;
  if (service.kind === 'unreached' && now < service.retryAt) return ready;
  return [idle, acquire, beat, load, save, release, look].reduce((sent, step) => step(sent), ready);
}

/** For changes made during a release, or just before another user got the lock. */
function requestForChanges(state: State): State {
  const { hold, known } = state;
  if (hold.kind !== 'none' || !isDirty(state)) return state;
  if (state.leaving || state.role === 'viewer') return putAside(state, null);
  if (isOthers(state)) return putAside(state, { kind: 'typed-kept', by: known?.lock.lock_holder ?? null });
  return { ...state, hold: { kind: 'requested', how: 'acquire', purpose: EDIT, serial: null } };
}

function idle(state: State): State {
  const { hold, now, activityAt, times } = state;
  const isIdle = hold.kind === 'held' && !hold.isUnsure && now - activityAt >= 1000 * times.idle;
  // Not while the service is unreachable: the text could not be saved, and the countdown would be false.
  return isIdle && !isOffline(state) ? end(state, 'idle') : state;
}

function acquire(state: State): State {
  const { hold } = state;
  if (hold.kind !== 'requested' || hold.serial !== null) return state;
  if (hold.purpose.kind === 'release' && !isOffline(state)) return { ...state, hold: NOT_HELD };
  const serial = state.serial + 1;
  return emit({ ...state, serial, hold: { ...hold, serial } }, { kind: 'acquire', serial, how: hold.how });
}

function beat(state: State): State {
  const { hold, now, times } = state;
  if (!hasLease(hold) || now < hold.beatAt || state.calls.beat !== null) return state;
  const idleFor = idleSeconds(state);
  const sent = { ...state, hold: { ...hold, beatAt: now + 1000 * times.heartbeat } };
  return send(sent, 'beat', (serial) => ({ kind: 'beat', serial, idleFor }));
}

function load(state: State): State {
  const { hold, text } = state;
  const isCalm = (hold.kind === 'none' || hold.kind === 'held') && !isDirty(state) && !text?.saving;
  if (!text?.isStale || !isCalm || state.calls.load !== null || state.leaving) return state;
  return send(state, 'load', (serial) => ({ kind: 'load', serial }));
}

function save(state: State): State {
  const { hold, text, now } = state;
  if (!text || !('fence' in hold) || (hold.kind === 'held' && hold.isUnsure)) return state;
  const { saving } = text;
  const isReleaseReady = hold.kind === 'releasing' && isReady(hold, now);
  const isHurried = hold.kind === 'releasing' && isYielding(state) && now >= hold.hurryAt;
  if (saving?.kind === 'sent' && !(isHurried && saving.request.release === null)) return state;
  if (saving?.kind === 'unanswered' && !(isHurried && saving.revision < text.revision)) {
    const isNewest = saving.revision === text.revision;
    return repeatSave(state, saving, isReleaseReady && isNewest ? hold.reason : null);
  }
  switch (hold.kind) {
    case 'held':
      return isDirty(state) && isSaveDue(state) ? startSave(state, hold.fence, null) : state;
    case 'releasing':
      return isReleaseReady && hasToSave(state, hold) ? startSave(state, hold.fence, hold.reason) : state;
    case 'ended':
      return isDirty(state) ? startSave(state, hold.fence, null) : state;
  }
}

function release(state: State): State {
  const { hold, now, text } = state;
  if (hold.kind !== 'releasing' || text?.saving || state.calls.release !== null) return state;
  if (!isReady(hold, now) || hasToSave(state, hold)) return state;
  const { reason } = hold;
  return send(state, 'release', (serial) => ({ kind: 'release', serial, reason, keepAlive: false }));
}

function look(state: State): State {
  const { now, times } = state;
  if (now < state.lookAt || state.calls.look !== null) return state;
  // With a socket no further look is needed.
  const lookAt = state.hasSocket ? Number.POSITIVE_INFINITY : now + 1000 * times.refetch;
  return send({ ...state, lookAt }, 'look', (serial) => ({ kind: 'look', serial }));
}

/** The host is ready, or is waited for no longer. */
function isReady({ preparing, hurryAt }: Releasing, now: number): boolean {
  return preparing === null || now >= hurryAt;
}

/** Only a save shows the taker that the previous editor has saved. */
function hasToSave(state: State, { taker }: Releasing): boolean {
  return isDirty(state) || (taker !== null && state.text?.base != null);
}

function isSaveDue({ text, times, now }: State): boolean {
  if (!text) return false;
  const dueAt = Math.min(
    text.changedAt + 1000 * times.autosave,
    text.unsavedSince + 1000 * times.autosaveAtMost,
  );
  return text.isSaveAsked || now >= dueAt;
}

export function idleSeconds({ now, activityAt }: State): number {
  return Math.max(0, (now - activityAt) / 1000);
}
