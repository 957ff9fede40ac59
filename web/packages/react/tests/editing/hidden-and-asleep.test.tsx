import { act } from '@testing-library/react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Ticker } from '../../src';
import { ModelServer } from '../support/modelServer';
import { ana, bob, moment, olga, pass, sleep, useFakeTime, visit } from '../support/visit';

let server: ModelServer;

beforeEach(() => {
  useFakeTime();
  server = new ModelServer();
});
afterEach(() => {
  vi.useRealTimers();
  setVisibility('visible');
});

function setVisibility(state: 'visible' | 'hidden'): void {
  Object.defineProperty(document, 'visibilityState', { value: state, configurable: true });
}

async function turn(state: 'visible' | 'hidden'): Promise<void> {
  setVisibility(state);
  await act(async () => void document.dispatchEvent(new Event('visibilitychange')));
  await pass(0);
}

const STOPPED: Ticker = { start: () => () => undefined };

test('hiding the page releases nothing', async () => {
  const page = await visit(server, ana);
  await page.type('hello');
  await turn('hidden');
  await pass(20);
  expect(server.hold?.who).toBe(ana);
  expect(server.asked('DELETE', '/lock')).toHaveLength(0);
});

test('showing the page sends a heartbeat and a look at once', async () => {
  const page = await visit(server, ana);
  await page.type('hello');
  await turn('hidden');
  const before = server.requests.length;
  await turn('visible');
  expect(server.requests.slice(before).map(({ path }) => path)).toEqual([
    '/api/documents/d/lock/heartbeat',
    '/api/documents/d/lock',
  ]);
});

test('a page without running timers answers the service’s request for a heartbeat', async () => {
  const page = await visit(server, ana, { ticker: STOPPED });
  await page.type('hello');
  const [socket] = server.sockets;
  await act(async () => server.requestHeartbeats());
  expect(socket?.received.filter(({ type }) => type === 'heartbeat')).toHaveLength(1);
});

test('a page without the lock does not answer such a request', async () => {
  await visit(server, ana);
  await act(async () => server.grant(ana));
  const [socket] = server.sockets;
  await act(async () => server.requestHeartbeats());
  expect(socket?.received.filter(({ type }) => type === 'heartbeat')).toHaveLength(0);
});

test('heartbeats are sent only without a socket, since the service requests them over it', async () => {
  const page = await visit(server, ana);
  await page.type('hello');
  for (let round = 0; round < 3; round += 1) {
    await pass(8);
    await act(async () => page.lock.noteActivity());
    await act(async () => server.requestHeartbeats());
  }
  expect(server.asked('POST', '/heartbeat')).toHaveLength(0);

  const other = new ModelServer();
  const alone = await visit(other, bob, { isWithoutSocket: true });
  await alone.type('hello');
  await pass(25);
  expect(other.asked('POST', '/heartbeat')).toHaveLength(2);
  expect(other.asked('POST', '/heartbeat')[1]?.body).toMatchObject({ idle_for: 20 });
});

test('after a sleep the service is asked before anything is saved', async () => {
  const page = await visit(server, ana, { times: { idle: 10_000 } });
  await page.type('before the sleep');
  const slow = moment();
  server.fateOf = ({ method }) => (method === 'PUT' ? {} : { after: slow.comes });
  await sleep(600);
  await pass(3);
  expect(server.asked('POST', '/heartbeat')).toHaveLength(1);
  expect(server.asked('PUT', '/content')).toHaveLength(0);
  await act(async () => slow.come());
  await pass(1);
  expect(server.content).toBe('before the sleep');
  expect(page.lock.status).toBe('mine');
});

test('after a sleep in which the lock expired, the text is saved and editing has ended', async () => {
  const page = await visit(server, ana, { isWithoutSocket: true });
  await page.type('before the sleep');
  server.hold = null;
  await sleep(600);
  await pass(1);
  expect(server.content).toBe('before the sleep');
  expect(page.lock).toMatchObject({
    status: 'free',
    notice: { kind: 'lost', why: 'expired', outcome: { kind: 'saved', version: 2 } },
  });
  expect(page.drafts.texts).toEqual([]);
});

test('after a sleep in which another user edited, the text is a draft and overwrites nothing', async () => {
  const page = await visit(server, ana, { isWithoutSocket: true });
  await page.type('before the sleep');
  server.hold = null;
  server.grant(bob);
  server.write('by Bob');
  await sleep(600);
  await pass(1);
  expect(server.content).toBe('by Bob');
  expect(server.drafts).toEqual([{ content: 'before the sleep', fence: 101, base: 1 }]);
  expect(page.lock).toMatchObject({
    status: 'lost',
    isEditable: false,
    hasUnsavedText: false,
    notice: { kind: 'lost', outcome: { kind: 'rescued', draftId: 'draft-1', version: 2 } },
    loaded: { version: 2, content: 'by Bob' },
  });
});

test('a key press right after a sleep is not saved before the answer either', async () => {
  const page = await visit(server, ana, { isWithoutSocket: true });
  await page.type('one');
  server.hold = null;
  server.grant(bob);
  await sleep(600);
  const before = server.requests.length;
  await page.type('two');
  expect(server.requests[before]?.path).toMatch(/heartbeat$/);
  await pass(1);
  expect(server.content).toBe('as it was');
  expect(server.drafts.map(({ content }) => content)).toEqual(['two']);
});

test('a late save after a take-over is rescued, and both users see it', async () => {
  const page = await visit(server, ana);
  await page.type('late');
  await act(async () => server.grant(olga, 'document_force_taken'));
  await pass(0);
  expect(server.drafts).toEqual([{ content: 'late', fence: 101, base: 1 }]);
  expect(page.lock).toMatchObject({
    status: 'taken',
    notice: { kind: 'taken', by: { user_name: 'Olga' }, outcome: { kind: 'rescued', draftId: 'draft-1' } },
  });
});

test('a save that reports a lost lock ends editing, with the text saved', async () => {
  const page = await visit(server, ana, { isWithoutSocket: true });
  await page.type('hello');
  await pass(9.5);
  server.hold = null;
  server.fateOf = ({ path }) =>
    path.endsWith('heartbeat') || path.endsWith('lock') ? { isLost: 'request' } : {};
  await act(async () => void page.lock.save());
  await pass(0);
  expect(page.lock.notice).toMatchObject({ kind: 'lost', outcome: { kind: 'saved', version: 2 } });
  expect(page.lock.isLockedByMe).toBe(false);
});

test('a loss that a heartbeat reports before the event still gets the taker’s name', async () => {
  const page = await visit(server, ana, { times: { heartbeat: 3 } });
  await act(async () => expect(await page.lock.acquireLock()).toBe(true));
  const { tell } = server;
  server.tell = () => undefined;
  server.grant(olga);
  await pass(4);
  expect(page.lock.notice).toMatchObject({ kind: 'lost' });
  server.tell = tell;
  await act(async () => server.grant(olga, 'document_force_taken'));
  expect(page.lock.notice).toMatchObject({ kind: 'taken', by: { user_name: 'Olga' } });
});

test('a wall clock that is set back stops neither heartbeats nor saves nor the idle time', async () => {
  const page = await visit(server, ana, { isWithoutSocket: true });
  await page.type('hello');
  await pass(2);
  vi.setSystemTime(Date.now() - 3600_000);
  await pass(12);
  expect(server.asked('POST', '/lock/heartbeat').length).toBeGreaterThan(0);
  expect(server.content).toBe('hello');
  await pass(30);
  expect(page.lock.notice).toEqual({ kind: 'idle' });
});

test('nor does one that is set back after a sleep', async () => {
  const page = await visit(server, ana, { isWithoutSocket: true });
  await sleep(3600);
  vi.setSystemTime(Date.now() - 3600_000);
  await page.type('hello');
  await pass(12);
  expect(server.content).toBe('hello');
});
