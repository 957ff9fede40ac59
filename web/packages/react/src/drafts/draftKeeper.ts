import type { Draft, DraftStore } from './draft';

/** Writing at every key press would be too much; this is what a crash may cost. */
const DELAY_MS = 300;

/** Writes drafts down a moment after they change, the newest of each. */
export class DraftKeeper {
  readonly #store: DraftStore | null;
  readonly #pending = new Map<string, Draft>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(store: DraftStore | null) {
    this.#store = store;
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

  /** Now: the page goes away. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const draft of this.#pending.values()) void this.#store?.put(draft);
    this.#pending.clear();
  }
}
