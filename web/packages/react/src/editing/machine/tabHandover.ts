import type { TabMessage } from '../../tabs/tabs';
import { ask } from './acquisition';
import { type Calling, emit, type Session } from './state';
import { yieldToTab } from './tabYield';

/**
 * A tab that can hear answers within a few milliseconds, also a hidden one; on a busy machine it may take a second. Others are
 * frozen, gone or elsewhere, and only then is this waited for.
 */
const HEARD_WITHIN_MS = 1_200;
/** As long as the service lets a taker wait. */
const DONE_WITHIN_MS = 3_000;

/** Somebody goes on at this tab: the one that holds the lock is asked to save before the lock is moved. */
export function callTabs(session: Session, request: string): Session {
  const { hold, role } = session;
  if (role === 'viewer' || hold.kind !== 'none') return ask(session, 'move');
  const calling = wait({ ...session, notice: null }, { request, savers: 0 }, HEARD_WITHIN_MS);
  return emit(calling, { kind: 'tell-tabs', message: { kind: 'wanted', request } });
}

/** What another tab says. */
export function hearTab(session: Session, { kind, request }: TabMessage): Session {
  if (kind === 'wanted') return yieldToTab(session, request);
  const { hold } = session;
  if (hold.kind !== 'calling' || hold.request !== request) return session;
  // A tab that slept may still believe that it holds the lock: each that has heard is waited for.
  const savers = hold.savers + (kind === 'heard' ? 1 : -1);
  if (savers <= 0) return moveHere(session);
  return hold.savers === 0
    ? wait(session, { request, savers }, DONE_WITHIN_MS)
    : { ...session, hold: { ...hold, savers } };
}

/** Enough waited, if it is so late, or if the alarm for `rung` says so: clocks and timers differ by a little. */
export function runOut(session: Session, rung?: number): Session {
  const { hold, now } = session;
  const isOver = hold.kind === 'calling' && (hold.until === rung || now >= hold.until);
  return isOver ? moveHere(session) : session;
}

function wait(session: Session, calling: Pick<Calling, 'request' | 'savers'>, afterMs: number): Session {
  const until = session.now + afterMs;
  return emit(
    { ...session, hold: { kind: 'calling', ...calling, until } },
    { kind: 'set-alarm', until, afterMs },
  );
}

/** Whatever became of the other tab's text: what it has not saved by now is rescued when it does. */
function moveHere(session: Session): Session {
  return { ...session, hold: { kind: 'asking', how: 'move', isUnwanted: false } };
}
