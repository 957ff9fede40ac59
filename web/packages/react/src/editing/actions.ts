import { newId } from '../protocol/tab';
import type { DocumentController } from './documentController';
import type { Input } from './machine/inputs';
import { isOffline, type State, wantedDraft } from './machine/state';
import type { DocumentLockActions } from './view/documentLock';

/** The actions of a component; the same functions as long as the controller exists. */
export function actionsOf(controller: DocumentController, retryLive: () => void): DocumentLockActions {
  async function obtain(input: Input): Promise<boolean> {
    controller.take(input);
    const { hold } = await controller.until(isDecided);
    return hold.kind === 'held';
  }

  const shown = () => controller.getState().draft?.id ?? '';

  return {
    acquireLock: () => obtain({ kind: 'edit-requested', how: 'acquire' }),
    forceTakeLock: () => obtain({ kind: 'edit-requested', how: 'take' }),
    continueHere: () => obtain({ kind: 'continue-requested', request: newId() }),
    async releaseLock() {
      controller.take({ kind: 'stop-requested' });
      await controller.until(
        ({ hold }) =>
          hold.kind !== 'releasing' && !(hold.kind === 'requested' && hold.purpose.kind === 'release'),
      );
    },
    async save() {
      controller.take({ kind: 'save-requested' });
      const revision = controller.current.text?.revision ?? 0;
      const { text } = await controller.until(isSaveOver);
      // `hasUnsavedText` does not answer this: a refused text was put aside, and is not unsaved either.
      return (text?.acknowledged ?? 0) >= revision;
    },
    noteActivity: () => controller.take({ kind: 'activity' }),
    noteChange: (content) => controller.take({ kind: 'typed', content }),
    async restoreDraft(id) {
      const wanted = id ?? shown();
      controller.take({ kind: 'restore-requested', id: wanted });
      const { drafts } = await controller.until(({ hold }) => wantedDraft(hold)?.id !== wanted);
      return drafts.restored.includes(wanted);
    },
    discardDraft: (id) => controller.take({ kind: 'draft-discarded', id: id ?? shown() }),
    dismissNotice: () => controller.take({ kind: 'notice-dismissed' }),
    retry() {
      controller.take({ kind: 'retry-requested' });
      retryLive();
    },
    reload: () => controller.take({ kind: 'reload-requested' }),
  };
}

/** Held with the newest text, or not available. */
function isDecided(state: State): boolean {
  const { hold, text } = state;
  if (hold.kind === 'calling-tabs' || hold.kind === 'requested') return false;
  return !(hold.kind === 'held' && text?.isStale && !isOffline(state));
}

function isSaveOver(state: State): boolean {
  return isOffline(state) || (!state.text?.isSaveAsked && state.text?.saving?.kind !== 'sent');
}
