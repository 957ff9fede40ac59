import type { Call, Session } from './state';

/** The service has answered. */
export function reached(session: Session): Session {
  return session.failures === 0 ? session : { ...session, failures: 0, retryAt: session.now };
}

/** No answer: try again after a pause, and with a look if nothing else is wanted. */
export function unreached(session: Session): Session {
  const { now, times } = session;
  const failures = session.failures + 1;
  const retryAt = now + 1000 * Math.min(times.retry * 2 ** (failures - 1), times.retryAtMost);
  return { ...session, failures, retryAt, lookAt: Math.min(session.lookAt, retryAt) };
}

/** The session after a request has ended, and whether its answer still counts. */
export function settle(session: Session, call: Call, serial: number): Session | null {
  return session.calls[call] === serial ? { ...session, calls: { ...session.calls, [call]: null } } : null;
}
