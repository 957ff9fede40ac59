import { listDrafts } from './drafts';
import type { Effect } from './effects';
import { end } from './release';
import { saveAgain, startSaving } from './save';
import { type Call, emit, isDirty, isOthers, isYielding, type Session } from './state';
import { runOut } from './tabHandover';
import { answerCallers } from './tabYield';
import { dropWish, putAside, restore } from './text';

/**
 * What has to be asked for, given what is true. Nothing here depends on what has just happened, so a request that
 * could not be sent or was not answered is simply still due.
 */
export function plan(session: Session): Session {
  // Its one request has been sent. If the page comes back, what is still due is done then.
  if (session.leaving === 'page') return session;
  if (session.now < session.waitsUntil) return session;
  const settled = listDrafts(answerCallers(restore(want(runOut(dropWish(session))))));
  const isPausing = settled.failures > 0 && settled.now < settled.retryAt;
  if (isPausing) return settled;
  return [idle, acquire, beat, load, save, release, look].reduce((planned, step) => step(planned), settled);
}

/** Typed while the lock was being given back, or just before somebody else got it. */
function want(session: Session): Session {
  const { hold, lock } = session;
  if (hold.kind !== 'none' || !isDirty(session)) return session;
  if (session.leaving || session.role === 'viewer') return putAside(session, null);
  if (isOthers(session)) return putAside(session, { kind: 'typed-kept', by: lock?.lock_holder ?? null });
  return { ...session, hold: { kind: 'asking', how: 'acquire', isUnwanted: false } };
}

function idle(session: Session): Session {
  const { hold, isUnsure, now, activityAt, times } = session;
  const isIdle = hold.kind === 'held' && !isUnsure && now - activityAt >= 1000 * times.idle;
  // Not while nobody answers: the text could not be saved, and the countdown would be a lie.
  return isIdle && session.failures === 0 ? end(session, 'idle') : session;
}

function acquire(session: Session): Session {
  const { hold } = session;
  if (hold.kind !== 'asking' || session.calls.acquire !== null) return session;
  if (hold.isUnwanted && session.failures === 0) return { ...session, hold: { kind: 'none' } };
  return request(session, 'acquire', (serial) => ({ kind: 'acquire', serial, how: hold.how }));
}

function beat(session: Session): Session {
  const { hold, now, times } = session;
  const isHolding = hold.kind === 'held' || hold.kind === 'ending';
  if (!isHolding || now < session.beatAt || session.calls.beat !== null) return session;
  const idleFor = idleSeconds(session);
  return request({ ...session, beatAt: now + 1000 * times.heartbeat }, 'beat', (serial) => ({
    kind: 'beat',
    serial,
    idleFor,
  }));
}

function load(session: Session): Session {
  const { hold, text, saving } = session;
  const isCalm = (hold.kind === 'none' || hold.kind === 'held') && !isDirty(session) && !saving;
  if (!text.isStale || !isCalm || session.calls.load !== null || session.leaving) return session;
  return request(session, 'load', (serial) => ({ kind: 'load', serial }));
}

function save(session: Session): Session {
  const { hold, saving, now } = session;
  if (hold.kind === 'none' || hold.kind === 'calling' || hold.kind === 'asking') return session;
  if (session.isUnsure) return session;
  const isReady = hold.kind === 'ending' && (hold.isPrepared || now >= hold.hurryAt);
  const isHurried = hold.kind === 'ending' && isYielding(session) && now >= hold.hurryAt;
  if (saving && !saving.isUnknown && !(isHurried && saving.release === null)) return session;
  if (saving?.isUnknown && !(isHurried && saving.revision < session.text.revision)) {
    const isNewest = saving.revision === session.text.revision;
    return saveAgain(session, saving, hold.kind === 'ending' && isReady && isNewest ? hold.reason : null);
  }
  switch (hold.kind) {
    case 'held':
      return isDirty(session) && isSaveDue(session) ? startSaving(session, hold.fence, null) : session;
    case 'ending':
      return isReady && hasToSave(session) ? startSaving(session, hold.fence, hold.reason) : session;
    case 'over':
      return isDirty(session) ? startSaving(session, hold.fence, null) : session;
  }
}

function release(session: Session): Session {
  const { hold, now, saving } = session;
  if (hold.kind !== 'ending' || saving || session.calls.release !== null) return session;
  if (!(hold.isPrepared || now >= hold.hurryAt) || hasToSave(session)) return session;
  const { reason } = hold;
  return request(session, 'release', (serial) => ({ kind: 'release', serial, reason, keepAlive: false }));
}

function look(session: Session): Session {
  const { now, times } = session;
  if (now < session.lookAt || session.calls.look !== null) return session;
  // What the socket tells need not be asked for.
  const later = session.hasSocket ? Number.POSITIVE_INFINITY : now + 1000 * times.refetch;
  return request({ ...session, lookAt: later }, 'look', (serial) => ({ kind: 'look', serial }));
}

/** A taker is told whether the previous editor has saved, and only a save says so. */
function hasToSave(session: Session): boolean {
  const { hold, text } = session;
  return isDirty(session) || (hold.kind === 'ending' && hold.taker !== null && text.base !== null);
}

function isSaveDue({ text, times, now, isSaveAsked }: Session): boolean {
  const dueAt = Math.min(
    text.changedAt + 1000 * times.autosave,
    text.unsavedSince + 1000 * times.autosaveAtMost,
  );
  return isSaveAsked || now >= dueAt;
}

export function idleSeconds({ now, activityAt }: Session): number {
  return Math.max(0, (now - activityAt) / 1000);
}

function request(session: Session, call: Call, effect: (serial: number) => Effect): Session {
  const serial = session.serial + 1;
  return emit({ ...session, serial, calls: { ...session.calls, [call]: serial } }, effect(serial));
}
