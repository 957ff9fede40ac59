import { setTimeout as sleep } from 'node:timers/promises';
import type { Page } from '@playwright/test';
import { ApiClient } from '../support/apiClient';
import { type BackgroundBrowser, hide, startBackgroundBrowser } from '../support/backgroundBrowser';
import { CONTROL_PATH } from '../support/controlPage';
import { DocumentPage, signIn } from '../support/documentPage';
import { sharedService } from '../support/services';
import { expect, test } from '../support/test';

// Timers of a hidden page fire once a minute, so a hold that depends on them may end that late.
const LATEST_MS = 180_000;

/** A page that holds a lock when it is hidden. */
interface HiddenPage {
  readonly id: string;
  readonly page: Page;
  readonly fence: string;
}

let browser: BackgroundBrowser;
let olga: ApiClient;
let product: HiddenPage;
let byWorker: HiddenPage;
let byAsking: HiddenPage;
let byPageTimer: HiddenPage;

// Both tests inspect pages that were hidden at the same time, in one browser.
test.describe.configure({ mode: 'default' });
test.beforeAll(async () => {
  const { address, times } = sharedService('short');
  browser = await startBackgroundBrowser();
  olga = await ApiClient.signIn({ address }, 'Olga');
  const open = async (title: string, path: (id: string) => string, edit: (page: Page) => Promise<void>) => {
    const id = await olga.create(title);
    const page = await browser.context.newPage();
    await page.goto(`${address}${path(id)}`);
    await edit(page);
    return { id, page, fence: (await olga.lock(id)).version.fence };
  };
  const openControl = (means: string) =>
    open(
      means,
      (id) => `${CONTROL_PATH}?${means}&ttl=${times.ttl}&heartbeat=${times.heartbeat}#${id}`,
      async (page) => {
        await page.getByRole('button', { name: 'Edit' }).click();
        await expect(page.getByRole('status')).toHaveText('mine');
      },
    );
  // Opened first, because it expects the login: the others have the same cookies.
  product = await open(
    'Harbour rules',
    (id) => `/documents/${id}`,
    async (page) => {
      await signIn(page, 'Ana');
      await new DocumentPage(page).take('Dogs wait outside.');
    },
  );
  byWorker = await openControl('ticker=worker&socket=no');
  byAsking = await openControl('ticker=page&socket=yes');
  byPageTimer = await openControl('ticker=page&socket=no');

  await hide(byWorker.page, byAsking.page, byPageTimer.page, product.page);
  await expect
    .poll(async () => (await olga.lock(byPageTimer.id)).locked, { timeout: LATEST_MS, intervals: [500] })
    .toBe(false);
  // A hold without heartbeats would have ended by now.
  await sleep(1000 * times.ttl);
});
test.afterAll(() => browser?.stop());

test('a hidden tab keeps its lock', async () => {
  await expectStillHeld(product);
  expect(await product.page.evaluate(() => document.visibilityState)).toBe('hidden');
});

test('a hidden tab keeps its lock by a Worker or by the server’s requests, but not by the page’s timers', async () => {
  await expectStillHeld(byWorker);
  await expectStillHeld(byAsking);
  expect((await olga.lock(byPageTimer.id)).locked).toBe(false);
});

/** The same fence is the same hold: a lock that was lost and taken again has another one. */
async function expectStillHeld({ id, fence }: HiddenPage): Promise<void> {
  const { locked, version } = await olga.lock(id);
  expect({ locked, fence: version.fence }).toEqual({ locked: true, fence });
}
