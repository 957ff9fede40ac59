import { expectAccessible } from '../support/accessibility';
import { holdRequests } from '../support/heldRequests';
import { startClock, stopClock } from '../support/pageClock';
import { screen } from '../support/screens';
import { expect, FIRST, test } from '../support/test';

test('an owner takes over: the previous text is saved first, and both see its version', async ({
  open,
  fresh,
}) => {
  const ana = await open('Ana', { hasClock: true });
  const olga = await open('Olga', { hasClock: true });
  // Neither page may reach a time-out while both are inspected.
  await stopClock(ana.page);
  await stopClock(olga.page);
  await ana.take(' Dogs wait outside.');
  await olga.isAt('other');
  await screen(olga, 'other-for-owner');

  await olga.press('Take over editing');
  const question = olga.banner.getByRole('group', { name: 'Take over editing' });
  await expect(question).toContainText('Ana will be asked to save and can no longer edit');
  await expect(question.getByRole('button', { name: 'Take over' })).toBeFocused();
  await screen(olga, 'take-over-question');

  // The save is held back, so that the state of both pages can be inspected.
  const save = await holdRequests(ana.page, 'PUT', /\/content$/);
  await question.getByRole('button', { name: 'Take over' }).click();
  await save.asked;
  await olga.isAt('taking');
  await expect(olga.sentence).toHaveText('Saving the previous editor’s text…');
  await ana.isAt('taking');
  await expect(ana.sentence).toHaveText('Olga is taking over. Saving your text…');
  await expect(ana.editor).toHaveAttribute('contenteditable', 'false');
  await screen(olga, 'taking');
  await screen(ana, 'yielding');
  save.letThrough();

  await olga.isAt('mine');
  await expect(olga.sentence).toHaveText('You are editing this document The previous editor’s text is saved');
  await expect(olga.editor).toHaveText(`${FIRST} Dogs wait outside.`);
  await screen(olga, 'took-over', { dark: true });
  await ana.isAt('taken');
  await expect(ana.sentence).toHaveText('Editing taken over by Olga Your text is saved as version 2');
  await startClock(ana.page);
  await startClock(olga.page);
  await screen(ana, 'taken', { dark: true });

  await olga.type(' Cats may come in.');
  await olga.press('Stop editing');
  await olga.isAt('free');
  const { versions, drafts } = await fresh.stored();
  expect(versions.slice(1)).toEqual([
    { number: 2, author: 'Ana', text: `${FIRST} Dogs wait outside.` },
    { number: 3, author: 'Olga', text: `${FIRST} Dogs wait outside. Cats may come in.` },
  ]);
  expect(drafts).toEqual([]);
  await expect(ana.editor).toHaveText(`${FIRST} Dogs wait outside. Cats may come in.`);

  await ana.press('View');
  await expect(ana.page).toHaveURL(/\/versions\/2$/);
  await expect(ana.page.getByText(`${FIRST} Dogs wait outside.`)).toBeVisible();
});

test.describe('with a server that waits for some seconds only', () => {
  test.use({ holds: 'short' });

  test('a save that arrives too late for a version becomes a draft', async ({ open, fresh }) => {
    const ana = await open('Ana', { hasClock: true });
    const olga = await open('Olga');
    // The autosave would run ten seconds after the last key.
    await stopClock(ana.page);
    const save = await holdRequests(ana.page, 'PUT', /\/content$/);
    await ana.take(' Dogs wait outside.');
    await olga.press('Take over editing');
    await olga.press('Take over');
    await save.asked;
    await olga.isAt('mine');
    await expect(olga.sentence).toContainText('The previous editor did not answer');
    await screen(olga, 'took-over-unsaved');
    await startClock(ana.page);
    save.letThrough();
    await expect(ana.sentence).toHaveText(
      'Editing taken over by Olga Your text is stored as a draft of this document',
    );
    await expect(ana.page.getByRole('link', { name: 'Rescued drafts (1)' })).toBeVisible();
    await screen(ana, 'taken-rescued');
    const { versions, drafts } = await fresh.stored();
    expect(versions).toHaveLength(1);
    expect(drafts).toMatchObject([{ author: 'Ana', status: 'open', text: `${FIRST} Dogs wait outside.` }]);
    // Both users see it.
    await expect(olga.page.getByRole('link', { name: 'Rescued drafts (1)' })).toBeVisible();
    await ana.press('Compare');
    await expect(ana.page).toHaveURL(/\/drafts\//);
    await expect(
      ana.page.getByRole('heading', { level: 1, name: `${fresh.title}: Draft of Ana` }),
    ).toBeVisible();
    await screen(ana.page, 'draft', { whole: true });
    await expectAccessible(ana.page);
  });
});

test('a cancelled take-over changes nothing', async ({ open }) => {
  const ana = await open('Ana');
  const olga = await open('Olga');
  await ana.take(' Dogs wait outside.');
  await olga.press('Take over editing');
  await olga.press('Cancel');
  await olga.isAt('other');
  await ana.type(' And cats.');
  await ana.isAt('mine');
});
