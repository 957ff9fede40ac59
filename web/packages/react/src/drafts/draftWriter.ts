import type { Draft, DraftStore } from './draft';

/** A write at each key press would be too frequent; a crash may lose this much. */
const DELAY_MS = 300;

/** Writes the newest content of each draft shortly after it changes. */
export class DraftWriter {
  readonly #store: DraftStore | null;
  readonly #report: (areKept: boolean) => void;
  readonly #pending = new Map<string, Draft>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** `report` is called after each write; true if everything was stored. */
  constructor(store: DraftStore | null, report: (areKept: boolean) => void = () => undefined) {
    this.#store = store;
    this.#report = report;
  }

  async list(userId: string, documentId: string): Promise<readonly Draft[]> {
    return (await this.#store?.list(userId, documentId)) ?? [];
  }

  keep(draft: Draft): void {
    this.#pending.set(draft.id, draft);
    this.#timer ??= setTimeout(() => this.flush(), DELAY_MS);
  }

  drop(id: string): void {
    this.#pending.delete(id);
    void this.#store?.remove(id);
  }

  /** Writes at once: the page is going away. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const store = this.#store;
    const drafts = [...this.#pending.values()];
    this.#pending.clear();
    if (!store || drafts.length === 0) return;
    const writing = drafts.map((draft) => store.put(draft));
    void Promise.all(writing).then((kept) => this.#report(kept.every(Boolean)));
  }
}
