import type { TextOutcome } from '../terms/notices';
import type { SaveAnswer, SaveRequest } from '../terms/service';
import { reached, unreached } from './calls';
import { acknowledge, putAside } from './drafts';
import { type Loss, lose, resolveLoss } from './loss';
import { finishRelease, letGo } from './release';
import { emit, isDirty, isYielding, type Saving, type SentText, type State, withText } from './state';

type Release = SaveRequest['release'];

/** Sends the newest text under `fence`; an unanswered save before it is forgotten. */
export function startSave(state: State, fence: string, release: Release, keepAlive = false): State {
  const { text } = state;
  if (!text) return state;
  const request = { content: text.current, baseVersion: text.base ?? 0, fence, release };
  return send(state, { revision: text.revision, request }, keepAlive);
}

/** Sends an unanswered save again unchanged: the service recognizes it if it has it already. */
export function repeatSave(state: State, { revision, request }: SentText, release: Release): State {
  return send(state, { revision, request: { ...request, release } }, false);
}

function send(state: State, sent: SentText, keepAlive: boolean): State {
  const serial = state.serial + 1;
  return emit(
    withText({ ...state, serial }, { saving: { kind: 'sent', serial, ...sent }, isSaveAsked: false }),
    { kind: 'save', serial, request: sent.request, keepAlive },
  );
}

export function saveAnswered(state: State, serial: number, answer: SaveAnswer): State {
  const saving = state.text?.saving;
  if (saving?.kind !== 'sent' || saving.serial !== serial) return state;
  const { revision, request } = saving;
  const settled = withText(reached(state), { saving: null });
  switch (answer.kind) {
    case 'unreachable':
      return unreached(withText(state, { saving: { kind: 'unanswered', revision, request } }));
    case 'saved':
      return kept(settled, saving, answer.version, answer.lockLost);
    case 'rescued':
      return afterSave(
        acknowledge(withText(confirmed(settled, revision), { isStale: true })),
        saving,
        { ...answer },
        EXPIRED,
      );
    case 'refused':
      return refused(settled, saving, answer.code, answer.message);
  }
}

/** The service has the text up to `revision`: as a version, or as a draft beside it. */
function confirmed(state: State, revision: number): State {
  const { saved = 0, acknowledged = 0 } = state.text ?? {};
  return withText(state, {
    saved: Math.max(saved, revision),
    acknowledged: Math.max(acknowledged, revision),
  });
}

function kept(state: State, saving: Saving, version: number, lockLost: boolean | null): State {
  const { text, now } = state;
  if (!text) return state;
  const hadText = saving.revision > text.saved || text.lastSaved !== null;
  const lastSaved = { version, at: now };
  const saved = acknowledge(
    withText(confirmed(state, saving.revision), { base: version, unsavedSince: text.changedAt, lastSaved }),
  );
  const outcome: TextOutcome = hadText ? { kind: 'saved', version } : { kind: 'nothing-unsaved' };
  return afterSave(saved, saving, outcome, lockLost ? EXPIRED : null);
}

/** The same save would be refused again: the text stays in this browser, and is offered there. */
function refused(state: State, saving: Saving, code: string, message: string): State {
  const aside = putAside(state, null);
  const noticed: State = { ...aside, notice: { kind: 'refused', code, message } };
  const mayStillEdit = code !== 'not_allowed' && code !== 'not_found';
  if (!mayStillEdit) return afterSave(aside, saving, { kind: 'kept-locally' }, NOT_ALLOWED);
  return state.hold.kind === 'held' ? noticed : afterSave(noticed, saving, { kind: 'kept-locally' }, EXPIRED);
}

const EXPIRED: Loss = { kind: 'lost', why: 'expired' };
const NOT_ALLOWED: Loss = { kind: 'lost', why: 'not-allowed' };

/** Updates the hold after a settled save; `loss` if the lock has ended in the meantime. */
function afterSave(state: State, { request }: Saving, outcome: TextOutcome, loss: Loss | null): State {
  const { hold } = state;
  switch (hold.kind) {
    case 'held':
      return loss && hold.fence === request.fence ? resolve(lose(state, loss), outcome) : state;
    case 'releasing': {
      const isRelease = request.release !== null && hold.fence === request.fence;
      if (isRelease && (!loss || isYielding(state))) return finishRelease(state, outcome);
      return loss && (isRelease || outcome.kind !== 'saved') ? resolve(lose(state, loss), outcome) : state;
    }
    case 'ended':
      return isDirty(state) ? state : letGo(resolve(state, outcome));
    default:
      return state;
  }
}

/** The outcome applies if nothing was typed after the save was sent. */
function resolve(state: State, outcome: TextOutcome): State {
  return isDirty(state) ? state : resolveLoss(state, outcome);
}
