import { german } from './messages.de';
import { english } from './messages.en';

/** Every text of the banner, in one language. */
export interface LockMessages {
  /** A BCP 47 tag, for times of day. */
  readonly locale: string;
  readonly free: string;
  readonly readOnly: string;
  readonly loading: string;
  readonly edit: string;
  readonly youEdit: string;
  readonly stopEditing: string;
  /** Read out once; the seconds are shown beside it. */
  readonly idleSoon: string;
  readonly seconds: (count: number) => string;
  readonly editedBy: (name: string, since: string) => string;
  readonly takeOver: string;
  readonly takeOverQuestion: (name: string) => string;
  readonly takeOverConfirm: string;
  readonly cancel: string;
  readonly savingPrevious: string;
  readonly yieldingTo: (name: string) => string;
  readonly takenBy: (name: string) => string;
  readonly somebody: string;
  readonly lostExpired: string;
  readonly lostMoved: string;
  readonly lostNotAllowed: string;
  readonly otherTab: string;
  readonly continueHere: string;
  readonly movingHere: string;
  readonly offline: string;
  readonly offlineKept: string;
  /** The browser does not store the text. */
  readonly offlineNotKept: string;
  readonly retrying: string;
  readonly retryNow: string;
  readonly releasedIdle: string;
  readonly released: string;
  readonly outcomeSaving: string;
  readonly outcomeSaved: (version: number) => string;
  readonly outcomeRescued: string;
  readonly outcomeKeptLocally: string;
  /** Replaces every sentence about text stored in this browser, if it stores nothing. */
  readonly onlyHere: string;
  readonly view: string;
  readonly compare: string;
  readonly dismiss: string;
  readonly typedKept: string;
  readonly outdated: string;
  readonly tookSaved: string;
  readonly tookUnsaved: string;
  readonly notTaken: string;
  readonly refused: (message: string) => string;
  readonly draftOffer: (at: string) => string;
  /** The same, if the browser does not store it. */
  readonly draftHere: (at: string) => string;
  readonly restoreDraft: string;
  readonly discardDraft: string;
}

/** The same texts for a browser that stores nothing: the banner must not claim otherwise. */
export function withoutKeeping(messages: LockMessages): LockMessages {
  const { onlyHere, offlineNotKept, draftHere } = messages;
  return {
    ...messages,
    offlineKept: offlineNotKept,
    outcomeKeptLocally: onlyHere,
    typedKept: onlyHere,
    outdated: onlyHere,
    draftOffer: draftHere,
  };
}

/** The languages of the package. A host may pass its own. */
export const messages = { en: english, de: german } as const satisfies Record<string, LockMessages>;
