import { screen } from '../support/screens';
import { expect, FIRST, test } from '../support/test';

// The countdown is shown for the last five seconds, so there are some before it.
test.use({ times: { ttl: 20, heartbeat: 4, idle: 8 } });

test('who does nothing is warned, then the text is saved and the lock given back, and the next key goes on', async ({
  open,
  fresh,
  olga,
}) => {
  const ana = await open('Ana');
  const ben = await open('Ben');
  await ana.take(' Dogs wait outside.');
  await ben.isAt('other');
  // Whoever just takes away the mouse is idle; typing, moving and scrolling in the text are not.
  await ana.page.mouse.move(5, 5);
  const countdown = ana.banner.getByText(/^[1-5] s$/);
  await expect(countdown).toBeVisible();
  await expect(ana.sentence).toHaveText('Still there? Your text will be saved and the document given back');
  await screen(ana, 'idle-countdown');

  await ana.isAt('free');
  await expect(ana.sentence).toHaveText(
    'Saved and given back, since nothing happened for a while. Just type to go on',
  );
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

test('a key during the countdown ends it', async ({ open }) => {
  const ana = await open('Ana');
  await ana.take(' Dogs');
  const countdown = ana.banner.getByText(/^[1-5] s$/);
  await expect(countdown).toBeVisible();
  await ana.editor.press('ArrowLeft');
  await expect(countdown).toHaveCount(0);
  await ana.isAt('mine');
});
