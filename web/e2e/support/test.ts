import { type BrowserContext, type BrowserContextOptions, test as base, expect } from '@playwright/test';
import { type StoredTexts, storedTexts } from './database';
import { Desk, signIn } from './desk';
import { Caller, type Name } from './people';
import { type Service, type ServiceTimes, startService } from './service';
import { watchForTrouble } from './trouble';

export interface ServiceOptions {
  /** Set by `test.use` at the top of a file, for all of it: then it has a service of its own. */
  readonly times: ServiceTimes;
}

interface WorkerFixtures extends ServiceOptions {
  readonly service: Service;
  readonly olga: Caller;
}

/** A document of the demo team that nobody has touched: version 1 says `FIRST`. */
interface Fresh {
  readonly id: string;
  readonly title: string;
  readonly url: string;
  stored(): Promise<StoredTexts>;
}

interface TestFixtures {
  readonly fresh: Fresh;
  /** Opens a browser context of its own and signs in, at the fresh document or another page. */
  readonly open: (name: Name, options?: BrowserContextOptions & { at?: string }) => Promise<Desk>;
}

export const FIRST = 'The harbour opens at nine.';

export const test = base.extend<TestFixtures, WorkerFixtures>({
  // Long enough for a machine that is busy with other things; files about the end of a hold set less.
  times: [
    { ttl: 20, heartbeat: 4, idle: 120 },
    { scope: 'worker', option: true },
  ],

  service: [
    async ({ times }, use) => {
      const service = await startService(times);
      await use(service);
      await service.stop();
    },
    { scope: 'worker', timeout: 60_000 },
  ],

  olga: [
    async ({ service }, use) => {
      await use(await Caller.signIn(service, 'Olga'));
    },
    { scope: 'worker' },
  ],

  fresh: async ({ service, olga }, use) => {
    const title = 'Harbour rules';
    const id = await olga.create(title);
    await olga.write(id, FIRST);
    const url = `${service.address}/documents/${id}`;
    await use({ id, title, url, stored: () => storedTexts(service, id) });
  },

  open: async ({ browser, service, fresh }, use) => {
    const contexts: BrowserContext[] = [];
    const troubles: string[] = [];
    await use(async (name, { at, ...options } = {}) => {
      const context = await browser.newContext(options);
      contexts.push(context);
      watchForTrouble(context, (trouble) => troubles.push(`${name}: ${trouble}`));
      const page = await context.newPage();
      await page.goto(at === undefined ? fresh.url : `${service.address}${at}`);
      await signIn(page, name);
      const desk = new Desk(page);
      if (at === undefined) await expect(desk.editor).toContainText(FIRST.slice(0, 5));
      return desk;
    });
    await Promise.all(contexts.map((context) => context.close()));
    expect(troubles).toEqual([]);
  },
});

export const SHORT_TIMES: ServiceTimes = { ttl: 4, heartbeat: 1, idle: 120 };

/** With holds that end soon, for tests that wait for that. One name for all of them, so that they share a service. */
export const testOfShortHolds = test.extend<object, ServiceOptions>({
  times: [SHORT_TIMES, { scope: 'worker' }],
});

export { expect };
