import type { Page } from '@playwright/test';
import { DocumentPage, signIn } from '../support/documentPage';
import { stopRenderers } from '../support/rendererPause';
import { screen } from '../support/screens';
import { expect, FIRST, test } from '../support/test';

test.use({ holds: 'short' });

test('the lock of a crashed tab expires, and all others see it', async ({ open, fresh }) => {
  const ana = await open('Ana');
  const ben = await open('Ben');
  await ana.take(' Dogs wait outside.');
  await ben.isAt('other');
  // Written shortly after each key; a newer text would be lost with the tab.
  await expect.poll(() => keptTexts(ana.page)).toContain('Dogs wait outside.');
  const crashed = ana.page.waitForEvent('crash');
  const session = await ana.page.context().newCDPSession(ana.page);
  // It never answers.
  session.send('Page.crash').catch(() => undefined);
  await crashed;
  await ben.isAt('free');
  await ben.take(' Cats may come in.');

  // Ana's text is still in her browser.
  const again = new DocumentPage(await ana.page.context().newPage());
  await again.page.goto(fresh.url);
  const offer = again.page.getByRole('region', {
    name: 'You have text that is not in the document',
  });
  await expect(offer).toBeVisible();
  await offer.getByRole('button', { name: 'Compare' }).click();
  await expect(offer.getByText('Dogs wait outside.')).toBeVisible();
});

test('a frozen holder loses the lock; its text is rescued when it resumes, and nothing is overwritten', async ({
  playwright,
  launchOptions,
  open,
  fresh,
}) => {
  // A separate browser, so that only hers is frozen.
  const browser = await playwright.chromium.launch(launchOptions);
  try {
    const ana = new DocumentPage(
      await browser.newPage({ locale: 'en-GB', viewport: { width: 1000, height: 640 } }),
    );
    await ana.page.goto(fresh.url);
    await signIn(ana.page, 'Ana');
    const ben = await open('Ben');
    await ana.take(' Dogs wait outside.');
    await ben.isAt('other');

    const thaw = await stopRenderers(browser);
    try {
      await ben.isAt('free');
      await ben.take(' Cats may come in.');
      await ben.press('Stop editing');
      await ben.isAt('free');
      await ben.take(' Or not.');
    } finally {
      thaw();
    }

    await ana.isAt('lost');
    await expect(ana.sentence).toHaveText(
      'You are no longer editing: the connection was lost for too long Your text is stored as a draft of this document',
    );
    await expect(ana.page.getByRole('link', { name: 'Rescued drafts (1)' })).toBeVisible();
    await expect(ana.editor).toHaveText(`${FIRST} Cats may come in.`);
    const { versions, drafts } = await fresh.stored();
    // By its text: Ben continues to type, and his text may be saved by now.
    expect(versions).toContainEqual({ number: 2, author: 'Ben', text: `${FIRST} Cats may come in.` });
    expect(versions.map(({ author }) => author)).not.toContain('Ana');
    expect(drafts).toMatchObject([
      { author: 'Ana', reason: 'stale_fence', text: `${FIRST} Dogs wait outside.` },
    ]);
    await screen(ana, 'lost-rescued');

    await ben.press('Stop editing');
    await ana.press('Compare');
    await ana.page.getByRole('button', { name: 'Restore as newest version' }).click();
    await expect(ana.page.getByRole('status').getByText('restored')).toBeVisible();
    expect((await fresh.stored()).versions.at(-1)).toMatchObject({ text: `${FIRST} Dogs wait outside.` });
  } finally {
    await browser.close();
  }
});

test('a frozen holder continues if no other user took the lock', async ({
  playwright,
  launchOptions,
  olga,
  fresh,
}) => {
  const browser = await playwright.chromium.launch(launchOptions);
  try {
    const ana = new DocumentPage(await browser.newPage({ locale: 'en-GB' }));
    await ana.page.goto(fresh.url);
    await signIn(ana.page, 'Ana');
    await ana.take(' Dogs wait outside.');
    const thaw = await stopRenderers(browser);
    try {
      await expect.poll(async () => (await olga.lock(fresh.id)).locked).toBe(false);
    } finally {
      thaw();
    }
    await expect
      .poll(async () => (await fresh.stored()).versions.at(-1))
      .toMatchObject({ number: 2, author: 'Ana', text: `${FIRST} Dogs wait outside.` });
    expect((await fresh.stored()).drafts).toEqual([]);
    await ana.take(' And cats.');
  } finally {
    await browser.close();
  }
});

test('after a long outage the text is rescued when the network is back', async ({ open, fresh }) => {
  const ana = await open('Ana');
  const ben = await open('Ben');
  await ana.take(' Dogs wait outside.');
  await ben.isAt('other');
  await ana.page.context().setOffline(true);
  await ana.isAt('offline');
  await ana.type(' And cats.');
  await ben.isAt('free');
  await ben.take(' Cats may come in.');
  await ben.press('Stop editing');
  await ben.isAt('free');
  await ana.page.context().setOffline(false);
  await expect
    .poll(async () => (await fresh.stored()).drafts)
    .toMatchObject([{ author: 'Ana', text: `${FIRST} Dogs wait outside. And cats.` }]);
  await expect(ana.editor).toHaveText(`${FIRST} Cats may come in.`);
  await expect(ana.sentence).toContainText('Your text is stored as a draft of this document');
});

/** The raw content of the browser's database. */
function keptTexts(page: Page): Promise<string> {
  return page.evaluate(
    () =>
      new Promise((resolve, reject) => {
        const opening = indexedDB.open('leasehold-drafts');
        opening.onerror = () => reject(opening.error);
        opening.onsuccess = () => {
          const reading = opening.result.transaction('drafts').objectStore('drafts').getAll();
          reading.onerror = () => reject(reading.error);
          reading.onsuccess = () => {
            opening.result.close();
            resolve(JSON.stringify(reading.result));
          };
        };
      }),
  );
}
