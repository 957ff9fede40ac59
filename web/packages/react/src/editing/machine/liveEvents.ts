import type { LiveEvent } from '../../live/live';
import { defaultTimes } from '../terms/times';
import { reached } from './calls';
import { idleSeconds } from './dueRequests';
import { applyLock } from './lockUpdate';
import { lose } from './loss';
import { confirm, emit, hasLease, type State, withBeatAt } from './state';

const NEVER = Number.POSITIVE_INFINITY;

/** The state after an event of the socket. */
export function applyLiveEvent(state: State, event: LiveEvent): State {
  const { hold, now } = state;
  switch (event.kind) {
    case 'up': {
      const { ttl, heartbeat, idle } = event.welcome;
      return { ...state, times: { ...defaultTimes, ttl, heartbeat, idle, ...state.givenTimes } };
    }
    case 'down':
      return { ...state, hasSocket: false, lookAt: now };
    case 'joined': {
      const joined = { ...reached(state), hasSocket: true, role: event.role, lookAt: NEVER };
      // After a gap only the answer to a heartbeat shows that the lock has outlived it.
      return applyLock(withBeatAt(joined, now), event.lock, { isTrusted: true });
    }
    case 'changed':
      return applyLock(reached(state), event.lock, {
        isForceTaken: event.type === 'document_force_taken',
        by: event.by,
      });
    case 'heartbeat-requested':
      return hasLease(hold) ? emit(state, { kind: 'answer-beat', idleFor: idleSeconds(state) }) : state;
    case 'heartbeat':
      if (!hasLease(hold)) return state;
      // A refusal may answer a heartbeat of an earlier hold: REST gives a certain answer.
      if (!event.extended) return withBeatAt(state, now);
      return withBeatAt(confirm(reached(state)), now + 1000 * state.times.heartbeat);
    case 'refused':
      return roomRefused({ ...state, hasSocket: false, lookAt: now }, event.code);
  }
}

function roomRefused(state: State, code: string): State {
  // For instance too many documents on one socket: then the state is requested at intervals.
  if (code !== 'not_allowed' && code !== 'not_found') return state;
  if (hasLease(state.hold)) return lose(state, { kind: 'lost', why: 'not-allowed' });
  return { ...state, notice: { kind: 'refused', code, message: '' } };
}
