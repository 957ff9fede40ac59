import { type Content, isSameContent } from '../../protocol/content';
import type { Person } from '../../protocol/messages.generated';
import type { Notice, TextOutcome } from '../terms/notices';
import { emit, isDirty, isYielding, NOT_HELD, type Releasing, type State } from './state';
import { change } from './text';

/** How long a taker's save waits for the host and for an autosave under way. The service waits for about 3 s. */
const HURRY_MS = 1_000;
/** How long any other release waits for the host. */
const PREPARE_MS = 10_000;

/** Starts a release: the host prepares, then one request saves and releases. */
export function end(state: State, reason: Releasing['reason'], taker: Person | null = null): State {
  const { hold, now, text, times } = state;
  if (hold.kind !== 'held') return state;
  const serial = state.serial + 1;
  const releasing: Releasing = {
    kind: 'releasing',
    fence: hold.fence,
    // A heartbeat that arrives after the release would report a lost lock. It is sent only if the release takes long;
    // a hold outlasts two heartbeats.
    beatAt: Math.max(hold.beatAt, now + 1000 * times.heartbeat),
    reason,
    taker,
    callers: [],
    preparing: { serial, revision: text?.revision ?? 0 },
    hurryAt: now + (taker ? HURRY_MS : PREPARE_MS),
  };
  return emit({ ...state, serial, hold: releasing }, { kind: 'prepare', serial });
}

/** The user stops editing. */
export function stop(state: State): State {
  const { hold } = state;
  if (hold.kind === 'calling-tabs') return { ...state, hold: NOT_HELD };
  if (hold.kind === 'requested') return { ...state, hold: { ...hold, purpose: { kind: 'release' } } };
  return end(state, 'released');
}

/** The host is ready, perhaps with a newer text. Changes since the call to the host are newer still. */
export function hostReady(state: State, serial: number, content: Content | undefined): State {
  const { hold, text } = state;
  if (hold.kind !== 'releasing' || hold.preparing?.serial !== serial) return state;
  const ready: State = { ...state, hold: { ...hold, preparing: null } };
  if (!text || content === undefined || text.revision > hold.preparing.revision) return ready;
  return isSameContent(content, text.current) ? ready : change(ready, content);
}

/** A user or another tab waits for the lock that is being released. */
export function hurry(state: State, taker: Person | null): State {
  const { hold, now } = state;
  if (hold.kind !== 'releasing' || hold.taker) return state;
  return { ...state, hold: { ...hold, taker, hurryAt: Math.min(hold.hurryAt, now + HURRY_MS) } };
}

/** The lock is released. `outcome` is that of the text, for a user whose lock was taken. */
export function finishRelease(state: State, outcome: TextOutcome): State {
  const { hold } = state;
  if (hold.kind !== 'releasing') return state;
  const { taker, reason, fence, callers } = hold;
  const notice: Notice = taker
    ? { kind: 'taken', by: taker, outcome }
    : isYielding(state)
      ? { kind: 'lost', why: 'moved', outcome }
      : { kind: reason };
  const released = { ...state, notice };
  // Typed after the save for the taker was sent: the service decides between a version and a draft.
  if (isYielding(state) && isDirty(state)) return { ...released, hold: { kind: 'ended', fence, callers } };
  return letGo(released);
}

/** Nothing is held or unsaved: the waiting tabs get a message. */
export function letGo(state: State): State {
  return emit(
    { ...state, hold: NOT_HELD },
    ...callersOf(state).map(
      (request) => ({ kind: 'tell-tabs', message: { kind: 'done', request } }) as const,
    ),
  );
}

export function callersOf({ hold }: State): readonly string[] {
  return hold.kind === 'releasing' || hold.kind === 'ended' ? hold.callers : [];
}
