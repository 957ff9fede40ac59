import type { Content } from '../protocol/content';

/** Text that the service has not acknowledged. */
export interface Draft {
  /** Contains a random part of the page: two tabs do not overwrite each other's drafts. */
  readonly id: string;
  readonly userId: string;
  readonly documentId: string;
  readonly content: Content;
  /** The version on which it is based. */
  readonly baseVersion: number;
  /** Unix milliseconds. */
  readonly changedAt: number;
}

/** A store of drafts. No method rejects: a browser that stores nothing must not prevent editing. */
export interface DraftStore {
  /** True if the draft is stored. */
  put(draft: Draft): Promise<boolean>;
  remove(id: string): Promise<void>;
  /** Newest first. */
  list(userId: string, documentId: string): Promise<readonly Draft[]>;
}
