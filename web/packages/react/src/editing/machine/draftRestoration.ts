import { requestLock } from './acquisition';
import { findDraft, putAside, withDrafts } from './drafts';
import { isDirty, type State, withText } from './state';
import { change } from './text';

/** The user wants a draft in the editor, which needs the lock. The wish ends with the hold. */
export function requestRestore(state: State, id: string): State {
  const draft = findDraft(state, id);
  if (!draft) return state;
  const requested = requestLock(state, 'acquire');
  const { hold } = requested;
  if (hold.kind === 'held') return { ...requested, hold: { ...hold, restoring: draft } };
  if (hold.kind !== 'requested' || hold.purpose.kind === 'release') return requested;
  return { ...requested, hold: { ...hold, purpose: { kind: 'restore', draft } } };
}

/**
 * Puts the wanted draft into the editor, once the lock and the newest text are here.
 *
 * Unsaved changes become a draft of their own first; the service's text is loaded next, and then this runs again.
 */
export function restore(state: State): State {
  const { hold, text } = state;
  if (hold.kind !== 'held' || !hold.restoring || !text || text.isStale || text.base === null) return state;
  if (isDirty(state)) return putAside(state, null);
  const { id, content } = hold.restoring;
  const { offered, restored } = state.drafts;
  const put = change({ ...state, hold: { ...hold, restoring: null } }, content);
  return withText(
    withDrafts(put, { offered: offered.filter((draft) => draft.id !== id), restored: [...restored, id] }),
    { loaded: { version: text.base, content, replaced: text.current } },
  );
}
