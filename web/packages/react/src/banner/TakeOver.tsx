import { useState } from 'react';
import type { DocumentLock } from '../editing/view/documentLock';
import type { LockMessages } from './messages';

interface TakeOverProps {
  readonly lock: DocumentLock;
  readonly messages: LockMessages;
}

/** Takes the lock over, after a question that explains the effect. */
export function TakeOver({ lock, messages }: TakeOverProps) {
  // For this holder only: a confirmation must not apply to a later holder.
  const [askedAbout, setAskedAbout] = useState<number | null>(null);
  const holder = lock.lockHolder;
  if (!holder) return null;
  if (askedAbout !== holder.acquired_at) {
    return (
      <button type="button" className="leasehold-button" onClick={() => setAskedAbout(holder.acquired_at)}>
        {messages.takeOver}
      </button>
    );
  }
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset would bring a form's looks along
    <div className="leasehold-banner__question" role="group" aria-label={messages.takeOver}>
      <span id="leasehold-take-over-question">{messages.takeOverQuestion(holder.user_name)}</span>
      <button
        type="button"
        className="leasehold-button leasehold-button--strong"
        aria-describedby="leasehold-take-over-question"
        // The user has pressed the button that this one replaces.
        ref={focusOnce}
        onClick={() => void lock.forceTakeLock()}
      >
        {messages.takeOverConfirm}
      </button>
      <button type="button" className="leasehold-button" onClick={() => setAskedAbout(null)}>
        {messages.cancel}
      </button>
    </div>
  );
}

function focusOnce(button: HTMLButtonElement | null): void {
  button?.focus();
}
