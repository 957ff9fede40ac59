import { acquireAnswered, requestLock, typed } from './acquisition';
import { beatAnswered, loadAnswered, lookAnswered, releaseAnswered } from './answers';
import { retry } from './calls';
import { requestRestore } from './draftRestoration';
import { discardDraft, draftsFound, withDrafts } from './drafts';
import { sendDue } from './dueRequests';
import type { Input } from './inputs';
import { advance, hidePage, removeComponent, returnComponent, showPage } from './lifecycle';
import { applyLiveEvent } from './liveEvents';
import { hostReady, stop } from './release';
import { saveAnswered } from './save';
import { isDirty, type State, withText } from './state';
import { callTabs, endWait, hearTab } from './tabHandover';

/** The longest wait for an earlier controller of the page: longer than one request may take. */
const WAIT_MS = 15_000;

/** The state after `input` at the time `now`, with the effects that it requires. */
export function next(before: State, input: Input, now: number): State {
  return sendDue(take(advance({ ...before, effects: [] }, now), input));
}

function take(state: State, input: Input): State {
  switch (input.kind) {
    case 'tick':
      return state;
    case 'activity':
      return { ...state, activityAt: state.now };
    case 'typed':
      return typed(state, input.content);
    case 'edit-requested':
      return requestLock(state, input.how);
    case 'continue-requested':
      return callTabs(state, input.request);
    case 'tab-message':
      return hearTab(state, input.message);
    case 'alarm':
      return endWait(state, input.until);
    case 'stop-requested':
      return stop(state);
    case 'save-requested':
      return withText(state, { isSaveAsked: isDirty(state) });
    case 'retry-requested':
      return retry(state);
    case 'reload-requested':
      return withText(state, { isStale: true });
    case 'role-changed':
      return { ...state, role: input.role };
    case 'notice-dismissed':
      return { ...state, notice: null };
    case 'drafts-found':
      return draftsFound(state, input.drafts);
    case 'restore-requested':
      return requestRestore(state, input.id);
    case 'draft-discarded':
      return discardDraft(state, input.id);
    case 'drafts-kept':
      return withDrafts(state, { areKept: input.areKept });
    case 'host-ready':
      return hostReady(state, input.serial, input.content);
    case 'earlier-save-started':
      return { ...state, waitsUntil: state.now + WAIT_MS };
    case 'earlier-save-ended':
      return { ...state, waitsUntil: state.now };
    case 'page-shown':
      return showPage(state);
    case 'page-hiding':
      return hidePage(state, input.content);
    case 'component-removed':
      return removeComponent(state);
    case 'component-returned':
      return returnComponent(state);
    case 'live':
      return applyLiveEvent(state, input.event);
    case 'acquire-answered':
      return acquireAnswered(state, input.serial, input.answer);
    case 'beat-answered':
      return beatAnswered(state, input.serial, input.answer);
    case 'look-answered':
      return lookAnswered(state, input.serial, input.answer);
    case 'release-answered':
      return releaseAnswered(state, input.serial, input.answer);
    case 'load-answered':
      return loadAnswered(state, input.serial, input.answer);
    case 'save-answered':
      return saveAnswered(state, input.serial, input.answer);
  }
}
