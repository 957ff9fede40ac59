import type { LiveEvent } from '../../live/live';
import { defaultTimes } from '../terms/times';
import { reached } from './calls';
import { idleSeconds } from './dueRequests';
import { adopt } from './lockUpdate';
import { lose } from './release';
import { emit, type Session } from './state';

const NEVER = Number.POSITIVE_INFINITY;

/** What the socket tells. */
export function hear(session: Session, event: LiveEvent): Session {
  const { hold, now } = session;
  const isHolding = hold.kind === 'held' || hold.kind === 'ending';
  switch (event.kind) {
    case 'up': {
      const { ttl, heartbeat, idle } = event.welcome;
      return { ...session, times: { ...defaultTimes, ttl, heartbeat, idle, ...session.givenTimes } };
    }
    case 'down':
      return { ...session, hasSocket: false, lookAt: now };
    case 'joined': {
      const joined = { ...reached(session), hasSocket: true, role: event.role, lookAt: NEVER };
      // Heard again after a gap: whether the lock outlived it, only an answer to a heartbeat says.
      return adopt({ ...joined, beatAt: isHolding ? now : session.beatAt }, event.lock, { isTrusted: true });
    }
    case 'changed':
      return adopt(reached(session), event.lock, {
        isForceTaken: event.type === 'document_force_taken',
        by: event.by,
      });
    case 'heartbeat-requested':
      return isHolding ? emit(session, { kind: 'answer-beat', idleFor: idleSeconds(session) }) : session;
    case 'heartbeat':
      if (!isHolding) return session;
      // A no may be the answer to a heartbeat of an earlier hold: it is asked for again, by the sure way.
      if (!event.extended) return { ...session, beatAt: now };
      return { ...reached(session), isUnsure: false, beatAt: now + 1000 * session.times.heartbeat };
    case 'refused':
      return shutOut({ ...session, hasSocket: false, lookAt: now }, event.code);
  }
}

function shutOut(session: Session, code: string): Session {
  // Too many documents on one socket, for instance: then it is asked for every now and then.
  if (code !== 'not_allowed' && code !== 'not_found') return session;
  const { hold } = session;
  if (hold.kind === 'held' || hold.kind === 'ending')
    return lose(session, { kind: 'lost', why: 'not-allowed' });
  return { ...session, notice: { kind: 'refused', code, message: '' } };
}
