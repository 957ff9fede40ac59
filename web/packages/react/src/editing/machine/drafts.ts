import type { Draft } from '../../drafts/draft';
import { ask } from './acquisition';
import { emit, isOwnElsewhere, type Session } from './state';
import { forgetSame } from './text';

/**
 * Asks this browser for drafts, once they may be offered.
 *
 * While the same person edits at another tab, what is there may be that tab's text, which it is about to save. The text
 * comes first: a draft that says the same is of a save whose answer is still on its way.
 */
export function listDrafts(session: Session): Session {
  const { lock, text, drafts, areDraftsDue } = session;
  if (isOwnElsewhere(session)) {
    const own = drafts.filter((draft) => isOwn(session, draft));
    return { ...session, areDraftsDue: true, drafts: own.length < drafts.length ? own : drafts };
  }
  if (!areDraftsDue || lock === null || text.isStale || session.leaving) return session;
  return emit({ ...session, areDraftsDue: false }, { kind: 'list-drafts' });
}

/** Drafts that earlier visits have left in this browser. */
export function found(session: Session, drafts: readonly Draft[]): Session {
  // The lock has gone to another tab meanwhile: they are asked for again.
  if (isOwnElsewhere(session)) return session;
  const known = new Set([...session.drafts.map(({ id }) => id), ...session.restored]);
  const fresh = drafts.filter((draft) => !isOwn(session, draft) && !known.has(draft.id));
  return forgetSame({ ...session, drafts: [...session.drafts, ...fresh] });
}

function isOwn({ draftPrefix }: Session, { id }: Draft): boolean {
  return id.startsWith(draftPrefix);
}

/** A draft is wanted in the editor: for that the lock is needed. */
export function wantDraft(session: Session, id: string): Session {
  const draft = find(session, id);
  return draft ? ask({ ...session, restoring: draft }, 'acquire') : session;
}

export function discardDraft(session: Session, id: string): Session {
  const draft = find(session, id);
  if (!draft) return session;
  const { drafts, restoring } = session;
  return emit(
    {
      ...session,
      drafts: drafts.filter((other) => other !== draft),
      restoring: restoring?.id === draft.id ? null : restoring,
    },
    { kind: 'drop-draft', id: draft.id },
  );
}

function find({ drafts }: Session, id: string): Draft | undefined {
  return drafts.find((draft) => draft.id === id);
}
