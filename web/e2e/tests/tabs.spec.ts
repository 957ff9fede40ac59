import { DocumentPage } from '../support/documentPage';
import { startClock, stopClock } from '../support/pageClock';
import { screen } from '../support/screens';
import { expect, FIRST, test } from '../support/test';

test('a second tab of the same user shows the lock, and can continue the text', async ({ open, fresh }) => {
  const first = await open('Ana');
  await first.take(' Dogs wait outside.');
  await first.page.getByRole('button', { name: 'Save now' }).click();
  await expect(first.saveState).toHaveText(/^Saved as version 2/);

  const second = new DocumentPage(await first.page.context().newPage());
  await second.page.goto(fresh.url);
  await second.isAt('other-tab');
  await expect(second.sentence).toHaveText('You are editing in another tab');
  await expect(second.editor).toHaveAttribute('contenteditable', 'false');
  await expect(second.editor).toHaveText(`${FIRST} Dogs wait outside.`);
  await screen(second, 'other-tab');

  await second.press('Continue here');
  await second.isAt('mine');
  await first.isAt('other-tab');
  await expect(first.editor).toHaveAttribute('contenteditable', 'false');
  await second.type(' And cats.');
  await second.press('Stop editing');
  await second.isAt('free');
  await first.isAt('free');
  await expect(first.editor).toHaveText(`${FIRST} Dogs wait outside. And cats.`);
  expect((await fresh.stored()).drafts).toEqual([]);
});

test('unsaved text of the first tab is saved before the second continues', async ({ open, fresh }) => {
  const first = await open('Ana');
  // Before typing: loading a page may take ten seconds, and the autosave would run.
  const second = new DocumentPage(await first.page.context().newPage());
  await second.page.goto(fresh.url);
  await second.isAt('free');
  await first.take(' Dogs wait outside.');
  await second.isAt('other-tab');
  await second.press('Continue here');
  await second.isAt('mine');
  await expect(second.editor).toHaveText(`${FIRST} Dogs wait outside.`);
  await first.isAt('other-tab');
  await expect(first.sentence).toContainText('Your text is saved as version 2');
  const { versions, drafts } = await fresh.stored();
  expect(versions.at(-1)).toMatchObject({ number: 2, text: `${FIRST} Dogs wait outside.` });
  expect(drafts).toEqual([]);
});

test('continuing in another browser does not wait: unsaved text becomes a draft', async ({ open, fresh }) => {
  const first = await open('Ana', { hasClock: true });
  const second = await open('Ana');
  await second.isAt('free');
  // The autosave would run ten seconds after the last key.
  await stopClock(first.page);
  await first.take(' Dogs wait outside.');
  await second.isAt('other-tab');
  await second.press('Continue here');
  await second.isAt('mine');
  await startClock(first.page);
  await expect
    .poll(async () => (await fresh.stored()).drafts)
    .toMatchObject([{ author: 'Ana', text: `${FIRST} Dogs wait outside.` }]);
  await first.isAt('other-tab');
  await expect(first.editor).toHaveText(FIRST);
  await expect(first.page.getByRole('link', { name: 'Rescued drafts (1)' })).toBeVisible();
  await screen(first, 'moved-elsewhere');
});

test('closing the tab saves the text and releases the lock at once', async ({ open, fresh, olga }) => {
  const ana = await open('Ana');
  const ben = await open('Ben');
  await ana.take(' Dogs wait outside.');
  await ben.isAt('other');
  await ana.page.close({ runBeforeUnload: false });
  await ben.isAt('free');
  await expect(ben.editor).toHaveText(`${FIRST} Dogs wait outside.`);
  const history = await olga.call<{ holds: { reason: string | null }[] }>(
    'GET',
    `/api/documents/${fresh.id}/lock/history`,
  );
  expect(history.holds[0]?.reason).toBe('released');
});
