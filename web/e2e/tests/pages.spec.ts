import { expectAccessible } from '../support/accessibility';
import { DocumentPage, signIn } from '../support/documentPage';
import { screen } from '../support/screens';
import { expect, FIRST, test } from '../support/test';

const PHONE = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true };

test('every page is accessible, light and dark', async ({ open, fresh, olga, browser, service }) => {
  const stranger = await browser.newPage();
  await stranger.goto(service.address);
  await expect(stranger.getByRole('heading', { name: 'Sign in' })).toBeVisible();
  await screen(stranger, 'sign-in', { dark: true });
  await expectAccessible(stranger);
  await stranger.goto(`${service.address}/register`);
  await expect(stranger.getByRole('heading', { name: 'Create an account' })).toBeVisible();
  await expectAccessible(stranger);
  await stranger.close();

  await olga.write(fresh.id, FIRST, 'It closes at six.');
  await olga.acquire(fresh.id);
  const { page } = await open('Olga', { at: '/documents' });
  const pages = [
    ['/documents', 'Documents'],
    ['/documents/new', 'New document'],
    ['/editing-now', 'Editing now'],
    [`/documents/${fresh.id}`, fresh.title],
    [`/documents/${fresh.id}/history`, `History of ${fresh.title}`],
    [`/documents/${fresh.id}/versions/1`, `${fresh.title}: Version 1`],
    ['/documents/none-of-that-name', 'Page not found'],
  ] as const;
  for (const [path, heading] of pages) {
    await page.goto(`${service.address}${path}`);
    await expect(page.getByRole('heading', { level: 1, name: heading })).toBeVisible();
    await expect(page.getByText('Loading…')).toHaveCount(0);
    await expectAccessible(page);
  }
  await olga.release(fresh.id);
});

test('an address leads to its page after the login, and after every reload', async ({ open, fresh }) => {
  const ana = await open('Ana');
  expect(ana.page.url()).toBe(fresh.url);
  await ana.page.reload();
  await ana.isAt('free');
  await expect(ana.editor).toHaveText(FIRST);
  await ana.page.goto(`${fresh.url}/history`);
  await expect(ana.page.getByRole('heading', { name: `History of ${fresh.title}` })).toBeVisible();
  await ana.page.reload();
  await expect(ana.page.getByRole('link', { name: 'Version 1' })).toBeVisible();
  await ana.page.goBack();
  await ana.isAt('free');
});

test('lists show live who edits what', async ({ open, fresh }) => {
  const ben = await open('Ben', { at: '/documents' });
  const olga = await open('Olga', { at: '/editing-now' });
  const ana = await open('Ana');
  // Documents of earlier tests have the same title: the newest is listed first.
  const row = ben.page.getByRole('listitem').filter({ has: ben.page.locator(`a[href$="${fresh.id}"]`) });
  await expect(row).toBeVisible();
  await expect(row).not.toContainText('Being edited');
  await expect(olga.page.locator(`a[href$="${fresh.id}"]`)).toHaveCount(0);

  await ana.take(' Dogs wait outside.');
  await expect(row).toContainText('Being edited by Ana');
  const edited = olga.page.getByRole('listitem').filter({ has: olga.page.locator(`a[href$="${fresh.id}"]`) });
  await expect(edited).toContainText('Being edited by Ana');
  await ana.press('Stop editing');
  await expect(row).not.toContainText('Being edited');
  await expect(edited).toHaveCount(0);
});

test('the page is in German if the browser prefers it, and can be switched', async ({ open, fresh }) => {
  const ana = await open('Ana', { locale: 'de-DE' });
  await expect(ana.page.locator('html')).toHaveAttribute('lang', 'de');
  await expect(ana.sentence).toHaveText('Niemand bearbeitet das Dokument. Tippen Sie, um zu beginnen');
  await ana.take(' Hunde warten draußen.');
  await expect(ana.sentence).toHaveText('Sie bearbeiten dieses Dokument');
  await screen(ana, 'mine-german');
  await expectAccessible(ana.page);

  await ana.page.getByRole('combobox', { name: 'Sprache' }).selectOption('English');
  await expect(ana.sentence).toHaveText('You are editing this document');
  await expect(ana.page.locator('html')).toHaveAttribute('lang', 'en');
  await ana.isAt('mine');
  await expect(ana.editor).toHaveText(`${FIRST} Hunde warten draußen.`);

  const again = new DocumentPage(await ana.page.context().newPage());
  await again.page.goto(fresh.url);
  await expect(again.sentence).toHaveText('You are editing in another tab');
});

test('the page can be used on a phone', async ({ open, browser, service }) => {
  const loginPage = await browser.newPage(PHONE);
  await loginPage.goto(service.address);
  await expect(loginPage.getByRole('heading', { name: 'Sign in' })).toBeVisible();
  await fitsTheWidth(new DocumentPage(loginPage));
  await signIn(loginPage, 'Ben');
  await expect(loginPage.getByRole('heading', { name: 'Documents' })).toBeVisible();
  await fitsTheWidth(new DocumentPage(loginPage));
  await loginPage.close();

  const ana = await open('Ana', PHONE);
  const olga = await open('Olga', PHONE);
  await ana.editor.tap();
  await ana.take(' Dogs wait outside.');
  await fitsTheWidth(ana);
  await screen(ana, 'phone-mine');
  await olga.isAt('other');
  await olga.banner.getByRole('button', { name: 'Take over editing' }).tap();
  await fitsTheWidth(olga);
  await screen(olga, 'phone-take-over-question', { dark: true });
  await olga.banner.getByRole('button', { name: 'Take over', exact: true }).tap();
  await olga.isAt('mine');
  await ana.isAt('taken');
  await fitsTheWidth(ana);
  await screen(ana, 'phone-taken');
});

/** The page does not scroll sideways, and every button of the banner is as high as a fingertip. */
async function fitsTheWidth({ page, banner }: DocumentPage): Promise<void> {
  expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
  for (const button of await banner.getByRole('button').all()) {
    expect((await button.boundingBox())?.height).toBeGreaterThanOrEqual(44);
  }
}
