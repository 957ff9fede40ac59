import { holdRequests } from '../support/heldRequests';
import { screen } from '../support/screens';
import { expect, FIRST, test } from '../support/test';

test('the first key takes the lock, and all others see who edits and cannot type', async ({
  open,
  fresh,
  olga,
}) => {
  const ana = await open('Ana');
  const ben = await open('Ben');
  await ana.isAt('free');
  await screen(ana, 'free');

  await ana.take(' Dogs wait outside.');
  await expect(ana.sentence).toHaveText('You are editing this document');
  await screen(ana, 'mine', { dark: true });
  expect((await olga.lock(fresh.id)).lock_holder?.user_name).toBe('Ana');

  await ben.isAt('other');
  await expect(ben.sentence).toHaveText(/^Being edited by Ana since \d\d:\d\d/);
  await screen(ben, 'other', { dark: true });
  await expect(ben.editor).toHaveAttribute('contenteditable', 'false');
  await ben.editor.press('Control+End');
  await ben.editor.pressSequentially('Not from me.');
  await expect(ben.editor).toHaveText(FIRST);
  // Ben is not an owner.
  await expect(ben.banner.getByRole('button')).toHaveCount(0);
});

test('what is typed into a new document is kept, although its socket joins it only after the first key', async ({
  open,
  olga,
  service,
}) => {
  const id = await olga.create('Harbour rules');
  const ana = await open('Ana', { at: '/documents' });
  let join = () => {};
  const isTyping = new Promise<void>((resolve) => {
    join = resolve;
  });
  await ana.page.routeWebSocket('**/ws', (socket) => {
    const server = socket.connectToServer();
    server.onMessage(async (message) => {
      if (String(message).includes('"joined"')) await isTyping;
      socket.send(message);
    });
  });
  const acquire = await holdRequests(ana.page, 'POST', /\/lock$/);
  await ana.page.goto(`${service.address}/documents/${id}`);
  await ana.type('D');
  await acquire.asked;
  join();
  await ana.editor.pressSequentially('ogs wait o');
  acquire.letThrough();
  await ana.isAt('mine');
  await ana.editor.pressSequentially('utside.');
  await expect(ana.editor).toHaveText('Dogs wait outside.');
});

test('a document that another user edits can be read, selected and copied', async ({ open, fresh, olga }) => {
  await olga.acquire(fresh.id);
  const ben = await open('Ben');
  await ben.isAt('other');
  await ben.editor.getByText(FIRST).click({ clickCount: 3 });
  expect(await ben.page.evaluate(() => getSelection()?.toString().trim())).toBe(FIRST);
  await olga.release(fresh.id);
});

test('a stop saves the text and releases the lock, and all others read the new text', async ({
  open,
  fresh,
  olga,
}) => {
  const ana = await open('Ana');
  const ben = await open('Ben');
  await ana.take(' It closes at six.');
  await ana.press('Stop editing');
  await ana.isAt('free');
  await expect(ana.sentence).toHaveText('You stopped editing. Type to continue');
  await screen(ana, 'released');
  await expect(ana.saveState).toHaveText(/^Saved as version 2 at/);
  const { versions } = await fresh.stored();
  expect(versions.at(-1)).toMatchObject({ number: 2, author: 'Ana', text: `${FIRST} It closes at six.` });
  expect((await olga.lock(fresh.id)).locked).toBe(false);

  await ben.isAt('free');
  await expect(ben.editor).toHaveText(`${FIRST} It closes at six.`);
  await ben.take(' On Sundays at four.');
  await ana.isAt('other');
});

test('the button Edit takes the lock before anything is typed', async ({ open, fresh, olga }) => {
  const ana = await open('Ana');
  await ana.press('Edit');
  await ana.isAt('mine');
  expect((await olga.lock(fresh.id)).lock_holder?.user_name).toBe('Ana');
});

test('a viewer sees who edits, and never gets the lock', async ({ open, fresh, olga }) => {
  const vera = await open('Vera');
  await expect(vera.sentence).toHaveText('You can read this document');
  await screen(vera, 'viewer');
  await expect(vera.editor).toHaveAttribute('contenteditable', 'false');
  await expect(vera.banner.getByRole('button')).toHaveCount(0);
  await vera.editor.press('Control+End');
  await vera.editor.pressSequentially('Not from me.');
  await expect(vera.editor).toHaveText(FIRST);
  expect((await olga.lock(fresh.id)).locked).toBe(false);

  const ana = await open('Ana');
  await ana.take(' Dogs wait outside.');
  await expect(vera.sentence).toHaveText(/^Being edited by Ana since/);
  await expect(vera.banner.getByRole('button')).toHaveCount(0);
});

test('a user who was slower finds the typed text, also after a reload, and can restore it', async ({
  open,
  fresh,
  olga,
}) => {
  const ben = await open('Ben');
  await ben.isAt('free');
  const acquire = await holdRequests(ben.page, 'POST', /\/lock$/);
  await ben.type(' Bring');
  await acquire.asked;
  await olga.acquire(fresh.id);
  acquire.letThrough();

  await ben.isAt('other');
  await expect(ben.sentence).toContainText(
    'Someone else started editing first. Your text is stored in this browser',
  );
  await expect(ben.editor).toHaveText(FIRST);
  const offer = ben.page.getByRole('region', { name: 'You have text that is not in the document' });
  await expect(offer).toBeVisible();
  await offer.getByRole('button', { name: 'Compare' }).click();
  await expect(offer.getByText('Bring')).toBeVisible();
  await screen(ben, 'typed-kept', { whole: true });

  await ben.page.reload();
  await ben.isAt('other');
  await expect(offer).toBeVisible();
  await olga.release(fresh.id);
  await ben.isAt('free');
  await offer.getByRole('button', { name: 'Replace with this text' }).click();
  await ben.isAt('mine');
  await expect(ben.editor).toHaveText(`${FIRST} Bring`);
  await ben.press('Stop editing');
  await ben.isAt('free');
  await expect(offer).toHaveCount(0);
  expect((await fresh.stored()).versions.at(-1)).toMatchObject({ author: 'Ben', text: `${FIRST} Bring` });
});
