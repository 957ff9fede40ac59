import { type BrowserContext, type BrowserContextOptions, test as base, expect } from '@playwright/test';
import { ApiClient, type Name } from './apiClient';
import { reportBrowserErrors } from './browserErrors';
import { type StoredTexts, storedTexts } from './database';
import { DocumentPage, signIn } from './documentPage';
import { addClocks } from './pageClock';
import type { Service } from './service';
import { type Holds, sharedService } from './services';
import { startWatchdog } from './watchdog';

/** A new document of the demo team: version 1 is `FIRST`. */
interface Fresh {
  readonly id: string;
  readonly title: string;
  readonly url: string;
  stored(): Promise<StoredTexts>;
}

interface OpenOptions extends BrowserContextOptions {
  readonly at?: string;
  /** The page's clock can be stopped: see `pageClock`. */
  readonly hasClock?: boolean;
}

export interface TestOptions {
  /** Set by `test.use` at the top of a file: which of the shared services it uses. */
  readonly holds: Holds;
}

interface TestFixtures extends TestOptions {
  readonly service: Service;
  readonly olga: ApiClient;
  readonly fresh: Fresh;
  /** Opens a browser context of its own and signs in, at the fresh document or another page. */
  readonly open: (name: Name, options?: OpenOptions) => Promise<DocumentPage>;
}

export const FIRST = 'The harbour opens at nine.';

const STUCK_MS = 120_000;

export const test = base.extend<TestFixtures, { readonly watchdog: undefined }>({
  watchdog: [
    // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the names of what is needed
    async ({}, use) => {
      const stop = startWatchdog(STUCK_MS);
      await use(undefined);
      await stop();
    },
    { scope: 'worker', auto: true },
  ],

  holds: ['long', { option: true }],

  service: async ({ holds }, use, info) => {
    const service = sharedService(holds);
    await use(service);
    if (info.status !== info.expectedStatus)
      await info.attach('stderr of the service', { path: service.log, contentType: 'text/plain' });
  },

  olga: async ({ service }, use) => {
    await use(await ApiClient.signIn(service, 'Olga'));
  },

  fresh: async ({ service, olga }, use) => {
    const title = 'Harbour rules';
    const id = await olga.create(title);
    await olga.write(id, FIRST);
    const url = `${service.address}/documents/${id}`;
    await use({ id, title, url, stored: () => storedTexts(service, id) });
  },

  open: async ({ browser, service, fresh }, use) => {
    const contexts: BrowserContext[] = [];
    const errors: string[] = [];
    await use(async (name, { at, hasClock = false, ...options } = {}) => {
      const context = await browser.newContext(options);
      contexts.push(context);
      reportBrowserErrors(context, (error) => errors.push(`${name}: ${error}`));
      if (hasClock) await addClocks(context);
      const page = await context.newPage();
      await page.goto(at === undefined ? fresh.url : `${service.address}${at}`);
      await signIn(page, name);
      const documentPage = new DocumentPage(page);
      if (at === undefined) await expect(documentPage.editor).toContainText(FIRST.slice(0, 5));
      return documentPage;
    });
    await Promise.all(contexts.map((context) => context.close()));
    expect(errors).toEqual([]);
  },
});

export { expect };
