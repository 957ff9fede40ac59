import { compareFences } from '../../protocol/versions';
import type { BeatAnswer, LoadAnswer, LookAnswer, Refused } from '../terms/service';
import { reached, settle, unreached } from './calls';
import { adopt } from './lockUpdate';
import { ended, type Loss, lose } from './release';
import { type Hold, isReleasing, type Session } from './state';
import { loaded } from './text';

/** The answer to a heartbeat. */
export function beaten(before: Session, serial: number, answer: BeatAnswer): Session {
  const session = settle(before, 'beat', serial);
  if (!session) return before;
  if (answer.kind === 'unreachable') return { ...unreached(session), beatAt: session.now };
  switch (answer.kind) {
    case 'extended':
      return adopt({ ...reached(session), isUnsure: false }, answer.lock);
    case 'lost':
      // It was overtaken by our own release, whose answer says more: what became of the text.
      if (session.hold.kind === 'ending' && isReleasing(session)) return reached(session);
      return lose({ ...reached(session), lookAt: session.now }, lossOf(answer, session.hold));
    case 'refused':
      return lose(reached(session), { kind: 'lost', why: 'not-allowed' });
  }
}

function lossOf({ holder }: Extract<BeatAnswer, { kind: 'lost' }>, hold: Hold): Loss {
  // The save for a taker is still on its way, and the taker has stopped waiting for it.
  const taker = hold.kind === 'ending' ? hold.taker : null;
  if (taker && holder?.user_id === taker.user_id) return { kind: 'taken', by: taker };
  // Still ours by name, but not extended: whoever is a viewer now keeps nothing alive.
  if (holder?.tab_is_mine) return { kind: 'lost', why: 'not-allowed' };
  return { kind: 'lost', why: holder?.same_user ? 'moved' : 'expired' };
}

/** The answer to a look. */
export function looked(before: Session, serial: number, answer: LookAnswer): Session {
  const session = settle(before, 'look', serial);
  if (!session) return before;
  if (answer.kind === 'unreachable') return unreached(session);
  if (answer.kind === 'refused') return { ...reached(session), notice: noticeOf(answer) };
  const seen = adopt(reached(session), answer.lock);
  const { hold } = seen;
  const isStillMine =
    hold.kind === 'held' &&
    answer.lock.lock_holder?.tab_is_mine === true &&
    compareFences(answer.lock.version.fence, hold.fence) === 0;
  return isStillMine ? { ...seen, isUnsure: false } : seen;
}

/** The answer to a release. */
export function released(before: Session, serial: number, answer: LookAnswer): Session {
  const session = settle(before, 'release', serial);
  if (!session) return before;
  if (answer.kind === 'unreachable') return unreached(session);
  const given = ended(reached(session), { kind: 'nothing-unsaved' });
  return answer.kind === 'seen' ? adopt(given, answer.lock) : given;
}

/** The answer to asking for the text. */
export function loadAnswered(before: Session, serial: number, answer: LoadAnswer): Session {
  const session = settle(before, 'load', serial);
  if (!session) return before;
  if (answer.kind === 'unreachable') return unreached(session);
  if (answer.kind === 'loaded') return loaded(reached(session), answer.document);
  return { ...reached(session), text: { ...session.text, isStale: false }, notice: noticeOf(answer) };
}

function noticeOf({ code, message }: Refused) {
  return { kind: 'refused', code, message } as const;
}
