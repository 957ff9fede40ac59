import type { Content } from '../../protocol/content';
import { stop } from './release';
import { startSaving } from './save';
import { emit, isDirty, type Session } from './state';
import { change } from './text';

/** Browsers let requests of this size in all outlive their page. Some of it is for the other members. */
const MAX_KEEP_ALIVE_BYTES = 64 * 1024 - 512;

/** The page goes away: one request that saves and gives back, if the text is small enough to be let through. */
export function hidePage(session: Session, content: Content | undefined): Session {
  const told = content === undefined || !session.managesText ? session : change(session, content);
  const leaving = { ...told, leaving: 'page' } as const;
  const { hold } = told;
  switch (hold.kind) {
    case 'held':
    case 'ending': {
      const reason = hold.kind === 'ending' ? hold.reason : 'released';
      const taker = hold.kind === 'ending' ? hold.taker : null;
      const ending = {
        kind: 'ending',
        fence: hold.fence,
        reason,
        taker,
        preparing: { serial: told.serial, revision: told.text.revision },
        isPrepared: true,
        hurryAt: told.now,
      } as const;
      // A release is on its way already: twice would be once too often.
      if (hold.kind === 'ending' && (told.calls.release !== null || told.saving?.release)) return leaving;
      // There is no time to ask first whether the lock is still there: the fence decides.
      const given = { ...leaving, hold: ending, isUnsure: false };
      // What is above the limit is in this browser, and is offered on return.
      return isDirty(given) && isSmall(given)
        ? startSaving(given, hold.fence, reason, true)
        : releaseNow(given, reason);
    }
    case 'calling':
      return { ...leaving, hold: { kind: 'none' } };
    case 'asking':
      // Nothing was sent yet, and the session that is waited for gives back what is held.
      if (told.now < told.waitsUntil) return { ...leaving, hold: { kind: 'none' } };
      // It may have been granted, and nobody will hear of it.
      return releaseNow({ ...leaving, hold: { ...hold, isUnwanted: true } }, 'released');
    default:
      return leaving;
  }
}

/** The component has gone, and the page goes on: there is time to do it properly. */
export function close(session: Session): Session {
  if (session.leaving) return session;
  const leaving = { ...session, leaving: 'component' } as const;
  return stop(leaving);
}

/** It was only away: whatever is known may be old. */
export function comeBack(session: Session): Session {
  return session.leaving ? { ...session, leaving: null, lookAt: session.now, areDraftsDue: true } : session;
}

/** Whether nothing more has to be asked or awaited after leaving. */
export function isSettled({ hold, saving, calls }: Session): boolean {
  return hold.kind === 'none' && saving === null && calls.acquire === null && calls.release === null;
}

function isSmall({ text }: Session): boolean {
  return new TextEncoder().encode(JSON.stringify(text.current)).length <= MAX_KEEP_ALIVE_BYTES;
}

function releaseNow(session: Session, reason: 'released' | 'idle'): Session {
  const serial = session.serial + 1;
  return emit(
    { ...session, serial, calls: { ...session.calls, release: serial } },
    { kind: 'release', serial, reason, keepAlive: true },
  );
}
