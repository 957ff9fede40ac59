import type { Draft, DraftStore } from '../../src/drafts/draft';

/** A browser's drafts, open to inspection. */
export class MemoryDrafts implements DraftStore {
  readonly kept = new Map<string, Draft>();

  async put(draft: Draft): Promise<boolean> {
    this.kept.set(draft.id, draft);
    return true;
  }

  async remove(id: string): Promise<void> {
    this.kept.delete(id);
  }

  async list(userId: string, documentId: string): Promise<readonly Draft[]> {
    return [...this.kept.values()]
      .filter((draft) => draft.userId === userId && draft.documentId === documentId)
      .sort((one, other) => other.changedAt - one.changedAt);
  }

  get texts(): unknown[] {
    return [...this.kept.values()].map(({ content }) => content);
  }
}
