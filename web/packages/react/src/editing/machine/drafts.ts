import type { Draft } from '../../drafts/draft';
import { isSameContent } from '../../protocol/content';
import type { Notice } from '../terms/notices';
import { EDIT, emit, isDirty, isOwnElsewhere, type State, wantedDraft, withText } from './state';

/**
 * Searches this browser for drafts, once they may be offered.
 *
 * While the same user edits in another tab, a draft may be that tab's text, which it is about to save. The text is loaded
 * first: a draft with the same content belongs to a save whose answer is still under way.
 */
export function listDrafts(state: State): State {
  const { known, text, drafts } = state;
  if (isOwnElsewhere(state)) {
    const own = drafts.offered.filter((draft) => isOwn(state, draft));
    return withDrafts(state, {
      areDue: true,
      offered: own.length < drafts.offered.length ? own : drafts.offered,
    });
  }
  if (!drafts.areDue || known === null || text?.isStale || state.leaving) return state;
  return emit(withDrafts(state, { areDue: false }), { kind: 'list-drafts' });
}

/** Drafts that earlier visits have left in this browser. */
export function draftsFound(state: State, found: readonly Draft[]): State {
  // The lock has moved to another tab in the meantime: the search is repeated.
  if (isOwnElsewhere(state)) return state;
  const { offered, restored } = state.drafts;
  const listed = new Set([...offered.map(({ id }) => id), ...restored]);
  const fresh = found.filter((draft) => !isOwn(state, draft) && !listed.has(draft.id));
  return forgetSame(withDrafts(state, { offered: [...offered, ...fresh] }));
}

export function discardDraft(state: State, id: string): State {
  if (!findDraft(state, id)) return state;
  const { hold } = state;
  const kept: State = wantedDraft(hold)?.id === id ? { ...state, hold: withoutDraft(hold) } : state;
  return drop(kept, [id]);
}

function withoutDraft(hold: State['hold']): State['hold'] {
  if (hold.kind === 'held') return { ...hold, restoring: null };
  return hold.kind === 'requested' ? { ...hold, purpose: EDIT } : hold;
}

/** Text that cannot become a version is offered as a draft, and the editor gets the service's text. */
export function putAside(state: State, notice: Notice | null): State {
  const noticed = notice ? { ...state, notice } : state;
  if (!isDirty(state)) return noticed;
  const draft = workingDraft(state);
  const { offered, number } = state.drafts;
  return emit(
    withText(withDrafts(noticed, { offered: [draft, ...offered], number: number + 1, restored: [] }), {
      saved: state.text?.revision ?? 0,
      isStale: true,
      isSaveAsked: false,
    }),
    { kind: 'keep-draft', draft },
  );
}

/** The service has all changes: no draft is needed. */
export function acknowledge(state: State): State {
  if (isDirty(state)) return state;
  return drop(withDrafts(state, { restored: [] }), [draftId(state), ...state.drafts.restored]);
}

/** Drops drafts with the document's content: their save had arrived, and only the answer had not. */
export function forgetSame(state: State): State {
  const { text, drafts } = state;
  if (!text || text.base === null || text.isStale) return state;
  const same = drafts.offered.filter(({ content }) => isSameContent(content, text.current));
  return same.length === 0
    ? state
    : drop(
        state,
        same.map(({ id }) => id),
      );
}

export function findDraft({ drafts }: State, id: string): Draft | undefined {
  return drafts.offered.find((draft) => draft.id === id);
}

export function withDrafts(state: State, changes: Partial<State['drafts']>): State {
  return { ...state, drafts: { ...state.drafts, ...changes } };
}

export function workingDraft(state: State): Draft {
  const { userId, documentId, text, now } = state;
  return {
    id: draftId(state),
    userId,
    documentId,
    content: text?.current ?? '',
    baseVersion: text?.base ?? 0,
    changedAt: now,
  };
}

function drop(state: State, ids: readonly string[]): State {
  return emit(
    withDrafts(state, { offered: state.drafts.offered.filter(({ id }) => !ids.includes(id)) }),
    ...ids.map((id) => ({ kind: 'drop-draft', id }) as const),
  );
}

function draftId({ drafts }: State): string {
  return `${drafts.prefix}-${drafts.number}`;
}

function isOwn({ drafts }: State, { id }: Draft): boolean {
  return id.startsWith(drafts.prefix);
}
