import type { TabMessage } from '../../tabs/tabs';
import { requestLock } from './acquisition';
import { end, hurry } from './release';
import { type CallingTabs, EDIT, emit, hasLease, isDirty, type State } from './state';

/**
 * A responsive tab answers within a few milliseconds, also a hidden one; on a busy machine it may take a second. Only a tab
 * that is frozen, closed or in another browser costs the whole wait.
 */
const HEARD_WITHIN_MS = 1_200;
/** As long as the service lets a taker wait. */
const DONE_WITHIN_MS = 3_000;

/** Moves editing to this tab: the tab that holds the lock is asked to save first. */
export function callTabs(state: State, request: string): State {
  const { hold, role } = state;
  if (role === 'viewer' || hold.kind !== 'none') return requestLock(state, 'move');
  const calling = wait({ ...state, notice: null }, { request, savers: 0 }, HEARD_WITHIN_MS);
  return emit(calling, { kind: 'tell-tabs', message: { kind: 'wanted', request } });
}

/** A message of another tab. */
export function hearTab(state: State, { kind, request }: TabMessage): State {
  if (kind === 'wanted') return yieldToTab(state, request);
  const { hold } = state;
  if (hold.kind !== 'calling-tabs' || hold.request !== request) return state;
  // A tab that was asleep may believe that it holds the lock: each one that answers is waited for.
  const savers = hold.savers + (kind === 'heard' ? 1 : -1);
  if (savers <= 0) return moveHere(state);
  return hold.savers === 0
    ? wait(state, { request, savers }, DONE_WITHIN_MS)
    : { ...state, hold: { ...hold, savers } };
}

/** Ends the wait at its time, or when the alarm for that time fires: clocks and timers differ a little. */
export function endWait(state: State, alarm?: number): State {
  const { hold, now } = state;
  const isOver = hold.kind === 'calling-tabs' && (hold.until === alarm || now >= hold.until);
  return isOver ? moveHere(state) : state;
}

function wait(state: State, calling: Pick<CallingTabs, 'request' | 'savers'>, afterMs: number): State {
  const until = state.now + afterMs;
  return emit(
    { ...state, hold: { kind: 'calling-tabs', ...calling, until } },
    { kind: 'set-alarm', until, afterMs },
  );
}

/** Text that the other tab has not saved by now is rescued when it saves. */
function moveHere(state: State): State {
  return { ...state, hold: { kind: 'requested', how: 'move', purpose: EDIT, serial: null } };
}

/** Another tab of the same user wants the lock. If it is here, it is released with the unsaved text. */
function yieldToTab(state: State, request: string): State {
  const { hold } = state;
  // A page that is going away has sent its last request, and would not receive the answer.
  if (!hasLease(hold) || state.leaving === 'page') return state;
  const heard = emit(state, { kind: 'tell-tabs', message: { kind: 'heard', request } });
  const ending = hurry(end(heard, 'released'), null);
  if (ending.hold.kind !== 'releasing') return ending;
  const called = { ...ending, hold: { ...ending.hold, callers: [...ending.hold.callers, request] } };
  if (called.hold.taker) return called;
  const outcome = { kind: isDirty(state) || state.text?.saving ? 'saving' : 'nothing-unsaved' } as const;
  return { ...called, notice: { kind: 'lost', why: 'moved', outcome } };
}
