import type { AcquireAnswer } from '../terms/service';
import { reached, settle, unreached } from './calls';
import { adopt, reconsider } from './lockUpdate';
import { end } from './release';
import { isDirty, isOthers, type Session } from './state';
import { putAside } from './text';

/** Somebody wants to edit, to go on at this tab, or to take over. */
export function ask(session: Session, how: 'acquire' | 'move' | 'take'): Session {
  const { hold, role } = session;
  if (role === 'viewer' || (how === 'take' && role !== 'owner')) return session;
  if (hold.kind === 'asking') return { ...session, hold: { ...hold, isUnwanted: false } };
  if (hold.kind !== 'none') return session;
  return { ...session, hold: { kind: 'asking', how, isUnwanted: false }, notice: null };
}

/** The answer to asking for the lock. */
export function asked(before: Session, serial: number, answer: AcquireAnswer): Session {
  const session = settle(before, 'acquire', serial);
  const hold = session?.hold;
  if (!session || hold?.kind !== 'asking') return before;
  if (answer.kind === 'unreachable') return unreached(hold.how === 'take' ? notTaken(session) : session);
  switch (answer.kind) {
    case 'granted':
      return granted(reached(session), answer, hold);
    case 'busy':
      return busy(reached(session), answer, hold.how);
    case 'refused': {
      const { code, message } = answer;
      const refused = { ...reached(session), hold: { kind: 'none' } } as const;
      return putAside({ ...refused, notice: { kind: 'refused', code, message } }, null);
    }
  }
}

type Granted = Extract<AcquireAnswer, { kind: 'granted' }>;
type Busy = Extract<AcquireAnswer, { kind: 'busy' }>;

function granted(
  session: Session,
  { lock, saved }: Granted,
  asking: { how: string; isUnwanted: boolean },
): Session {
  const { now, times } = session;
  const held: Session = {
    ...session,
    hold: { kind: 'held', fence: lock.fence },
    lastFence: lock.fence,
    activityAt: now,
    beatAt: now + 1000 * times.heartbeat,
    // Answers to heartbeats of an earlier hold say nothing about this one.
    calls: { ...session.calls, beat: null },
    notice: asking.how === 'take' ? { kind: 'took', saved } : null,
  };
  const current = reconsider(adopt(held, lock));
  if (current.hold.kind === 'over' || current.hold.kind === 'none') return current;
  const fresh = compareTexts(current, lock.content_version);
  return asking.isUnwanted ? end(fresh, 'released') : fresh;
}

/** There may be a newer text than the one on this page. What was typed on the old one is put aside, never merged. */
function compareTexts(session: Session, newest: number): Session {
  const { text, managesText } = session;
  if (!managesText || text.base === newest) return { ...session, text: { ...text, isStale: false } };
  const aside = isDirty(session) ? putAside(session, { kind: 'outdated' }) : session;
  // A text that was asked for before the grant may be the old one still.
  return { ...aside, calls: { ...aside.calls, load: null }, text: { ...aside.text, isStale: true } };
}

function busy(session: Session, { holder }: Busy, how: string): Session {
  const { lock, now } = session;
  const none: Session = {
    ...session,
    hold: { kind: 'none' },
    lookAt: now,
    // The answer has no version, and may be older than what is known: the look that follows goes before it.
    ...(lock &&
      holder &&
      !isOthers(session) && { lock: { ...lock, locked: true, lock_holder: holder }, isLockGuessed: true }),
  };
  if (isDirty(session)) return putAside(none, { kind: 'typed-kept', by: holder });
  return { ...none, notice: how === 'take' ? { kind: 'not-taken', holder } : { kind: 'busy', holder } };
}

/** A take-over without an answer is not repeated unasked; if it worked, the next key press finds the lock here. */
function notTaken(session: Session): Session {
  const holder = session.lock?.lock_holder ?? null;
  return { ...session, hold: { kind: 'none' }, notice: { kind: 'not-taken', holder }, lookAt: session.now };
}
