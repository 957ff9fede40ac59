import type { TextOutcome } from '../terms/notices';
import type { SaveAnswer } from '../terms/service';
import { reached, unreached } from './calls';
import { ended, type Loss, lose, resolveLoss } from './release';
import { emit, isDirty, isYielding, type Saving, type Session } from './state';
import { acknowledge, putAside } from './text';

/** Send the newest text under `fence`; what was sent before and not answered is forgotten. */
export function startSaving(
  session: Session,
  fence: string,
  release: Saving['release'],
  keepAlive = false,
): Session {
  const { text } = session;
  return send(
    session,
    { revision: text.revision, content: text.current, baseVersion: text.base ?? 0, fence, release },
    keepAlive,
  );
}

/** Send what was not answered once more, as it was: the service knows whether it has it already. */
export function saveAgain(session: Session, saving: Saving, release: Saving['release']): Session {
  return send(session, { ...saving, release }, false);
}

type Sent = Omit<Saving, 'serial' | 'isUnknown'>;

function send(
  session: Session,
  { revision, content, baseVersion, fence, release }: Sent,
  keepAlive: boolean,
): Session {
  const serial = session.serial + 1;
  const saving = { serial, revision, content, baseVersion, fence, release, isUnknown: false };
  const request = { content, baseVersion, fence, release };
  return emit(
    { ...session, serial, saving, isSaveAsked: false },
    { kind: 'save', serial, request, keepAlive },
  );
}

/** The answer to a save. */
export function saved(session: Session, serial: number, answer: SaveAnswer): Session {
  const { saving } = session;
  if (saving?.serial !== serial) return session;
  if (answer.kind === 'unreachable') return unreached({ ...session, saving: { ...saving, isUnknown: true } });
  const settled = { ...reached(session), saving: null };
  switch (answer.kind) {
    case 'saved':
      return kept(settled, saving, answer.version, answer.lockLost);
    case 'rescued':
      return rescued(settled, saving, { ...answer });
    case 'refused':
      return refused(settled, saving, answer.code, answer.message);
  }
}

function kept(session: Session, saving: Saving, version: number, lockLost: boolean | null): Session {
  const { text, now } = session;
  const hadText = saving.revision > text.saved || session.lastSaved !== null;
  const known = acknowledge({
    ...session,
    text: {
      ...text,
      base: version,
      saved: Math.max(text.saved, saving.revision),
      acknowledged: Math.max(text.acknowledged, saving.revision),
      unsavedSince: text.changedAt,
    },
    lastSaved: { version, at: now },
  });
  const outcome: TextOutcome = hadText ? { kind: 'saved', version } : { kind: 'nothing-unsaved' };
  return afterSave(known, saving, outcome, lockLost ? EXPIRED : null);
}

/** The service has it as a draft. The document is another one now. */
function rescued(
  session: Session,
  saving: Saving,
  { draftId, version }: { draftId: string; version: number },
): Session {
  const { text } = session;
  const known = acknowledge({
    ...session,
    text: {
      ...text,
      saved: Math.max(text.saved, saving.revision),
      acknowledged: Math.max(text.acknowledged, saving.revision),
      isStale: session.managesText,
    },
  });
  return afterSave(known, saving, { kind: 'rescued', draftId, version }, EXPIRED);
}

/** Trying again is of no use: it stays in this browser, and is offered there. */
function refused(session: Session, saving: Saving, code: string, message: string): Session {
  const aside = putAside(session, null);
  const told = { ...aside, notice: { kind: 'refused', code, message } } as const;
  const mayStillEdit = code !== 'not_allowed' && code !== 'not_found';
  if (mayStillEdit && session.hold.kind === 'held') return told;
  return afterSave(
    mayStillEdit ? told : aside,
    saving,
    { kind: 'kept-locally' },
    mayStillEdit ? EXPIRED : NOT_ALLOWED,
  );
}

const EXPIRED: Loss = { kind: 'lost', why: 'expired' };
const NOT_ALLOWED: Loss = { kind: 'lost', why: 'not-allowed' };

/** What it means for the lock that this save is settled; `loss` if the lock has ended meanwhile. */
function afterSave(session: Session, saving: Saving, outcome: TextOutcome, loss: Loss | null): Session {
  const { hold } = session;
  switch (hold.kind) {
    case 'held':
      return loss && hold.fence === saving.fence ? resolve(lose(session, loss), outcome) : session;
    case 'ending': {
      const isRelease = saving.release !== null && hold.fence === saving.fence;
      if (isRelease && (!loss || isYielding(session))) return ended(session, outcome);
      return loss && (isRelease || outcome.kind !== 'saved')
        ? resolve(lose(session, loss), outcome)
        : session;
    }
    case 'over':
      return isDirty(session) ? session : { ...resolve(session, outcome), hold: { kind: 'none' } };
    default:
      return session;
  }
}

/** The outcome stands if nothing was typed after what was saved. */
function resolve(session: Session, outcome: TextOutcome): Session {
  return isDirty(session) ? session : resolveLoss(session, outcome);
}
