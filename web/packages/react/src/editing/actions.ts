import { newId } from '../protocol/tab';
import type { DocumentSession } from './documentController';
import type { Input } from './machine/inputs';
import type { Session } from './machine/state';
import type { DocumentLockActions } from './view/documentLock';

/** What a component can do, each once for the session's whole life. */
export function actionsOf(session: DocumentSession, retryLive: () => void): DocumentLockActions {
  async function obtain(input: Input): Promise<boolean> {
    session.take(input);
    const { hold } = await session.until(isDecided);
    return hold.kind === 'held';
  }

  const shown = () => session.getState().draft?.id ?? '';

  return {
    acquireLock: () => obtain({ kind: 'edit-asked', how: 'acquire' }),
    forceTakeLock: () => obtain({ kind: 'edit-asked', how: 'take' }),
    continueHere: () => obtain({ kind: 'continue-asked', request: newId() }),
    async releaseLock() {
      session.take({ kind: 'stop-asked' });
      await session.until(
        ({ hold }) => hold.kind !== 'ending' && !(hold.kind === 'asking' && hold.isUnwanted),
      );
    },
    async save() {
      session.take({ kind: 'save-asked' });
      const { revision } = session.current.text;
      const { text } = await session.until(isSaveOver);
      // Not whether anything is unsaved: a text that was refused is not either, since it was put aside.
      return text.acknowledged >= revision;
    },
    noteActivity: () => session.take({ kind: 'touched' }),
    noteChange: (content) => session.take({ kind: 'typed', content }),
    async restoreDraft(id) {
      const wanted = id ?? shown();
      session.take({ kind: 'draft-wanted', id: wanted });
      const { restored } = await session.until(({ restoring }) => restoring?.id !== wanted);
      return restored.includes(wanted);
    },
    discardDraft: (id) => session.take({ kind: 'draft-discarded', id: id ?? shown() }),
    dismissNotice: () => session.take({ kind: 'notice-dismissed' }),
    retry() {
      session.take({ kind: 'retry-asked' });
      retryLive();
    },
    reload: () => session.take({ kind: 'reload-asked' }),
  };
}

/** Held with the newest text, or not to be had. */
function isDecided({ hold, text, failures }: Session): boolean {
  if (hold.kind === 'calling' || hold.kind === 'asking') return false;
  return !(hold.kind === 'held' && text.isStale && failures === 0);
}

function isSaveOver({ isSaveAsked, saving, failures }: Session): boolean {
  return failures > 0 || (!isSaveAsked && (saving === null || saving.isUnknown));
}
