import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { connectLive, pageTicker, restService } from '../../src';
import { actionsOf } from '../../src/editing/actions';
import { DocumentSession } from '../../src/editing/documentSession';
import { dice } from '../support/dice';
import { MemoryDrafts } from '../support/memoryDrafts';
import { ModelServer, type Visitor } from '../support/modelServer';
import { ModelTabs } from '../support/modelTabs';
import { ana, bob, olga, useFakeTime } from '../support/visiting';

const SEEDS = 60;
const STEPS = 60;

beforeEach(useFakeTime);
afterEach(() => {
  vi.useRealTimers();
});

/** A page that somebody types into, as often as it lets them. */
function openPage(server: ModelServer, who: Visitor, tabs: ModelTabs, seed: number) {
  const drafts = new MemoryDrafts();
  const live = connectLive({
    url: 'ws://model/ws',
    credentials: async () => ({ token: who.id }),
    openSocket: () => server.openSocket(who),
    random: () => 0.5,
  });
  const session = new DocumentSession({
    documentId: 'd',
    userId: who.id,
    role: who.role,
    draftPrefix: `${who.tab}-${seed}`,
    drafts,
    ticker: pageTicker(),
    ports: { live, tabs, service: restService(server.transport(who)), beforeRelease: () => undefined },
  });
  const detach = session.attach();
  const actions = actionsOf(session, () => live.reconnect());
  return { who, drafts, session, actions, live, detach, typed: [] as Typed[] };
}

/** The newest text that was typed into one and the same content: what was there before is still in it. */
interface Typed {
  readonly into: unknown;
  text: string;
}

type Page = ReturnType<typeof openPage>;

function type(page: Page, text: string): void {
  const { loaded } = page.session.getState();
  const last = page.typed.at(-1);
  if (last?.into === loaded) last.text = text;
  else page.typed.push({ into: loaded, text });
  page.actions.noteChange(text);
}

/** One thing that may happen, chosen by chance. */
function happen(
  server: ModelServer,
  pages: readonly Page[],
  chance: ReturnType<typeof dice>,
  step: number,
): number {
  const page = chance.oneOf(pages);
  switch (chance.below(15)) {
    case 0:
    case 1:
    case 2:
    case 3: {
      if (!page.session.getState().isEditable) return 0;
      const text = `${page.who.tab} at ${step}`;
      type(page, text);
      return chance.below(3);
    }
    case 4:
      void page.actions.releaseLock();
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
    default:
      return chance.below(20);
  }
}

async function live(seed: number): Promise<void> {
  const server = new ModelServer();
  const chance = dice(seed);
  const tabs = new ModelTabs();
  const second = { ...ana, tab: 'ana-2' };
  const pages = [ana, second, bob, olga].map((who) => openPage(server, who, tabs, seed));
  await vi.advanceTimersByTimeAsync(100);
  for (let step = 0; step < STEPS; step += 1) {
    const seconds = happen(server, pages, chance, step);
    await vi.advanceTimersByTimeAsync(1000 * seconds + 10);
    server.sweep();
  }
  server.comeUp();
  server.fateOf = () => ({});
  for (let second = 0; second < 120; second += 1) {
    await vi.advanceTimersByTimeAsync(1_000);
    server.sweep();
  }

  const kept = [
    ...server.saved,
    ...server.drafts.map(({ content }) => content),
    ...pages.flatMap(({ drafts }) => drafts.texts),
  ];
  for (const { who, typed, session } of pages) {
    for (const { text } of typed) expect(kept, `seed ${seed}: what ${who.tab} typed`).toContain(text);
    const { status, hasUnsavedText } = session.getState();
    expect({ status, hasUnsavedText }, `seed ${seed}: ${who.tab} in the end`).toEqual({
      status: 'free',
      hasUnsavedText: false,
    });
  }
  expect(server.hold, `seed ${seed}: everybody is idle in the end`).toBeNull();
  for (const page of pages) {
    page.detach();
    page.live.close();
  }
  await vi.advanceTimersByTimeAsync(100);
}

test('whatever happens, what somebody typed is in the document, in its drafts, or in their browser', async () => {
  for (let seed = 0; seed < SEEDS; seed += 1) await live(seed);
}, 120_000);
