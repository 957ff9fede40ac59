import type { DocumentLock } from '../editing/view/documentLock';
import { timeOfDay } from './description';
import type { LockMessages } from './messages';
import type { CompareTarget } from './OutcomeActions';

interface DraftOfferProps {
  readonly lock: DocumentLock;
  readonly messages: LockMessages;
  readonly onCompare?: ((target: CompareTarget) => void) | undefined;
}

/** Offers a draft from this browser. */
export function DraftOffer({ lock, messages, onCompare }: DraftOfferProps) {
  const { draft } = lock;
  if (!draft) return null;
  const canRestore = lock.isEditable && !lock.hasUnsavedText;
  return (
    <div className="leasehold-banner__draft">
      <span role="status" aria-live="polite">
        {messages.draftOffer(timeOfDay(draft.changedAt, messages))}
      </span>
      <span className="leasehold-banner__actions">
        {onCompare && (
          <button
            type="button"
            className="leasehold-button"
            onClick={() => onCompare({ kind: 'local', draft })}
          >
            {messages.compare}
          </button>
        )}
        {canRestore && (
          <button type="button" className="leasehold-button" onClick={() => void lock.restoreDraft(draft.id)}>
            {messages.restoreDraft}
          </button>
        )}
        <button type="button" className="leasehold-button" onClick={() => lock.discardDraft(draft.id)}>
          {messages.discardDraft}
        </button>
      </span>
    </div>
  );
}
