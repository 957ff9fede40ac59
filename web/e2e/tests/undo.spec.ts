import { expect, FIRST, test } from '../support/test';

test('undo in a newly opened document changes nothing, and takes no lock', async ({ open, fresh, olga }) => {
  const ana = await open('Ana');
  await ana.isAt('free');
  await expect(ana.editor).toHaveAttribute('contenteditable', 'true');
  await ana.editor.press('Control+z');
  // The next key is processed after it.
  await ana.take(' Dogs wait outside.');
  await expect(ana.editor).toHaveText(`${FIRST} Dogs wait outside.`);
  await ana.press('Stop editing');
  await ana.isAt('free');
  const { versions } = await fresh.stored();
  expect(versions.map(({ text }) => text)).toEqual([FIRST, `${FIRST} Dogs wait outside.`]);
  expect((await olga.lock(fresh.id)).locked).toBe(false);
});

test('undo reverts the user’s own changes, never those of others', async ({ open, fresh, olga }) => {
  const ana = await open('Ana');
  await ana.take(' Dogs wait outside.');
  await ana.press('Stop editing');
  await ana.isAt('free');
  const theirs = 'The harbour opens at ten.';
  await olga.write(fresh.id, theirs);
  await expect(ana.editor).toHaveText(theirs);
  await ana.take(' And cats.');
  for (let times = 0; times < 5; times += 1) await ana.editor.press('Control+z');
  await expect(ana.editor).toHaveText(theirs);
  await ana.press('Stop editing');
  await ana.isAt('free');
  expect((await fresh.stored()).versions.at(-1)?.text).toBe(theirs);
});
