import { compareFences } from '../../protocol/versions';
import type { BeatAnswer, LoadAnswer, LookAnswer, Refused } from '../terms/service';
import { reached, settle, unreached } from './calls';
import { applyLock } from './lockUpdate';
import { type Loss, lose } from './loss';
import { finishRelease } from './release';
import { confirm, type Hold, isReleasing, type State, withBeatAt, withText } from './state';
import { loaded } from './text';

export function beatAnswered(before: State, serial: number, answer: BeatAnswer): State {
  const state = settle(before, 'beat', serial);
  if (!state) return before;
  switch (answer.kind) {
    case 'unreachable':
      return withBeatAt(unreached(state), state.now);
    case 'extended':
      return applyLock(confirm(reached(state)), answer.lock);
    case 'lost':
      // Our own release was faster, and its answer says more: the outcome of the text.
      if (state.hold.kind === 'releasing' && isReleasing(state)) return reached(state);
      return lose({ ...reached(state), lookAt: state.now }, lossOf(answer, state.hold));
    case 'refused':
      return lose(reached(state), { kind: 'lost', why: 'not-allowed' });
  }
}

function lossOf({ holder }: Extract<BeatAnswer, { kind: 'lost' }>, hold: Hold): Loss {
  // The save for a taker is under way, and the taker no longer waits for it.
  const taker = hold.kind === 'releasing' ? hold.taker : null;
  if (taker && holder?.user_id === taker.user_id) return { kind: 'taken', by: taker };
  // Still this tab's, but not extended: a viewer cannot keep a lock.
  if (holder?.tab_is_mine) return { kind: 'lost', why: 'not-allowed' };
  return { kind: 'lost', why: holder?.same_user ? 'moved' : 'expired' };
}

export function lookAnswered(before: State, serial: number, answer: LookAnswer): State {
  const state = settle(before, 'look', serial);
  if (!state) return before;
  if (answer.kind === 'unreachable') return unreached(state);
  if (answer.kind === 'refused') return { ...reached(state), notice: noticeOf(answer) };
  const seen = applyLock(reached(state), answer.lock);
  const { hold } = seen;
  const isStillMine =
    hold.kind === 'held' &&
    answer.lock.lock_holder?.tab_is_mine === true &&
    compareFences(answer.lock.version.fence, hold.fence) === 0;
  return isStillMine ? confirm(seen) : seen;
}

export function releaseAnswered(before: State, serial: number, answer: LookAnswer): State {
  const state = settle(before, 'release', serial);
  if (!state) return before;
  if (answer.kind === 'unreachable') return unreached(state);
  const released = finishRelease(reached(state), { kind: 'nothing-unsaved' });
  return answer.kind === 'seen' ? applyLock(released, answer.lock) : released;
}

export function loadAnswered(before: State, serial: number, answer: LoadAnswer): State {
  const state = settle(before, 'load', serial);
  if (!state) return before;
  if (answer.kind === 'unreachable') return unreached(state);
  if (answer.kind === 'loaded') return loaded(reached(state), answer.document);
  return { ...withText(reached(state), { isStale: false }), notice: noticeOf(answer) };
}

function noticeOf({ code, message }: Refused) {
  return { kind: 'refused', code, message } as const;
}
