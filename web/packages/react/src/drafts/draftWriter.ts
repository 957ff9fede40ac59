import type { Draft, DraftStore } from './draft';

/** Writing at every key press would be too much; this is what a crash may cost. */
const DELAY_MS = 300;

/** Writes drafts down a moment after they change, the newest of each. */
export class DraftKeeper {
  readonly #store: DraftStore | null;
  readonly #report: (areKept: boolean) => void;
  readonly #pending = new Map<string, Draft>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** `report` is told after each writing whether everything was kept. */
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

  /** Now: the page goes away. */
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
