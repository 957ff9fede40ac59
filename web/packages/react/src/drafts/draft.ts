import type { Content } from '../protocol/content';

/** Text that the service has not acknowledged. */
export interface Draft {
  /** Made by the page that wrote it: two tabs do not overwrite each other's. */
  readonly id: string;
  readonly userId: string;
  readonly documentId: string;
  readonly content: Content;
  /** The version that it was made from. */
  readonly baseVersion: number;
  /** Unix milliseconds. */
  readonly changedAt: number;
}

/** Where drafts are kept. None of these rejects: a browser that keeps nothing must not stop anybody from editing. */
export interface DraftStore {
  /** Whether it is kept now. */
  put(draft: Draft): Promise<boolean>;
  remove(id: string): Promise<void>;
  /** Newest first. */
  list(userId: string, documentId: string): Promise<readonly Draft[]>;
}
