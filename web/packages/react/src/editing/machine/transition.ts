import { ask, asked } from './acquisition';
import { beaten, loadAnswered, looked, released } from './answers';
import { discardDraft, found, wantDraft } from './drafts';
import { plan } from './dueRequests';
import type { Input } from './inputs';
import { close, comeBack, hidePage } from './lifecycle';
import { hear } from './liveEvents';
import { prepared, stop } from './release';
import { saved } from './save';
import { isDirty, type Session } from './state';
import { callTabs, hearTab, runOut } from './tabHandover';
import { typed } from './text';
import { show, wake } from './wakeUp';

/** How long a session waits for an earlier one of the same page: longer than one request may take. */
const WAIT_MS = 15_000;

/** What follows from `input` at the time `now`: the session, with what has to be done in its `effects`. */
export function next(before: Session, input: Input, now: number): Session {
  return plan(take(wake({ ...before, effects: [] }, now), input));
}

function take(session: Session, input: Input): Session {
  switch (input.kind) {
    case 'tick':
      return session;
    case 'touched':
      return { ...session, activityAt: session.now };
    case 'typed':
      return typed(session, input.content);
    case 'edit-asked':
      return ask(session, input.how);
    case 'continue-asked':
      return callTabs(session, input.request);
    case 'tab-said':
      return hearTab(session, input.message);
    case 'rang':
      return runOut(session, input.until);
    case 'stop-asked':
      return stop(session);
    case 'save-asked':
      return { ...session, isSaveAsked: isDirty(session) };
    case 'retry-asked':
      return { ...session, retryAt: session.now, lookAt: session.now };
    case 'reload-asked':
      return { ...session, text: { ...session.text, isStale: session.managesText } };
    case 'role-changed':
      return { ...session, role: input.role };
    case 'notice-dismissed':
      return { ...session, notice: null };
    case 'drafts-found':
      return found(session, input.drafts);
    case 'draft-wanted':
      return wantDraft(session, input.id);
    case 'draft-discarded':
      return discardDraft(session, input.id);
    case 'drafts-kept':
      return { ...session, keepsDrafts: input.areKept };
    case 'prepared':
      return prepared(session, input.serial, input.content);
    case 'held-up':
      return { ...session, waitsUntil: session.now + WAIT_MS };
    case 'let-go':
      return { ...session, waitsUntil: session.now };
    case 'shown':
      return show(session);
    case 'page-hiding':
      return hidePage(session, input.content);
    case 'closed':
      return close(session);
    case 'reopened':
      return comeBack(session);
    case 'live':
      return hear(session, input.event);
    case 'acquire-answered':
      return asked(session, input.serial, input.answer);
    case 'beat-answered':
      return beaten(session, input.serial, input.answer);
    case 'look-answered':
      return looked(session, input.serial, input.answer);
    case 'release-answered':
      return released(session, input.serial, input.answer);
    case 'load-answered':
      return loadAnswered(session, input.serial, input.answer);
    case 'save-answered':
      return saved(session, input.serial, input.answer);
  }
}
