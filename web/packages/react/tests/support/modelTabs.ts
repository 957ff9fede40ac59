import type { TabLine, TabMessage, Tabs } from '../../src/tabs/tabs';

/** The tabs of one browser, all in the same process. Messages arrive in a microtask. */
export class ModelTabs implements Tabs {
  readonly said: TabMessage[] = [];
  readonly #ears = new Map<Line, (message: TabMessage) => void>();

  get lines(): number {
    return this.#ears.size;
  }

  open(userId: string, documentId: string, hear: (message: TabMessage) => void): TabLine {
    const line = { userId, documentId };
    this.#ears.set(line, hear);
    return {
      say: (message) => {
        this.said.push(message);
        for (const other of this.#ears.keys()) if (other !== line) this.#carry(message, line, other);
      },
      hangUp: () => this.#ears.delete(line),
    };
  }

  #carry(message: TabMessage, from: Line, to: Line): void {
    if (from.userId !== to.userId || from.documentId !== to.documentId) return;
    queueMicrotask(() => this.#ears.get(to)?.(message));
  }
}

interface Line {
  readonly userId: string;
  readonly documentId: string;
}
