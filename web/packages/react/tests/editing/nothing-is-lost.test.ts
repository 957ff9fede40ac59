import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import {
  type Content,
  connectLive,
  type DocumentLockActions,
  type Live,
  pageTicker,
  restService,
} from '../../src';
import { steadyClock } from '../../src/clock/steadyClock';
import { actionsOf } from '../../src/editing/actions';
import { DocumentController } from '../../src/editing/documentController';
import type { PendingReleases } from '../../src/editing/effects/pendingReleases';
import { dice } from '../support/dice';
import { MemoryDrafts } from '../support/memoryDrafts';
import { ModelServer, type Visitor } from '../support/modelServer';
import { ModelTabs } from '../support/modelTabs';
import { ana, bob, olga, useFakeTime } from '../support/visit';

const SEEDS = process.env.TEST_FULL ? 150 : 40;
const STEPS = 90;
/** How long a host prepares a release; null for a host without content. */
const PREPARATIONS_MS = [null, 0, 1_000, 5_000, 20_000];

beforeEach(useFakeTime);
afterEach(() => {
  vi.useRealTimers();
});

/** A page with a user who types whenever it is editable. */
class Page {
  readonly who: Visitor;
  readonly drafts = new MemoryDrafts();
  readonly live: Live;
  typed: Typed[] = [];
  /** The lead of its clock over the others'. */
  aheadMs = 0;
  preparesFor: number | null = null;
  readonly #server: ModelServer;
  readonly #tabs: ModelTabs;
  readonly #releases: PendingReleases = new Map();
  #visits = 0;
  #leave: (() => void) | null = null;
  controller!: DocumentController;
  actions!: DocumentLockActions;

  constructor(server: ModelServer, who: Visitor, tabs: ModelTabs) {
    this.who = who;
    this.#server = server;
    this.#tabs = tabs;
    this.live = connectLive({
      url: 'ws://model/ws',
      credentials: async () => ({ token: who.id }),
      openSocket: () => server.openSocket(who),
      random: () => 0.5,
    });
    this.enter();
  }

  get isOpen(): boolean {
    return this.#leave !== null;
  }

  enter(): void {
    const { who, live, drafts } = this;
    this.#visits += 1;
    const controller: DocumentController = new DocumentController({
      documentId: 'd',
      userId: who.id,
      role: who.role,
      draftPrefix: `${who.tab}-${this.#visits}`,
      drafts,
      ticker: pageTicker(),
      now: steadyClock(() => Date.now() + this.aheadMs),
      pendingReleases: this.#releases,
      ports: {
        live,
        tabs: this.#tabs,
        service: restService(this.#server.transport(who)),
        beforeRelease: () => this.#prepare(controller),
      },
    });
    this.controller = controller;
    this.#leave = controller.attach();
    this.actions = actionsOf(controller, () => live.reconnect());
  }

  leave(): void {
    this.#leave?.();
    this.#leave = null;
  }

  /** Ignored while the page is closed or read-only. */
  type(text: string): void {
    const { loaded, isEditable } = this.controller.getState();
    if (!this.isOpen || !isEditable) return;
    const last = this.typed.at(-1);
    // A restored text is contained in the new text.
    if (loaded?.replaced !== undefined)
      this.typed = this.typed.filter(({ text: old }) => old !== loaded.content);
    if (last?.into === loaded) last.text = text;
    else this.typed.push({ into: loaded, text });
    this.actions.noteChange(text);
  }

  /** The content of that visit's editor at the time of the call. */
  #prepare(controller: DocumentController): Content | undefined | Promise<Content | undefined> {
    const { loaded } = controller.getState();
    const shown = this.typed.filter(({ into }) => into === loaded).at(-1)?.text ?? loaded?.content;
    const { preparesFor } = this;
    if (preparesFor === null) return undefined;
    return preparesFor === 0
      ? shown
      : new Promise((resolve) => setTimeout(() => resolve(shown), preparesFor));
  }
}

/** The newest text typed into one loaded content: it contains the earlier ones. */
interface Typed {
  readonly into: unknown;
  text: string;
}

/** One random event. */
function happen(
  server: ModelServer,
  pages: readonly Page[],
  chance: ReturnType<typeof dice>,
  step: number,
): number {
  const page = chance.oneOf(pages);
  switch (chance.below(24)) {
    case 0:
    case 1:
    case 2:
    case 3:
      page.type(`${page.who.tab} at ${step}`);
      return chance.below(3);
    case 4:
      void page.actions.releaseLock();
      // Typing goes on while the host prepares.
      if (chance.below(2) === 0) page.type(`${page.who.tab} at ${step}`);
      return 0;
    case 5:
      void page.actions.forceTakeLock();
      return chance.below(5);
    case 6:
      void page.actions.continueHere();
      return 0;
    case 7:
      if (server.hold) server.free('document_lock_expired');
      return 1;
    case 8:
      server.goDown();
      return chance.below(30);
    case 9:
      server.comeUp();
      return chance.below(15);
    case 10: {
      const lost = chance.oneOf(['request', 'reply'] as const);
      let times = 1 + chance.below(3);
      server.fateOf = ({ method }) => (method !== 'GET' && times-- > 0 ? { isLost: lost } : {});
      return 1;
    }
    case 11:
      vi.setSystemTime(Date.now() + 1000 * chance.below(600));
      return 1;
    case 12: {
      const slow = 1000 * chance.below(5);
      server.fateOf = () => ({ after: new Promise((resolve) => setTimeout(resolve, slow)) });
      return 0;
    }
    case 13:
      window.dispatchEvent(new Event('online'));
      return 0;
    case 14: {
      let times = 1 + chance.below(2);
      server.fateOf = ({ method }) => ({ isRefused: method === 'PUT' && times-- > 0 });
      return 1;
    }
    case 15:
    case 16:
    case 17:
      void page.actions.restoreDraft();
      return 0;
    case 18:
      page.preparesFor = chance.oneOf(PREPARATIONS_MS);
      return 0;
    case 19: {
      // All pages at once; no input goes into a hidden page.
      const seconds = chance.below(10);
      window.dispatchEvent(new Event('pagehide'));
      setTimeout(() => window.dispatchEvent(comingBack()), 1000 * seconds);
      return seconds + 1;
    }
    case 20:
    case 21:
      if (page.isOpen) page.leave();
      else page.enter();
      return 0;
    case 22:
      page.aheadMs -= 1000 * chance.below(3600);
      return 1;
    default:
      return chance.below(20);
  }
}

function comingBack(): Event {
  return Object.assign(new Event('pageshow'), { persisted: true });
}

async function live(seed: number): Promise<void> {
  const server = new ModelServer();
  const chance = dice(seed);
  const tabs = new ModelTabs();
  const second = { ...ana, tab: 'ana-2' };
  const pages = [ana, second, bob, olga].map((who) => new Page(server, who, tabs));
  for (const page of pages) page.preparesFor = chance.oneOf(PREPARATIONS_MS);
  await vi.advanceTimersByTimeAsync(100);
  for (let step = 0; step < STEPS; step += 1) {
    const seconds = happen(server, pages, chance, step);
    await vi.advanceTimersByTimeAsync(1000 * seconds + 10);
    server.sweep();
  }
  server.comeUp();
  server.fateOf = () => ({});
  for (const page of pages) if (!page.isOpen) page.enter();
  for (let second = 0; second < 120; second += 1) {
    await vi.advanceTimersByTimeAsync(1_000);
    server.sweep();
  }

  const kept = [
    ...server.saved,
    ...server.drafts.map(({ content }) => content),
    ...pages.flatMap(({ drafts }) => drafts.texts),
  ];
  for (const { who, typed, controller } of pages) {
    for (const { text } of typed) expect(kept, `seed ${seed}: what ${who.tab} typed`).toContain(text);
    const { status, hasUnsavedText } = controller.getState();
    expect({ status, hasUnsavedText }, `seed ${seed}: ${who.tab} in the end`).toEqual({
      status: 'free',
      hasUnsavedText: false,
    });
  }
  expect(server.hold, `seed ${seed}: no hold is left in the end`).toBeNull();
  for (const page of pages) {
    page.leave();
    page.live.close();
  }
  await vi.advanceTimersByTimeAsync(100);
}

test('after any sequence of events, every typed text is in the document, in its drafts or in the browser', async () => {
  for (let seed = 0; seed < SEEDS; seed += 1) await live(seed);
}, 600_000);
