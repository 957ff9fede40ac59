import type { Draft } from '../../drafts/draft';
import { type Content, isSameContent, type LoadedDocument } from '../../protocol/content';
import type { Notice } from '../terms/notices';
import { emit, isDirty, isOthers, type Session } from './state';

/** The editor's text is this now. */
export function change(session: Session, content: Content): Session {
  const { text, now } = session;
  const changed = {
    ...session,
    activityAt: now,
    text: {
      ...text,
      current: content,
      revision: text.revision + 1,
      changedAt: now,
      unsavedSince: isDirty(session) ? text.unsavedSince : now,
    },
  };
  return emit(changed, { kind: 'keep-draft', draft: workingDraft(changed) });
}

/** Somebody has typed. In a free document that asks for the lock. */
export function typed(session: Session, content: Content): Session {
  const { hold, text, role, managesText } = session;
  if (role === 'viewer' || (managesText && text.base === null)) return session;
  if (!managesText)
    return hold.kind === 'none' && !isOthers(session)
      ? ask(session)
      : { ...session, activityAt: session.now };
  if (hold.kind !== 'none') return change(session, content);
  // Editors report changes that are none, when they put a text into their own form.
  if (isSameContent(content, text.current)) return session;
  const changed = change(session, content);
  return isOthers(session)
    ? putAside(changed, { kind: 'typed-kept', by: session.lock?.lock_holder ?? null })
    : ask(changed);
}

function ask(session: Session): Session {
  return {
    ...session,
    activityAt: session.now,
    hold: { kind: 'asking', how: 'acquire', isUnwanted: false },
    notice: null,
  };
}

/** What was typed cannot become a version: it is offered as a draft, and the editor gets the service's text. */
export function putAside(session: Session, notice: Notice | null): Session {
  const said = notice ? { ...session, notice } : session;
  if (!isDirty(session)) return said;
  const draft = workingDraft(session);
  const { text } = session;
  return emit(
    {
      ...said,
      drafts: [draft, ...session.drafts],
      draftNumber: session.draftNumber + 1,
      restored: [],
      isSaveAsked: false,
      text: { ...text, saved: text.revision, isStale: true },
    },
    { kind: 'keep-draft', draft },
  );
}

/** The service has everything that was typed: nothing has to be kept here. */
export function acknowledge(session: Session): Session {
  if (isDirty(session)) return session;
  const gone = [draftId(session), ...session.restored];
  return emit(
    {
      ...session,
      restored: [],
      drafts: session.drafts.filter(({ id }) => !gone.includes(id)),
    },
    ...gone.map((id) => ({ kind: 'drop-draft', id }) as const),
  );
}

/** The service's text. Not taken over what somebody has typed meanwhile: the grant's version decides about that. */
export function loaded(session: Session, document: LoadedDocument): Session {
  if (isDirty(session) || session.saving) return session;
  const { text } = session;
  const isShown =
    text.loaded !== null && text.base === document.version && isSameContent(text.current, document.content);
  return forgetSame({
    ...session,
    text: {
      ...text,
      base: document.version,
      current: document.content,
      acknowledged: text.revision,
      isStale: false,
      loaded: isShown ? text.loaded : document,
    },
  });
}

/** Drafts that say what the document says anyway: their save had arrived, and only the answer had not. */
export function forgetSame(session: Session): Session {
  const { text, drafts } = session;
  if (text.base === null || text.isStale) return session;
  const same = drafts.filter(({ content }) => isSameContent(content, text.current));
  if (same.length === 0) return session;
  return emit(
    { ...session, drafts: drafts.filter((draft) => !same.includes(draft)) },
    ...same.map(({ id }) => ({ kind: 'drop-draft', id }) as const),
  );
}

/** A draft is wanted as long as the lock is asked for or held. Later it would strike a text that nobody meant. */
export function dropWish(session: Session): Session {
  const { restoring, hold } = session;
  const isOpen = hold.kind === 'held' || (hold.kind === 'asking' && !hold.isUnwanted);
  return restoring && !isOpen ? { ...session, restoring: null } : session;
}

/**
 * Puts the wanted draft into the editor, once the lock and the newest text are here.
 *
 * What was typed and is not saved makes room as a draft of its own; the service's text comes next, and then this again.
 */
export function restore(session: Session): Session {
  const { restoring, hold, text } = session;
  if (!restoring || hold.kind !== 'held' || text.isStale || text.base === null) return session;
  if (isDirty(session)) return putAside(session, null);
  const put = change(
    { ...session, restoring: null, restored: [...session.restored, restoring.id] },
    restoring.content,
  );
  return {
    ...put,
    drafts: put.drafts.filter(({ id }) => id !== restoring.id),
    text: {
      ...put.text,
      loaded: { version: text.base, content: restoring.content, replaced: text.current },
    },
  };
}

function workingDraft(session: Session): Draft {
  const { userId, documentId, text } = session;
  return {
    id: draftId(session),
    userId,
    documentId,
    content: text.current,
    baseVersion: text.base ?? 0,
    changedAt: session.now,
  };
}

function draftId({ draftPrefix, draftNumber }: Session): string {
  return `${draftPrefix}-${draftNumber}`;
}
