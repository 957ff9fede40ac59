import {
  type BackgroundBrowser,
  GRACE_SECONDS,
  hide,
  startBackgroundBrowser,
} from '../support/backgroundBrowser';
import { controlPage } from '../support/controlPage';
import { Desk, signIn } from '../support/desk';
import { Caller } from '../support/people';
import { type Service, startService } from '../support/service';
import { expect, test } from '../support/test';

// Two heartbeats may come late on a busy machine, and the lock is still there.
const TIMES = { ttl: 8, heartbeat: 2, idle: 120 };
test.use({ times: TIMES });

// From when the page's timers stand still, two whole holds.
const LONG_ENOUGH_SECONDS = GRACE_SECONDS + 2 * TIMES.ttl + 1;

let browser: BackgroundBrowser;
test.beforeEach(async () => {
  browser = await startBackgroundBrowser();
});
test.afterEach(() => browser.stop());

test('a hidden tab keeps its lock', async ({ fresh, olga }) => {
  const ana = new Desk(await browser.context.newPage());
  await ana.page.goto(fresh.url);
  await signIn(ana.page, 'Ana');
  await ana.take(' Dogs wait outside.');
  const { fence } = (await olga.lock(fresh.id)).version;

  await hide(ana.page);
  await staysHeld(olga, [fresh.id], LONG_ENOUGH_SECONDS);
  expect((await olga.lock(fresh.id)).version.fence).toBe(fence);
  expect(await ana.page.evaluate(() => document.visibilityState)).toBe('hidden');
});

test.describe('what keeps the lock of a hidden tab', () => {
  let service: Service;
  test.beforeAll(async () => {
    service = await startService(TIMES, { pageDir: controlPage() });
  });
  test.afterAll(() => service.stop());

  test('its Worker does, and the server’s asking does; by timers of the page alone it is lost', async () => {
    const olga = await Caller.signIn(service, 'Olga');
    const open = async (means: string) => {
      const id = await olga.create(means);
      const page = await browser.context.newPage();
      await page.goto(`${service.address}/?${means}&ttl=${TIMES.ttl}&heartbeat=${TIMES.heartbeat}#${id}`);
      await page.getByRole('button', { name: 'Edit' }).click();
      await expect(page.getByRole('status')).toHaveText('mine');
      return { id, page };
    };
    const byWorker = await open('ticker=worker&socket=no');
    const byAsking = await open('ticker=page&socket=yes');
    const byPageTimer = await open('ticker=page&socket=no');

    await hide(byWorker.page, byAsking.page, byPageTimer.page);
    await staysHeld(olga, [byWorker.id, byAsking.id], LONG_ENOUGH_SECONDS);
    await expect.poll(async () => (await olga.lock(byPageTimer.id)).locked).toBe(false);
  });
});

/** Looks all the time: a lock that was lost and taken again was lost. */
async function staysHeld(caller: Caller, documentIds: readonly string[], seconds: number): Promise<void> {
  const until = Date.now() + 1000 * seconds;
  const first = await Promise.all(documentIds.map((id) => caller.lock(id)));
  while (Date.now() < until) {
    const states = await Promise.all(documentIds.map((id) => caller.lock(id)));
    expect(states.map(({ locked, version }) => [locked, version.fence])).toEqual(
      first.map(({ version }) => [true, version.fence]),
    );
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}
