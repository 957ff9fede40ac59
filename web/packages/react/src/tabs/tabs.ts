/** A message between tabs about a document. `request` is random, and does not identify the sender. */
export type TabMessage =
  /** To the holder of the lock: save and release it, another tab continues. */
  | { readonly kind: 'wanted'; readonly request: string }
  /** The sender holds the lock, and is saving. */
  | { readonly kind: 'heard'; readonly request: string }
  /** The sender's text is saved. */
  | { readonly kind: 'done'; readonly request: string };

/** The other tabs of one browser in which the same user has the same document open. */
export interface Tabs {
  /** Calls `hear` with each message until `hangUp`. Null if tabs cannot communicate. */
  open(userId: string, documentId: string, hear: (message: TabMessage) => void): TabLine | null;
}

export interface TabLine {
  /** Reaches every other open line. An answer is not guaranteed. */
  say(message: TabMessage): void;
  hangUp(): void;
}
