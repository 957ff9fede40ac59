import type { Lock, Person } from '../../protocol/messages.generated';
import { compareFences, isNewer } from '../../protocol/versions';
import { end, hurry, type Loss, lose } from './release';
import { isReleasing, type Session } from './state';

export interface Telling {
  /** To be believed whatever was known before: the snapshot after a join. */
  readonly isTrusted?: boolean;
  readonly isForceTaken?: boolean;
  readonly by?: Person | null;
}

/** A state of the lock was told: by the socket, or with an answer. What is not newer is dropped. */
export function adopt(session: Session, lock: Lock, telling: Telling = {}): Session {
  const known = session.lock;
  if (known && !telling.isTrusted && !isNews(lock, known, session.isLockGuessed)) return session;
  return compareWithHold(refresh({ ...session, lock, isLockGuessed: false }, known, telling), lock, telling);
}

function isNews(lock: Lock, known: Lock, isGuessed: boolean): boolean {
  return isGuessed ? !isNewer(known.version, lock.version) : isNewer(lock.version, known.version);
}

/** A grant has come: what was told of it before its answer, such as a take-over or its end, counts from now on. */
export function reconsider(session: Session): Session {
  return session.lock ? compareWithHold(session, session.lock, {}) : session;
}

/** A hold of somebody else has ended: there may be a newer text. */
function refresh(session: Session, known: Lock | null, { isForceTaken = false }: Telling): Session {
  const { lock, text, lastFence, managesText } = session;
  if (!known || !lock || !managesText) return session;
  const hasEnded = known.locked && (!lock.locked || lock.version.fence !== known.version.fence);
  const hasPassedUnseen = known.version.fence !== lock.version.fence && !lock.locked;
  const isAnothers = known.version.fence !== lastFence || lock.version.fence !== lastFence;
  if (!isAnothers || !(hasEnded || hasPassedUnseen || isForceTaken)) return session;
  return { ...session, text: { ...text, isStale: true } };
}

function compareWithHold(session: Session, lock: Lock, telling: Telling): Session {
  const { hold } = session;
  if (hold.kind === 'over') return rename(session, telling);
  if (hold.kind !== 'held' && hold.kind !== 'ending') return rename(session, telling);
  const order = compareFences(lock.version.fence, hold.fence);
  // Older than the grant: made before it, or the store has forgotten. The service is asked.
  if (order < 0) return { ...session, beatAt: session.now };
  if (order === 0 && lock.lock_holder?.tab_is_mine) return yieldIfAsked(session, lock);
  // Our own release is under way, and its answer says more than this: what became of the text.
  if (hold.kind === 'ending' && isReleasing(session)) return session;
  return lose(session, lossOf(lock, telling));
}

function yieldIfAsked(session: Session, lock: Lock): Session {
  const { hold } = session;
  if (lock.taking) {
    const taker = { user_id: lock.taking.user_id, user_name: lock.taking.user_name };
    return hold.kind === 'held' ? end(session, 'released', taker) : hurry(session, taker);
  }
  // The taker has thought better of it before anything was sent. Another tab may still wait for it.
  if (hold.kind === 'ending' && hold.taker && !isReleasing(session)) {
    const isWanted = session.callers.length > 0;
    return { ...session, hold: isWanted ? { ...hold, taker: null } : { kind: 'held', fence: hold.fence } };
  }
  return session;
}

function lossOf(lock: Lock, { isForceTaken = false, by = null }: Telling): Loss {
  if (lock.lock_holder?.same_user) return { kind: 'lost', why: 'moved' };
  return isForceTaken ? { kind: 'taken', by } : { kind: 'lost', why: 'expired' };
}

/** An answer may have told of the loss before the event that says who took it. */
function rename(session: Session, { isForceTaken, by = null }: Telling): Session {
  const { notice, lock, lastFence } = session;
  if (!isForceTaken || notice?.kind !== 'lost' || notice.why !== 'expired' || !lock || !lastFence)
    return session;
  if (compareFences(lock.version.fence, lastFence) <= 0) return session;
  return { ...session, notice: { kind: 'taken', by, outcome: notice.outcome } };
}
