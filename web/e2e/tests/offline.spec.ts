import { screen } from '../support/screens';
import { expect, FIRST, test } from '../support/test';

test('after a short outage typing continues, the lock is kept, everything is saved', async ({
  open,
  fresh,
  olga,
}) => {
  const ana = await open('Ana');
  const ben = await open('Ben');
  await ana.take(' Dogs wait outside.');
  const { fence } = (await olga.lock(fresh.id)).version;
  await ana.page.context().setOffline(true);
  await ana.isAt('offline');
  await expect(ana.sentence).toHaveText('Connection lost. Your text is stored in this browser Retrying…');
  await screen(ana, 'offline', { dark: true });
  await ana.type(' And cats.');
  await expect(ana.saveState).toHaveText('Stored in this browser');
  await ana.page.context().setOffline(false);
  await ana.isAt('mine');
  await ana.press('Stop editing');
  await ana.isAt('free');
  const { versions, drafts } = await fresh.stored();
  expect(versions.at(-1)?.text).toBe(`${FIRST} Dogs wait outside. And cats.`);
  expect(drafts).toEqual([]);
  expect((await olga.lock(fresh.id)).version.fence).toBe(fence);
  await expect(ben.editor).toHaveText(`${FIRST} Dogs wait outside. And cats.`);
});

test('a reader sees the current state when the network is back', async ({ open, fresh, olga }) => {
  const ben = await open('Ben');
  await ben.isAt('free');
  await ben.page.context().setOffline(true);
  await ben.isAt('offline');
  await expect(ben.editor).toHaveAttribute('contenteditable', 'false');
  await olga.write(fresh.id, 'Closed for repairs.');
  await olga.acquire(fresh.id);
  await ben.page.context().setOffline(false);
  await ben.isAt('other');
  await expect(ben.sentence).toContainText('Being edited by Olga');
  await expect(ben.editor).toHaveText('Closed for repairs.');
  await olga.release(fresh.id);
  await ben.isAt('free');
});
