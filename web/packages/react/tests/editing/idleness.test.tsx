import { act } from '@testing-library/react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
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

test('thirty seconds without activity save the text and release the lock, after a countdown of five', async () => {
  const page = await visit(server, ana, { times: { autosave: 60, autosaveAtMost: 60 } });
  await page.type('hello');
  await pass(24);
  expect(page.lock).toMatchObject({ status: 'mine', idleIn: null });
  await pass(1);
  expect(page.lock.idleIn).toBe(5);
  await pass(3);
  expect(page.lock.idleIn).toBe(2);
  await pass(2);
  expect(server.hold).toBeNull();
  expect(server.asked('PUT', '/content')).toHaveLength(1);
  expect(server.asked('PUT', '/content')[0]?.body).toMatchObject({
    content: 'hello',
    release: true,
    reason: 'idle',
  });
  expect(page.lock).toMatchObject({ status: 'free', idleIn: null, notice: { kind: 'idle' } });
});

test('an idle editor with saved text releases the lock without another save', async () => {
  const page = await visit(server, ana);
  await page.type('hello');
  await pass(31);
  expect(server.version).toBe(2);
  expect(server.asked('DELETE', '/lock')[0]?.path).toContain('reason=idle');
  expect(page.lock.notice).toEqual({ kind: 'idle' });
});

test('activity in the editor postpones the release', async () => {
  const page = await visit(server, ana);
  await page.type('hello');
  await pass(27);
  expect(page.lock.idleIn).toBe(3);
  await act(async () => page.lock.noteActivity());
  expect(page.lock.idleIn).toBeNull();
  await pass(20);
  expect(page.lock.status).toBe('mine');
});

test('the next key press after an idle release continues silently if no other user has edited', async () => {
  const page = await visit(server, ana);
  await page.type('hello');
  await pass(31);
  const { loaded } = page.lock;
  await page.type('hello again');
  expect(page.lock).toMatchObject({ status: 'mine', notice: null, draft: null });
  expect(page.lock.loaded).toBe(loaded);
  await pass(11);
  expect(server.content).toBe('hello again');
  expect(server.drafts).toHaveLength(0);
});

test('after another user has changed the text, the next key press overwrites nothing', async () => {
  const page = await visit(server, ana, { isWithoutSocket: true });
  await page.type('hello');
  await pass(31);
  server.write('by Bob');
  await page.type('hello again');
  await pass(12);
  expect(server.content).toBe('by Bob');
  expect(page.lock).toMatchObject({ notice: { kind: 'outdated' }, draft: { content: 'hello again' } });
});

test('after an idle release a document that another user edits is read-only', async () => {
  const page = await visit(server, ana);
  await page.type('hello');
  await pass(31);
  await act(async () => server.grant(bob));
  expect(page.lock).toMatchObject({ status: 'other', isEditable: false });
});

test('the times of the service apply, unless the host has set its own', async () => {
  server.times = { ttl: 6, heartbeat: 2, idle: 8 };
  const page = await visit(server, ana);
  await page.type('hello');
  await pass(9);
  expect(page.lock.notice).toEqual({ kind: 'idle' });
  const stubborn = await visit(server, bob, { times: { idle: 100 } });
  await stubborn.type('me');
  await pass(50);
  expect(stubborn.lock.status).toBe('mine');
});

test('a heartbeat that arrives after the idle release is not reported as a lost connection', async () => {
  const page = await visit(server, ana);
  await page.type('hello');
  await pass(15);
  const [late, answer] = [moment(), moment()];
  server.fateOf = ({ method, path }) => {
    if (path.endsWith('/heartbeat')) return { before: late.comes };
    return method === 'DELETE' ? { after: answer.comes } : {};
  };
  await pass(15);
  expect(server.hold).toBeNull();
  await act(async () => late.come());
  await act(async () => answer.come());
  await pass(1);
  expect(page.lock.notice).toEqual({ kind: 'idle' });
});

test('no heartbeat is sent with the idle release, and a slow release is kept alive', async () => {
  const ready = moment();
  const page = await visit(server, ana, {
    isWithoutSocket: true,
    onBeforeRelease: () => ready.comes,
    times: { autosave: 60, autosaveAtMost: 60 },
  });
  await page.type('hello');
  await pass(29);
  const beats = () => server.asked('POST', '/heartbeat').length;
  const before = beats();
  await pass(6);
  expect(beats()).toBe(before);
  server.fateOf = ({ method }) => (method === 'PUT' ? { isLost: 'request' } : {});
  await pass(20);
  expect(beats()).toBeGreaterThan(before);
  expect(server.hold?.who).toBe(ana);
  server.fateOf = () => ({});
  await act(async () => ready.come());
  await pass(12);
  expect(server.content).toBe('hello');
  expect(server.hold).toBeNull();
});
