import type { Session } from './state';

/** Time goes on. After a gap the page knows nothing any more: the service is asked before anything is saved. */
export function wake(session: Session, now: number): Session {
  const later = Math.max(now, session.now);
  const awake = { ...session, now: later };
  return later - session.now > 1000 * session.times.asleep ? doubt(awake) : awake;
}

function doubt(session: Session): Session {
  const { hold, now } = session;
  if (hold.kind !== 'held') return { ...session, lookAt: now };
  // Requests of before the sleep may never be answered, and must not stand in the way.
  return {
    ...session,
    isUnsure: true,
    beatAt: now,
    lookAt: now,
    calls: { ...session.calls, beat: null, look: null },
  };
}

/** The page can be seen again. Its timers may have been slow, and its socket silent. */
export function show(session: Session): Session {
  const { hold, now, beatAt } = session;
  return {
    ...session,
    // A component that has gone does not come back with the page.
    leaving: session.leaving === 'component' ? 'component' : null,
    lookAt: now,
    retryAt: now,
    beatAt: hold.kind === 'held' ? now : beatAt,
  };
}
