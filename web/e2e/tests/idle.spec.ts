import type { ApiClient } from '../support/apiClient';
import { skip, startClock, stopClock } from '../support/pageClock';
import { screen } from '../support/screens';
import { expect, FIRST, test } from '../support/test';

test('an idle user is warned, then the text is saved and the lock released, and the next key continues', async ({
  open,
  fresh,
  olga,
  service,
}) => {
  const ana = await open('Ana', { hasClock: true });
  const ben = await open('Ben');
  await stopClock(ana.page);
  await ana.take(' Dogs wait outside.');
  await ben.isAt('other');
  // Moving the mouse away is no activity; typing, moving and scrolling in the text are.
  await ana.page.mouse.move(5, 5);
  const countdown = ana.banner.getByText(/^[1-5] s$/);
  await skip(ana.page, service.times.idle - 6);
  // A heartbeat shows that the page has processed the time.
  await expect.poll(() => idleSeconds(olga, fresh.id)).toBeGreaterThan(service.times.idle - 10);
  await expect(ana.saveState).toHaveText(/^Saved as version 2/);
  await expect(countdown).toHaveCount(0);
  await skip(ana.page, 2);
  await expect(countdown).toHaveText('4 s');
  await expect(ana.sentence).toHaveText('Still there? Your text will be saved and the document released');
  await screen(ana, 'idle-countdown');

  await skip(ana.page, 4);
  await ana.isAt('free');
  await startClock(ana.page);
  await expect(ana.sentence).toHaveText('Saved and released after inactivity. Type to continue');
  await screen(ana, 'released-idle');
  expect((await fresh.stored()).versions.at(-1)).toMatchObject({ text: `${FIRST} Dogs wait outside.` });
  expect((await olga.lock(fresh.id)).locked).toBe(false);
  await ben.isAt('free');

  await ana.editor.pressSequentially(' And cats.');
  await ana.isAt('mine');
  await ben.isAt('other');
  await expect(ana.editor).toHaveText(`${FIRST} Dogs wait outside. And cats.`);
  const history = await olga.call<{ holds: { reason: string | null }[] }>(
    'GET',
    `/api/documents/${fresh.id}/lock/history`,
  );
  expect(history.holds.slice(0, 2).map(({ reason }) => reason)).toEqual([null, 'idle']);
});

test('a key during the countdown ends it', async ({ open, service }) => {
  const ana = await open('Ana', { hasClock: true });
  await stopClock(ana.page);
  await ana.take(' Dogs');
  const countdown = ana.banner.getByText(/^[1-5] s$/);
  await skip(ana.page, service.times.idle - 4);
  await expect(countdown).toBeVisible();
  await ana.editor.press('ArrowLeft');
  await expect(countdown).toHaveCount(0);
  await ana.isAt('mine');
});

/** The idle time of the holder, as of its last heartbeat. */
async function idleSeconds(caller: ApiClient, documentId: string): Promise<number> {
  const since = (await caller.lock(documentId)).lock_holder?.idle_since;
  return since ? Date.now() / 1000 - since : 0;
}
