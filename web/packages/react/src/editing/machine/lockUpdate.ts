import type { Lock, Person } from '../../protocol/messages.generated';
import { compareFences, isNewer, NO_HOLD } from '../../protocol/versions';
import { type Loss, lose } from './loss';
import { end, hurry } from './release';
import { hasLease, isReleasing, type State, withBeatAt, withText } from './state';

export interface Source {
  /** Replaces any known state: the snapshot after a join. */
  readonly isTrusted?: boolean;
  readonly isForceTaken?: boolean;
  readonly by?: Person | null;
}

/** Applies a lock state from the socket or from an answer. Older states are dropped. */
export function applyLock(state: State, lock: Lock, source: Source = {}): State {
  const { known } = state;
  if (known && !source.isTrusted && !isNews(lock, known)) return state;
  const updated = { ...state, known: { lock, isGuess: false } };
  return compareWithHold(known ? markStale(updated, known.lock, lock, source) : updated, lock, source);
}

function isNews(lock: Lock, known: { readonly lock: Lock; readonly isGuess: boolean }): boolean {
  return known.isGuess
    ? !isNewer(known.lock.version, lock.version)
    : isNewer(lock.version, known.lock.version);
}

/** After a grant: events that arrived before its answer, such as a take-over or its end, count from now on. */
export function reconsider(state: State): State {
  return state.known ? compareWithHold(state, state.known.lock, {}) : state;
}

/** After another hold has ended there may be a newer text. */
function markStale(state: State, before: Lock, lock: Lock, { isForceTaken = false }: Source): State {
  const { lastFence } = state;
  const hasEnded = before.locked && (!lock.locked || lock.version.fence !== before.version.fence);
  const isUnheld = before.version.step === NO_HOLD && lock.version.step === NO_HOLD;
  const hasPassedUnseen = before.version.fence !== lock.version.fence && !lock.locked && !isUnheld;
  const isAnothers = before.version.fence !== lastFence || lock.version.fence !== lastFence;
  const isStale = isAnothers && (hasEnded || hasPassedUnseen || isForceTaken);
  return isStale ? withText(state, { isStale }) : state;
}

function compareWithHold(state: State, lock: Lock, source: Source): State {
  const { hold } = state;
  if (!hasLease(hold)) return addTaker(state, lock, source);
  const order = compareFences(lock.version.fence, hold.fence);
  // Older than the grant: made before it, or the store has lost its data. The service is asked.
  if (order < 0) return withBeatAt(state, state.now);
  if (order === 0 && lock.lock_holder?.tab_is_mine) return yieldIfAsked(state, lock);
  // Our own release is under way, and its answer says more: the outcome of the text.
  if (hold.kind === 'releasing' && isReleasing(state)) return state;
  return lose(state, lossOf(lock, source));
}

function yieldIfAsked(state: State, lock: Lock): State {
  const { hold } = state;
  if (lock.taking) {
    const taker = { user_id: lock.taking.user_id, user_name: lock.taking.user_name };
    return hold.kind === 'held' ? end(state, 'released', taker) : hurry(state, taker);
  }
  // The taker has withdrawn before anything was sent. Another tab may still wait.
  if (hold.kind === 'releasing' && hold.taker && !isReleasing(state)) {
    const { fence, beatAt } = hold;
    const kept = { kind: 'held', fence, beatAt, isUnsure: false, restoring: null } as const;
    return { ...state, hold: hold.callers.length > 0 ? { ...hold, taker: null } : kept };
  }
  return state;
}

function lossOf(lock: Lock, { isForceTaken = false, by = null }: Source): Loss {
  if (lock.lock_holder?.same_user) return { kind: 'lost', why: 'moved' };
  return isForceTaken ? { kind: 'taken', by } : { kind: 'lost', why: 'expired' };
}

/** An answer may have reported the loss before the event that names the taker. */
function addTaker(state: State, lock: Lock, { isForceTaken, by = null }: Source): State {
  const { notice, lastFence } = state;
  if (!isForceTaken || notice?.kind !== 'lost' || notice.why !== 'expired' || !lastFence) return state;
  if (compareFences(lock.version.fence, lastFence) <= 0) return state;
  return { ...state, notice: { kind: 'taken', by, outcome: notice.outcome } };
}
