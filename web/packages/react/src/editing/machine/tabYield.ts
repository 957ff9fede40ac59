import { end, hurry } from './release';
import { emit, isDirty, type Session } from './state';

/** Another tab of the same person wants the lock. If it is here, it is given back with what is unsaved. */
export function yieldToTab(session: Session, request: string): Session {
  const { hold } = session;
  // A page that goes away has sent its last request, and would not hear the answer.
  if ((hold.kind !== 'held' && hold.kind !== 'ending') || session.leaving === 'page') return session;
  const heard = emit(
    { ...session, callers: [...session.callers, request] },
    { kind: 'tell-tabs', message: { kind: 'heard', request } },
  );
  const ending = hurry(end(heard, 'released'), null);
  if (hold.kind === 'ending' && hold.taker) return ending;
  const outcome = { kind: isDirty(session) || session.saving ? 'saving' : 'nothing-unsaved' } as const;
  return { ...ending, notice: { kind: 'lost', why: 'moved', outcome } };
}

/** Tells the tabs that wait, once nothing of this one's text is on its way any more. */
export function answerCallers(session: Session): Session {
  const { hold, callers } = session;
  const isBusy = hold.kind === 'held' || hold.kind === 'ending' || hold.kind === 'over';
  if (callers.length === 0 || isBusy) return session;
  return emit(
    { ...session, callers: [] },
    ...callers.map((request) => ({ kind: 'tell-tabs', message: { kind: 'done', request } }) as const),
  );
}
