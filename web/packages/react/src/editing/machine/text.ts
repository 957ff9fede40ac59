import { type Content, isSameContent, type LoadedDocument } from '../../protocol/content';
import { forgetSame, workingDraft } from './drafts';
import { emit, isDirty, type State, withText } from './state';

/** Replaces the text by the editor's content, and stores it as a draft. Unchanged if the host manages the text. */
export function change(state: State, content: Content): State {
  const { text, now } = state;
  if (!text) return state;
  const changed = withText(
    { ...state, activityAt: now },
    {
      current: content,
      revision: text.revision + 1,
      changedAt: now,
      unsavedSince: isDirty(state) ? text.unsavedSince : now,
    },
  );
  return emit(changed, { kind: 'keep-draft', draft: workingDraft(changed) });
}

/** The service's text. It does not replace unsaved changes: the grant's version decides about those. */
export function loaded(state: State, document: LoadedDocument): State {
  const { text } = state;
  if (!text || isDirty(state) || text.saving) return state;
  const isShown =
    text.loaded !== null && text.base === document.version && isSameContent(text.current, document.content);
  return forgetSame(
    withText(state, {
      base: document.version,
      current: document.content,
      acknowledged: text.revision,
      isStale: false,
      loaded: isShown ? text.loaded : document,
    }),
  );
}
