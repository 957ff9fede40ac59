import { act } from '@testing-library/react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ModelServer } from '../support/modelServer';
import { ana, bob, moment, olga, pass, useFakeTime, vera, visit } from '../support/visit';

let server: ModelServer;

beforeEach(() => {
  useFakeTime();
  server = new ModelServer();
});
afterEach(() => {
  vi.useRealTimers();
});

test('the first key press takes the lock, and the text is saved ten seconds later', async () => {
  const page = await visit(server, ana);
  expect(page.lock).toMatchObject({ status: 'free', isEditable: true, isLoading: false, version: 1 });
  await page.type('hello');
  expect(page.lock).toMatchObject({
    status: 'mine',
    isLockedByMe: true,
    isEditable: true,
    hasUnsavedText: true,
  });
  await pass(9);
  expect(server.content).toBe('as it was');
  await pass(2);
  expect(server.content).toBe('hello');
  expect(page.lock).toMatchObject({ hasUnsavedText: false, version: 2, lastSaved: { version: 2 } });
});

test('a user who types without a pause is saved every half minute', async () => {
  const page = await visit(server, ana);
  for (let second = 0; second < 33; second += 3) {
    await page.type(`text at ${second}`);
    await pass(3);
  }
  expect(server.version).toBe(2);
});

test('while one user edits, others see the name and cannot type', async () => {
  const other = await visit(server, bob);
  const page = await visit(server, ana);
  await page.type('hello');
  expect(other.lock).toMatchObject({
    status: 'other',
    isLockedByOther: true,
    isEditable: false,
    canForceTake: false,
  });
  expect(other.lock.lockHolder?.user_name).toBe('Ana');
});

test('a viewer never requests the lock', async () => {
  const page = await visit(server, vera);
  expect(page.lock).toMatchObject({ status: 'free', isEditable: false });
  await page.type('mine');
  await act(async () => expect(await page.lock.acquireLock()).toBe(false));
  expect(server.asked('POST', '/lock')).toHaveLength(0);
});

test('a 409 at the first key press keeps the typed text as a local draft and shows the other text', async () => {
  const page = await visit(server, ana, { isWithoutSocket: true });
  server.grant(bob);
  await page.type('too late');
  expect(page.lock).toMatchObject({
    status: 'other',
    isEditable: false,
    hasUnsavedText: false,
    notice: { kind: 'typed-kept', by: { user_name: 'Bob' } },
    draft: { content: 'too late', baseVersion: 1 },
  });
  expect(page.lock.loaded).toEqual({ version: 1, content: 'as it was' });
  await pass(1);
  expect(page.drafts.texts).toEqual(['too late']);
  expect(server.asked('PUT', '/content')).toHaveLength(0);
});

test('changes to an old text are put aside, and the newest text is loaded before editing continues', async () => {
  const page = await visit(server, ana, { isWithoutSocket: true });
  server.write('newer');
  await page.type('on the old one');
  expect(page.lock).toMatchObject({
    status: 'mine',
    notice: { kind: 'outdated' },
    loaded: { version: 2, content: 'newer' },
    draft: { content: 'on the old one' },
  });
  await pass(15);
  expect(server.content).toBe('newer');
});

test('a document that was never locked stays editable, and is loaded once, although its version grows at every look', async () => {
  const page = await visit(server, ana, { isWithoutSocket: true });
  server.fateOf = ({ path }) => (path.endsWith('/lock') ? {} : { isLost: 'reply' });
  await pass(100);
  expect(server.asked('GET', '/lock').length).toBeGreaterThan(2);
  expect(server.asked('GET', '/d')).toHaveLength(1);
  expect(page.lock).toMatchObject({ status: 'free', isEditable: true });
});

test.each([
  ['is saved', null],
  ['becomes a draft', 'newer'],
])('what is typed while the lock is requested %s, although another hold has ended', async (_, written) => {
  const page = await visit(server, ana);
  const slow = moment();
  server.fateOf = ({ method }) => (method === 'POST' ? { before: slow.comes } : {});
  await page.type('D');
  await act(async () => server.grant(bob));
  expect(page.lock.isEditable).toBe(false);
  if (written !== null) server.write(written);
  await act(async () => server.free());
  expect(page.lock.isEditable).toBe(true);
  await page.type('Dogs');
  await act(async () => slow.come());
  await pass(11);
  expect(page.lock).toMatchObject({
    status: 'mine',
    isEditable: true,
    draft: written && { content: 'Dogs' },
  });
  expect(server.content).toBe(written ?? 'Dogs');
});

test('a stop saves and releases in one request, and a second stop sends nothing', async () => {
  const page = await visit(server, ana);
  await page.type('hello');
  await act(async () => Promise.all([page.lock.releaseLock(), page.lock.releaseLock()]));
  await pass(0);
  expect(server.content).toBe('hello');
  expect(server.hold).toBeNull();
  expect(server.asked('PUT', '/content')).toHaveLength(1);
  expect(server.asked('PUT', '/content')[0]?.body).toMatchObject({ release: true, reason: 'released' });
  await act(async () => page.lock.releaseLock());
  expect(server.asked('DELETE', '/lock')).toHaveLength(0);
  expect(page.lock).toMatchObject({ status: 'free', notice: { kind: 'released' } });
});

test('the host’s content before a release is saved with it, and the host is called once', async () => {
  const onBeforeRelease = vi.fn(async () => 'the very last word');
  const page = await visit(server, ana, { onBeforeRelease });
  await act(async () => expect(await page.lock.acquireLock()).toBe(true));
  await act(async () => page.lock.releaseLock());
  expect(server.content).toBe('the very last word');
  expect(onBeforeRelease).toHaveBeenCalledOnce();
});

test('a host that fails before a release does not block the lock', async () => {
  const onBeforeRelease = async () => {
    throw new Error('host');
  };
  const page = await visit(server, ana, { onBeforeRelease });
  await page.type('hello');
  await act(async () => page.lock.releaseLock());
  expect(server.hold).toBeNull();
  expect(server.content).toBe('hello');
});

test('a key press during the save of a release takes the lock again', async () => {
  const page = await visit(server, ana);
  await page.type('one');
  const slow = moment();
  server.fateOf = ({ method }) => (method === 'PUT' ? { after: slow.comes } : {});
  await act(async () => void page.lock.releaseLock());
  await page.type('two');
  await act(async () => slow.come());
  await pass(0);
  expect(page.lock).toMatchObject({ status: 'mine', hasUnsavedText: true });
  server.fateOf = () => ({});
  await pass(11);
  expect(server.content).toBe('two');
  expect(server.drafts).toHaveLength(0);
});

test('a lock that is no longer wanted is released when it is granted', async () => {
  const page = await visit(server, ana);
  const slow = moment();
  server.fateOf = ({ method }) => (method === 'POST' ? { after: slow.comes } : {});
  await act(async () => void page.lock.acquireLock());
  await act(async () => void page.lock.releaseLock());
  expect(server.hold).not.toBeNull();
  await act(async () => slow.come());
  await pass(0);
  expect(server.hold).toBeNull();
  expect(page.lock.status).toBe('free');
});

test('an acquire without an answer is repeated, and is one hold', async () => {
  const page = await visit(server, ana);
  let losses = 1;
  server.fateOf = ({ method, path }) =>
    method === 'POST' && path.endsWith('/lock') && losses-- > 0 ? { isLost: 'reply' } : {};
  await page.type('hello');
  expect(page.lock.status).toBe('offline');
  await pass(2);
  expect(page.lock.status).toBe('mine');
  expect(server.fence).toBe(101);
});

test('watchers get the new text after the release', async () => {
  const watcher = await visit(server, bob);
  const page = await visit(server, ana);
  await page.type('for everybody');
  await act(async () => page.lock.releaseLock());
  await pass(0);
  expect(watcher.lock).toMatchObject({ status: 'free', loaded: { version: 2, content: 'for everybody' } });
});

test('an owner takes over, and the previous editor sees which version has their text', async () => {
  const page = await visit(server, ana);
  const owner = await visit(server, olga);
  await page.type('half a senten');
  expect(owner.lock.canForceTake).toBe(true);
  await act(async () => expect(await owner.lock.forceTakeLock()).toBe(true));
  await pass(0);
  expect(server.content).toBe('half a senten');
  expect(owner.lock).toMatchObject({ status: 'mine', loaded: { version: 2, content: 'half a senten' } });
  expect(page.lock).toMatchObject({
    status: 'taken',
    isEditable: false,
    notice: { kind: 'taken', by: { user_name: 'Olga' }, outcome: { kind: 'saved', version: 2 } },
  });
  await act(async () => page.lock.dismissNotice());
  expect(page.lock.status).toBe('other');
});

test('a forced save waits for an autosave that is under way, and takes its version as the base', async () => {
  const page = await visit(server, ana);
  await page.type('one');
  const slow = moment();
  server.fateOf = ({ method }) => (method === 'PUT' ? { after: slow.comes } : {});
  await pass(11);
  await page.type('two');
  await act(async () => server.mark(olga));
  expect(page.lock).toMatchObject({ status: 'taking', isEditable: false, takenBy: { user_name: 'Olga' } });
  expect(server.asked('PUT', '/content')).toHaveLength(1);
  await act(async () => slow.come());
  await pass(0);
  expect(server.asked('PUT', '/content')[1]?.body).toMatchObject({
    content: 'two',
    base_version: 2,
    release: true,
  });
  expect(server.content).toBe('two');
  expect(server.drafts).toHaveLength(0);
  expect(page.lock.notice).toMatchObject({ kind: 'taken', outcome: { kind: 'saved', version: 3 } });
});

test('a forced save does not wait for a hanging autosave, and nothing is lost', async () => {
  const page = await visit(server, ana);
  await page.type('one');
  const never = moment();
  server.fateOf = ({ method }) => (method === 'PUT' ? { before: never.comes } : {});
  await pass(11);
  await page.type('two');
  server.fateOf = () => ({});
  await act(async () => server.mark(olga));
  await pass(2.5);
  expect(server.content).toBe('two');
  expect(server.hold?.who).toBe(olga);
  await act(async () => never.come());
  await pass(1);
  expect(server.content).toBe('two');
  expect(page.lock.notice).toMatchObject({ kind: 'taken', outcome: { kind: 'saved', version: 2 } });
});

test('an editor without changes yields to a taker at once', async () => {
  const page = await visit(server, ana);
  await act(async () => expect(await page.lock.acquireLock()).toBe(true));
  await act(async () => server.mark(olga));
  await pass(0);
  expect(server.hold?.who).toBe(olga);
  expect(server.version).toBe(1);
  expect(page.lock.notice).toMatchObject({ kind: 'taken', outcome: { kind: 'nothing-unsaved' } });
});

test('a failed take-over is reported, and not repeated', async () => {
  const page = await visit(server, ana);
  await page.type('hello');
  const owner = await visit(server, olga);
  server.fateOf = ({ path }) => (path.endsWith('force-take') ? { isLost: 'request' } : {});
  await act(async () => expect(await owner.lock.forceTakeLock()).toBe(false));
  await pass(5);
  expect(owner.lock).toMatchObject({ status: 'other', notice: { kind: 'not-taken' } });
  expect(server.asked('POST', 'force-take')).toHaveLength(1);
});

test('a 409 that arrives after the other hold has ended does not show that user as editing', async () => {
  const page = await visit(server, ana);
  const { tell } = server;
  server.tell = () => undefined;
  server.grant(bob);
  server.tell = tell;
  const slow = moment();
  server.fateOf = ({ method }) => (method === 'POST' ? { after: slow.comes } : {});
  await act(async () => void page.lock.acquireLock());
  await act(async () => server.free());
  expect(page.lock.lockHolder).toBeNull();
  await act(async () => slow.come());
  await pass(1);
  expect(page.lock).toMatchObject({ status: 'free', isEditable: true });
});

test('a page yields to a take-over that was requested before the answer to its acquire', async () => {
  const page = await visit(server, ana);
  const slow = moment();
  server.fateOf = ({ method }) => (method === 'POST' ? { after: slow.comes } : {});
  await act(async () => page.lock.noteChange('hello'));
  await act(async () => server.mark(olga));
  await act(async () => slow.come());
  await pass(0);
  expect(server.content).toBe('hello');
  expect(server.hold?.who).toBe(olga);
  expect(page.lock.notice).toMatchObject({ kind: 'taken', outcome: { kind: 'saved' } });
});

test('a grant whose answer arrives after its end does not count as a lock', async () => {
  const page = await visit(server, ana);
  const slow = moment();
  server.fateOf = ({ method }) => (method === 'POST' ? { after: slow.comes } : {});
  await act(async () => page.lock.noteChange('hello'));
  await act(async () => server.free('document_lock_expired'));
  await act(async () => slow.come());
  await pass(1);
  expect(page.lock.isLockedByMe).toBe(false);
  expect(server.content).toBe('hello');
});

test('a loaded text does not replace changes made during the load', async () => {
  const page = await visit(server, ana);
  await page.type('one');
  await pass(11);
  const slow = moment();
  server.fateOf = ({ method }) => (method === 'GET' ? { after: slow.comes } : {});
  await act(async () => page.lock.reload());
  await page.type('two');
  await act(async () => slow.come());
  await pass(11);
  expect(server.content).toBe('two');
  expect(page.lock).toMatchObject({ status: 'mine', isEditable: true, version: 3 });
});

test('a refused heartbeat during the save for a taker does not hide the taker’s name', async () => {
  const page = await visit(server, ana);
  await page.type('hello');
  const slow = moment();
  server.fateOf = ({ method }) => (method === 'PUT' ? { before: slow.comes } : {});
  await act(async () => server.mark(olga));
  await act(async () => server.grant(olga, 'document_force_taken'));
  await pass(11);
  expect(server.asked('POST', '/heartbeat').length).toBeGreaterThan(0);
  await act(async () => slow.come());
  await pass(1);
  expect(page.lock).toMatchObject({
    status: 'taken',
    notice: { kind: 'taken', by: { user_name: 'Olga' }, outcome: { kind: 'rescued' } },
  });
});

test('the host’s content does not undo changes made while it prepares', async () => {
  const ready = moment();
  let editor = '';
  const onBeforeRelease = async () => {
    const snapshot = editor;
    await ready.comes;
    return snapshot;
  };
  const page = await visit(server, ana, { onBeforeRelease });
  editor = 'first';
  await page.type(editor);
  await act(async () => void page.lock.releaseLock());
  expect(page.lock.isEditable).toBe(true);
  editor = 'first and second';
  await page.type(editor);
  await act(async () => ready.come());
  await pass(1);
  expect(server.content).toBe('first and second');
  expect(server.hold).toBeNull();
});

test('nor does its content for an earlier release that was cancelled', async () => {
  const asked: { text: string; ready: ReturnType<typeof moment> }[] = [];
  let editor = '';
  const onBeforeRelease = async () => {
    const call = { text: editor, ready: moment() };
    asked.push(call);
    await call.ready.comes;
    return call.text;
  };
  const page = await visit(server, ana, { onBeforeRelease });
  editor = 'first';
  await page.type(editor);
  await act(async () => server.mark(olga));
  await act(async () => server.unmark());
  expect(page.lock.status).toBe('mine');
  editor = 'first and second';
  await page.type(editor);
  await act(async () => void page.lock.releaseLock());
  await act(async () => asked[0]?.ready.come());
  expect(server.hold?.who).toBe(ana);
  await act(async () => asked[1]?.ready.come());
  await pass(1);
  expect(server.saved).toEqual(['first and second']);
  expect(server.hold).toBeNull();
});
