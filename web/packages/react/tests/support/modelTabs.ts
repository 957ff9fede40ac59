import type { TabLine, TabMessage, Tabs } from '../../src/tabs/tabs';

/** The tabs of one browser, all in the same process. Messages arrive in a microtask. */
export class ModelTabs implements Tabs {
  readonly sent: TabMessage[] = [];
  readonly #listeners = new Map<Line, (message: TabMessage) => void>();

  get lines(): number {
    return this.#listeners.size;
  }

  open(userId: string, documentId: string, listener: (message: TabMessage) => void): TabLine {
    const line = { userId, documentId };
    this.#listeners.set(line, listener);
    return {
      say: (message) => {
        this.sent.push(message);
        for (const other of this.#listeners.keys()) if (other !== line) this.#carry(message, line, other);
      },
      hangUp: () => this.#listeners.delete(line),
    };
  }

  #carry(message: TabMessage, from: Line, to: Line): void {
    if (from.userId !== to.userId || from.documentId !== to.documentId) return;
    queueMicrotask(() => this.#listeners.get(to)?.(message));
  }
}

interface Line {
  readonly userId: string;
  readonly documentId: string;
}
