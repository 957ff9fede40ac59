/** What tabs say to each other about a document. `request` is random: it tells nothing about who asks. */
export type TabMessage =
  /** To whoever holds the lock: save and give it back, somebody wants to go on here. */
  | { readonly kind: 'wanted'; readonly request: string }
  /** It is held here, and the text is being saved. */
  | { readonly kind: 'heard'; readonly request: string }
  /** Nothing of that text is on its way any more. */
  | { readonly kind: 'done'; readonly request: string };

/** The other tabs of one browser in which the same person has the same document open. */
export interface Tabs {
  /** Hears them until hung up. Null if there is no way to. */
  open(userId: string, documentId: string, hear: (message: TabMessage) => void): TabLine | null;
}

export interface TabLine {
  /** Reaches every other line that is open, and nobody has to answer. */
  say(message: TabMessage): void;
  hangUp(): void;
}
