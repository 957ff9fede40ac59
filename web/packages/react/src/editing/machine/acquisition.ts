import { type Content, isSameContent } from '../../protocol/content';
import type { AcquireAnswer } from '../terms/service';
import { reached, unreached } from './calls';
import { putAside } from './drafts';
import { applyLock, reconsider } from './lockUpdate';
import { end } from './release';
import { EDIT, isDirty, isOthers, NOT_HELD, type Requested, type State, withText } from './state';
import { change } from './text';

/** Requests the lock: to edit, to move it to this tab, or to take it over. */
export function requestLock(state: State, how: Requested['how']): State {
  const { hold, role } = state;
  if (role === 'viewer' || (how === 'take' && role !== 'owner')) return state;
  if (hold.kind === 'requested')
    return hold.purpose.kind === 'release' ? { ...state, hold: { ...hold, purpose: EDIT } } : state;
  if (hold.kind !== 'none') return state;
  return { ...state, hold: { kind: 'requested', how, purpose: EDIT, serial: null }, notice: null };
}

/** The editor has changed. In a free document that requests the lock. */
export function typed(state: State, content: Content): State {
  const { hold, text, role, now } = state;
  if (role === 'viewer' || text?.base === null) return state;
  const active = { ...state, activityAt: now };
  if (!text) return hold.kind === 'none' && !isOthers(state) ? requestLock(active, 'acquire') : active;
  if (hold.kind !== 'none') return change(state, content);
  // Editors report a change when they convert a text into their own form.
  if (isSameContent(content, text.current)) return state;
  const changed = change(state, content);
  return isOthers(state)
    ? putAside(changed, { kind: 'typed-kept', by: state.known?.lock.lock_holder ?? null })
    : requestLock(changed, 'acquire');
}

export function acquireAnswered(before: State, serial: number, answer: AcquireAnswer): State {
  const { hold } = before;
  if (hold.kind !== 'requested' || hold.serial !== serial) return before;
  const state = { ...before, hold: { ...hold, serial: null } };
  switch (answer.kind) {
    case 'unreachable':
      return unreached(hold.how === 'take' ? notTaken(state) : state);
    case 'granted':
      return granted(reached(state), answer, hold);
    case 'busy':
      return busy(reached(state), answer, hold.how);
    case 'refused': {
      const { code, message } = answer;
      const refused = { ...reached(state), hold: NOT_HELD };
      return putAside({ ...refused, notice: { kind: 'refused', code, message } }, null);
    }
  }
}

type Granted = Extract<AcquireAnswer, { kind: 'granted' }>;
type Busy = Extract<AcquireAnswer, { kind: 'busy' }>;

function granted(state: State, { lock, saved }: Granted, { how, purpose }: Requested): State {
  const { now, times } = state;
  const held: State = {
    ...state,
    hold: {
      kind: 'held',
      fence: lock.fence,
      beatAt: now + 1000 * times.heartbeat,
      isUnsure: false,
      restoring: purpose.kind === 'restore' ? purpose.draft : null,
    },
    lastFence: lock.fence,
    activityAt: now,
    // Answers to heartbeats of an earlier hold do not apply to this one.
    calls: { ...state.calls, beat: null },
    notice: how === 'take' ? { kind: 'took', saved } : null,
  };
  const current = reconsider(applyLock(held, lock));
  if (current.hold.kind === 'ended' || current.hold.kind === 'none') return current;
  const fresh = compareTexts(current, lock.content_version);
  return purpose.kind === 'release' ? end(fresh, 'released') : fresh;
}

/** The service may have a newer text. Changes to the old one are put aside, never merged. */
function compareTexts(state: State, newest: number): State {
  if (!state.text || state.text.base === newest) return withText(state, { isStale: false });
  const aside = isDirty(state) ? putAside(state, { kind: 'outdated' }) : state;
  // A text that was requested before the grant may be the old one.
  return withText({ ...aside, calls: { ...aside.calls, load: null } }, { isStale: true });
}

function busy(state: State, { holder }: Busy, how: Requested['how']): State {
  const { known, now } = state;
  const none: State = {
    ...state,
    hold: NOT_HELD,
    lookAt: now,
    // The answer has no version and may be older than the known state: the look that follows replaces it.
    ...(known &&
      holder &&
      !isOthers(state) && {
        known: { lock: { ...known.lock, locked: true, lock_holder: holder }, isGuess: true },
      }),
  };
  if (isDirty(state)) return putAside(none, { kind: 'typed-kept', by: holder });
  return { ...none, notice: how === 'take' ? { kind: 'not-taken', holder } : { kind: 'busy', holder } };
}

/** An unanswered take-over is not repeated without a request; if it worked, the next key press finds the lock here. */
function notTaken(state: State): State {
  const holder = state.known?.lock.lock_holder ?? null;
  return { ...state, hold: NOT_HELD, notice: { kind: 'not-taken', holder }, lookAt: state.now };
}
