import type { Draft } from '../drafts/draft';
import type { TextOutcome } from '../editing/terms/notices';
import type { DocumentLock } from '../editing/view/documentLock';
import type { LockMessages } from './messages';

/** A text to compare with the current document. */
export type CompareTarget =
  | { readonly kind: 'version'; readonly version: number }
  | { readonly kind: 'rescued'; readonly draftId: string }
  | { readonly kind: 'local'; readonly draft: Draft };

interface OutcomeActionsProps {
  readonly lock: DocumentLock;
  readonly messages: LockMessages;
  readonly onView?: ((version: number) => void) | undefined;
  readonly onCompare?: ((target: CompareTarget) => void) | undefined;
}

/** After a loss: leads to the user's text. */
export function OutcomeActions({ lock, messages, onView, onCompare }: OutcomeActionsProps) {
  const { notice } = lock;
  if (notice?.kind !== 'taken' && notice?.kind !== 'lost') return null;
  const version = notice.outcome.kind === 'saved' ? notice.outcome.version : null;
  const target = targetOf(notice.outcome);
  return (
    <>
      {onView && version !== null && (
        <button type="button" className="leasehold-button" onClick={() => onView(version)}>
          {messages.view}
        </button>
      )}
      {onCompare && target && (
        <button type="button" className="leasehold-button" onClick={() => onCompare(target)}>
          {messages.compare}
        </button>
      )}
      <button type="button" className="leasehold-button" onClick={lock.dismissNotice}>
        {messages.dismiss}
      </button>
    </>
  );
}

function targetOf(outcome: TextOutcome): CompareTarget | null {
  if (outcome.kind === 'saved') return { kind: 'version', version: outcome.version };
  return outcome.kind === 'rescued' ? { kind: 'rescued', draftId: outcome.draftId } : null;
}
