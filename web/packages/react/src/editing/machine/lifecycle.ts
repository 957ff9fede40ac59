import type { Content } from '../../protocol/content';
import { retry, send } from './calls';
import { stop } from './release';
import { startSave } from './save';
import { isDirty, isReleasing, NOT_HELD, type Releasing, type State, withBeatAt } from './state';
import { change } from './text';

/** Browsers limit the total size of requests that outlive their page. A part is for the other members of the request. */
const MAX_KEEP_ALIVE_BYTES = 64 * 1024 - 512;

/** The page is going away: one request saves and releases, if the text is small enough. */
export function hidePage(state: State, content: Content | undefined): State {
  const leaving: State = { ...(content === undefined ? state : change(state, content)), leaving: 'page' };
  const { hold } = leaving;
  switch (hold.kind) {
    case 'held':
    case 'releasing': {
      // A release is under way already: a second one would be wrong.
      if (hold.kind === 'releasing' && isReleasing(leaving)) return leaving;
      const { fence, beatAt } = hold;
      const reason = hold.kind === 'releasing' ? hold.reason : 'released';
      const releasing: Releasing = {
        ...(hold.kind === 'releasing'
          ? hold
          : { kind: 'releasing', fence, beatAt, taker: null, callers: [] }),
        reason,
        preparing: null,
        hurryAt: leaving.now,
      };
      // There is no time to confirm the lock first: the fence decides.
      const released = { ...leaving, hold: releasing };
      // A larger text is stored in this browser, and offered on return.
      return isDirty(released) && isSmall(released)
        ? startSave(released, fence, reason, true)
        : releaseNow(released, reason);
    }
    case 'calling-tabs':
      return { ...leaving, hold: NOT_HELD };
    case 'requested':
      // Nothing was sent yet, and the earlier controller releases what it holds.
      if (leaving.now < leaving.waitsUntil) return { ...leaving, hold: NOT_HELD };
      // It may have been granted, and the answer will not arrive.
      return releaseNow({ ...leaving, hold: { ...hold, purpose: { kind: 'release' } } }, 'released');
    default:
      return leaving;
  }
}

/** The component was removed and the page remains: there is time for a complete release. */
export function removeComponent(state: State): State {
  return state.leaving ? state : stop({ ...state, leaving: 'component' });
}

/** The component is back: the known state may be old. */
export function returnComponent(state: State): State {
  if (!state.leaving) return state;
  return { ...state, leaving: null, lookAt: state.now, drafts: { ...state.drafts, areDue: true } };
}

/** The page is visible again. Its timers may have been slow, and its socket silent. */
export function showPage(state: State): State {
  const { hold, now } = state;
  // A removed component does not come back with the page.
  const shown: State = retry({ ...state, leaving: state.leaving === 'component' ? 'component' : null });
  return hold.kind === 'held' ? withBeatAt(shown, now) : shown;
}

/** Advances the time. After a gap the known state is in doubt: the service is asked before anything is saved. */
export function advance(state: State, now: number): State {
  const later = Math.max(now, state.now);
  const awake = { ...state, now: later };
  return later - state.now > 1000 * state.times.asleep ? doubt(awake) : awake;
}

function doubt(state: State): State {
  const { hold, now } = state;
  if (hold.kind !== 'held') return { ...state, lookAt: now };
  return {
    ...state,
    hold: { ...hold, isUnsure: true, beatAt: now },
    lookAt: now,
    // Requests from before the sleep may never be answered, and must not block new ones.
    calls: { ...state.calls, beat: null, look: null },
  };
}

/** After leaving: no request is due or under way. */
export function isSettled({ hold, text, calls }: State): boolean {
  return hold.kind === 'none' && !text?.saving && calls.release === null;
}

function isSmall({ text }: State): boolean {
  return new TextEncoder().encode(JSON.stringify(text?.current)).length <= MAX_KEEP_ALIVE_BYTES;
}

function releaseNow(state: State, reason: Releasing['reason']): State {
  return send(state, 'release', (serial) => ({ kind: 'release', serial, reason, keepAlive: true }));
}
