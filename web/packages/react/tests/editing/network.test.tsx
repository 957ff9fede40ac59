import { act } from '@testing-library/react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { MemoryDrafts } from '../support/memoryDrafts';
import { ModelServer } from '../support/modelServer';
import { ana, bob, moment, pass, useFakeTime, visit } from '../support/visit';

let server: ModelServer;

beforeEach(() => {
  useFakeTime();
  server = new ModelServer();
});
afterEach(() => {
  vi.useRealTimers();
});

test('without the network editing continues, the text is stored here, and it is saved when the network is back', async () => {
  const page = await visit(server, ana);
  await page.type('one');
  await act(async () => server.goDown());
  await pass(1);
  expect(page.lock).toMatchObject({ status: 'offline', isLockedByMe: true, isEditable: true });
  await page.type('two');
  await pass(15);
  expect(page.drafts.texts).toEqual(['two']);
  server.comeUp();
  await pass(12);
  expect(page.lock).toMatchObject({ status: 'mine', hasUnsavedText: false });
  expect(server.content).toBe('two');
  expect(page.drafts.texts).toEqual([]);
});

test('after an outage in which another user started to edit, the text is a draft of the service, and the loss is shown', async () => {
  const page = await visit(server, ana);
  await page.type('mine');
  await act(async () => server.goDown());
  await pass(20);
  server.hold = null;
  server.grant(bob);
  server.comeUp();
  await pass(12);
  expect(page.lock).toMatchObject({
    status: 'lost',
    isEditable: false,
    notice: { kind: 'lost', outcome: { kind: 'rescued', draftId: 'draft-1' } },
  });
  expect(server.content).toBe('as it was');
});

test('a save without an answer is repeated unchanged, before later changes', async () => {
  const page = await visit(server, ana, { isWithoutSocket: true });
  await page.type('one');
  let losses = 1;
  server.fateOf = ({ method }) => (method === 'PUT' && losses-- > 0 ? { isLost: 'reply' } : {});
  await pass(10);
  expect(server.content).toBe('one');
  await page.type('two');
  expect(server.asked('PUT', '/content')).toHaveLength(1);
  await pass(15);
  const bodies = server.asked('PUT', '/content').map(({ body }) => body);
  expect(bodies[1]).toEqual(bodies[0]);
  expect(bodies[2]).toMatchObject({ content: 'two', base_version: 2 });
  expect(server.content).toBe('two');
  expect(server.drafts).toHaveLength(0);
});

test('an idle editor without the network keeps the lock until it can be released', async () => {
  const page = await visit(server, ana);
  await page.type('hello');
  await act(async () => server.goDown());
  await pass(60);
  expect(page.lock).toMatchObject({ status: 'offline', idleIn: null, hasUnsavedText: true });
  server.comeUp();
  await pass(12);
  expect(server.content).toBe('hello');
  expect(server.hold).toBeNull();
  expect(page.lock.notice).toEqual({ kind: 'idle' });
});

test('a retry does not wait for the end of the pause', async () => {
  const page = await visit(server, ana, {
    isWithoutSocket: true,
    times: { retry: 500, retryAtMost: 500, refetch: 5 },
  });
  await act(async () => server.goDown());
  await pass(6);
  expect(page.lock.status).toBe('offline');
  server.comeUp();
  await pass(20);
  expect(page.lock.status).toBe('offline');
  await act(async () => page.lock.retry());
  await pass(0);
  expect(page.lock.status).toBe('free');
});

test('a document that is unreachable at first is loaded as soon as the service is back', async () => {
  server.isDown = true;
  const page = await visit(server, ana);
  await pass(3);
  expect(page.lock).toMatchObject({ status: 'offline', isEditable: false, loaded: null });
  server.comeUp();
  await pass(12);
  expect(page.lock).toMatchObject({ status: 'free', isEditable: true, loaded: { content: 'as it was' } });
});

test('without a socket the state is requested every thirty seconds, and with one only once', async () => {
  await visit(server, ana);
  await pass(100);
  expect(server.asked('GET', '/lock')).toHaveLength(1);
  const other = new ModelServer();
  const page = await visit(other, ana, { isWithoutSocket: true });
  other.grant(bob);
  await pass(31);
  expect(page.lock.status).toBe('other');
  await pass(60);
  expect(other.asked('GET', '/lock')).toHaveLength(4);
});

test('a refused text is stored here, and not sent again', async () => {
  const page = await visit(server, ana, {
    service: { save: async () => ({ kind: 'refused', code: 'invalid_request', message: 'too large' }) },
  });
  await page.type('x'.repeat(100));
  await pass(25);
  expect(page.lock).toMatchObject({
    notice: { kind: 'refused', code: 'invalid_request', message: 'too large' },
    draft: { content: 'x'.repeat(100) },
    hasUnsavedText: false,
  });
});

test('save() is false for a refused text, and true once the service has one', async () => {
  server.fateOf = ({ method }) => ({ isRefused: method === 'PUT' });
  const page = await visit(server, ana);
  await page.type('too long');
  await act(async () => expect(await page.lock.save()).toBe(false));
  await pass(0);
  server.fateOf = () => ({});
  await act(async () => expect(await page.lock.save()).toBe(true));
  await page.type('short');
  await act(async () => expect(await page.lock.save()).toBe(true));
  expect(server.content).toBe('short');
});

test('save() resolves if a save under way is refused', async () => {
  const page = await visit(server, ana);
  await page.type('too long');
  const slow = moment();
  server.fateOf = ({ method }) => (method === 'PUT' ? { isRefused: true, after: slow.comes } : {});
  await pass(11);
  let isSaved: boolean | null = null;
  await act(async () => void page.lock.save().then((is) => (isSaved = is)));
  await act(async () => slow.come());
  expect(isSaved).toBe(false);
});

test('a draft in a refused text is not discarded after the save', async () => {
  const drafts = new MemoryDrafts();
  const old = { id: 'old', userId: 'ana', documentId: 'd', content: 'from yesterday' };
  drafts.kept.set('old', { ...old, baseVersion: 1, changedAt: 1 });
  server.fateOf = ({ method }) => ({ isRefused: method === 'PUT' });
  const page = await visit(server, ana, { drafts });
  const { draft } = page.lock;
  await page.type('today, and from yesterday');
  await act(async () => {
    if (await page.lock.save()) page.lock.discardDraft(draft?.id);
  });
  await pass(2);
  expect(drafts.texts.sort()).toEqual(['from yesterday', 'today, and from yesterday']);
});

test('an error of the host’s service counts as no answer', async () => {
  let isBroken = true;
  const page = await visit(server, ana, {
    service: {
      load: async () => {
        if (isBroken) throw new Error('host');
        return { kind: 'loaded', document: { version: 1, content: 'from the host' } };
      },
    },
  });
  expect(page.lock.loaded).toBeNull();
  isBroken = false;
  await pass(3);
  expect(page.lock.loaded?.content).toBe('from the host');
});
