import type { ReactNode } from 'react';
import type { DocumentLock } from '../editing/view/documentLock';
import { DraftOffer } from './DraftOffer';
import { describe } from './description';
import { type LockMessages, messages as languages, withoutKeeping } from './messages';
import { type CompareTarget, OutcomeActions } from './OutcomeActions';
import { TakeOver } from './TakeOver';

export interface LockBannerProps {
  readonly lock: DocumentLock;
  readonly messages?: LockMessages;
  /** Shows a version. Without it the button is absent. */
  readonly onView?: (version: number) => void;
  /** Shows two texts side by side. Without it the button is absent. */
  readonly onCompare?: (target: CompareTarget) => void;
  /** Offers drafts from this browser; true by default. */
  readonly showsDraft?: boolean;
  readonly children?: ReactNode;
}

/**
 * Shows the lock's state, the latest event, and the actions.
 *
 * The sentences are in a polite live region; buttons are outside of it, so that they are not read out at every change. The
 * focus moves only to the confirmation that the user has asked for.
 */
export function LockBanner({
  lock,
  messages: given = languages.en,
  onView,
  onCompare,
  showsDraft = true,
  children,
}: LockBannerProps) {
  const messages = lock.keepsDrafts ? given : withoutKeeping(given);
  const { headline, detail } = describe(lock, messages);
  return (
    <div className={`leasehold-banner leasehold-banner--${lock.status}`} data-status={lock.status}>
      <div className="leasehold-banner__state">
        <div className="leasehold-banner__text" role="status" aria-live="polite">
          <span className="leasehold-banner__headline">{headline}</span>
          {detail && <span className="leasehold-banner__detail"> {detail}</span>}
        </div>
        {lock.idleIn !== null && (
          // Not read out: a number every second would cover everything else.
          <span className="leasehold-banner__countdown" aria-hidden="true">
            {messages.seconds(lock.idleIn)}
          </span>
        )}
        <div className="leasehold-banner__actions">
          <MainAction lock={lock} messages={messages} />
          <OutcomeActions lock={lock} messages={messages} onView={onView} onCompare={onCompare} />
          {children}
        </div>
      </div>
      {showsDraft && <DraftOffer lock={lock} messages={messages} onCompare={onCompare} />}
    </div>
  );
}

function MainAction({ lock, messages }: { readonly lock: DocumentLock; readonly messages: LockMessages }) {
  const { status } = lock;
  if (status === 'offline') return <Button onClick={lock.retry}>{messages.retryNow}</Button>;
  if (status === 'mine')
    return <Button onClick={() => void lock.releaseLock()}>{messages.stopEditing}</Button>;
  if (status === 'other-tab')
    return <Button onClick={() => void lock.continueHere()}>{messages.continueHere}</Button>;
  if (lock.canForceTake) return <TakeOver lock={lock} messages={messages} />;
  if (status === 'free' && lock.isEditable) {
    return <Button onClick={() => void lock.acquireLock()}>{messages.edit}</Button>;
  }
  return null;
}

function Button({ onClick, children }: { readonly onClick: () => void; readonly children: ReactNode }) {
  return (
    <button type="button" className="leasehold-button" onClick={onClick}>
      {children}
    </button>
  );
}
