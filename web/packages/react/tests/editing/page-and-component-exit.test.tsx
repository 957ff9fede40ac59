import { act } from '@testing-library/react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { pageTicker, restService } from '../../src';
import { DocumentController } from '../../src/editing/documentController';
import { MemoryDrafts } from '../support/memoryDrafts';
import { ModelServer } from '../support/modelServer';
import { ana, bob, moment, pass, sleep, useFakeTime, visit } from '../support/visit';

let server: ModelServer;

beforeEach(() => {
  useFakeTime();
  server = new ModelServer();
});
afterEach(() => {
  vi.useRealTimers();
});

async function hidePage(): Promise<void> {
  await act(async () => void window.dispatchEvent(new Event('pagehide')));
}

test('a page that goes away saves and releases in one request that outlives it', async () => {
  const page = await visit(server, ana);
  await page.type('last words');
  await hidePage();
  await hidePage();
  await pass(0);
  const saves = server.asked('PUT', '/content');
  expect(saves).toHaveLength(1);
  expect(saves[0]).toMatchObject({ keepAlive: true, body: { content: 'last words', release: true } });
  expect(server.asked('DELETE', '/lock')).toHaveLength(0);
  expect(server.hold).toBeNull();
});

test('the request of a page that goes away is sent before the event is over', async () => {
  const page = await visit(server, ana);
  await page.type('last words');
  act(() => {
    window.dispatchEvent(new Event('pagehide'));
    expect(server.asked('PUT', '/content')).toHaveLength(1);
  });
  await pass(0);
});

test('a text too large for that is stored in this browser, and offered on return', async () => {
  const drafts = new MemoryDrafts();
  const large = 'x'.repeat(70_000);
  const page = await visit(server, ana, { drafts });
  await page.type(large);
  await hidePage();
  await pass(0);
  expect(server.asked('PUT', '/content')).toHaveLength(0);
  expect(server.asked('DELETE', '/lock')[0]?.keepAlive).toBe(true);
  expect(drafts.texts.map((text) => text === large)).toEqual([true]);
  const later = await visit(server, { ...ana, tab: 'ana-2' }, { drafts });
  expect(later.lock.draft?.content === large).toBe(true);
});

test('a page from the browser’s cache updates its state', async () => {
  const page = await visit(server, ana);
  await page.type('last words');
  await hidePage();
  await act(async () => server.grant(bob));
  await act(async () => {
    const shown = new Event('pageshow');
    Object.defineProperty(shown, 'persisted', { value: true });
    window.dispatchEvent(shown);
  });
  await pass(1);
  expect(page.lock.status).toBe('other');
  await act(async () => server.free());
  await page.type('more');
  expect(page.lock.status).toBe('mine');
});

test('an unmounted component saves and releases, once', async () => {
  const page = await visit(server, ana);
  await page.type('last words');
  await page.leave();
  await hidePage();
  expect(server.content).toBe('last words');
  expect(server.hold).toBeNull();
  expect(server.asked('PUT', '/content')).toHaveLength(1);
  expect(server.asked('DELETE', '/lock')).toHaveLength(0);
  const before = server.requests.length;
  await pass(120);
  expect(server.requests).toHaveLength(before);
});

test('a component unmounted before the grant releases the lock', async () => {
  const page = await visit(server, ana);
  const slow = moment();
  server.fateOf = ({ method }) => (method === 'POST' ? { after: slow.comes } : {});
  await act(async () => page.lock.noteChange('hello'));
  await page.leave();
  await act(async () => slow.come());
  await pass(0);
  expect(server.hold).toBeNull();
  expect(server.content).toBe('hello');
});

test('a double mount, as in React’s development mode, takes one lock and releases none', async () => {
  const page = await visit(server, ana, { isStrict: true });
  await page.type('hello');
  expect(page.lock.status).toBe('mine');
  expect(server.fence).toBe(101);
  await pass(12);
  expect(server.content).toBe('hello');
  expect(server.hold?.who).toBe(ana);
  expect(server.asked('DELETE', '/lock')).toHaveLength(0);
  expect(server.asked('GET', '/lock')).toHaveLength(1);
  await page.leave();
  expect(server.hold).toBeNull();
});

test('a controller that is detached and attached in one task keeps its lock', async () => {
  const controller = new DocumentController({
    documentId: 'd',
    userId: ana.id,
    role: ana.role,
    draftPrefix: 'x',
    drafts: null,
    ticker: pageTicker(),
    ports: {
      live: null,
      tabs: null,
      service: restService(server.transport(ana)),
      beforeRelease: () => undefined,
    },
  });
  const leave = controller.attach();
  await pass(0);
  controller.take({ kind: 'typed', content: 'hello' });
  await pass(0);
  leave();
  const leaveAgain = controller.attach();
  await pass(2);
  expect(server.hold?.who).toBe(ana);
  expect(server.asked('POST', '/lock')).toHaveLength(1);
  leaveAgain();
  await pass(0);
  expect(server.hold).toBeNull();
  expect(server.content).toBe('hello');
});

test('a page that goes away while its host prepares sends the text that it has', async () => {
  const page = await visit(server, ana, { onBeforeRelease: () => new Promise<undefined>(() => undefined) });
  await page.type('last words');
  await page.leave();
  expect(server.asked('PUT', '/content')).toHaveLength(0);
  await hidePage();
  await pass(0);
  expect(server.content).toBe('last words');
  expect(server.hold).toBeNull();
});

test('a component mounted during the last save waits for it, and keeps the new lock', async () => {
  const drafts = new MemoryDrafts();
  const page = await visit(server, ana, { drafts });
  await page.type('hello');
  await pass(1);
  const slow = moment();
  server.fateOf = ({ method }) => (method === 'PUT' ? { before: slow.comes } : {});
  await page.leave();
  const before = server.requests.length;
  const again = await visit(server, ana, { drafts });
  await pass(5);
  expect(server.requests).toHaveLength(before);
  expect(again.lock).toMatchObject({ isLoading: true, isEditable: false, draft: null });
  server.fateOf = () => ({});
  await act(async () => slow.come());
  await pass(0);
  expect(again.lock).toMatchObject({ status: 'free', loaded: { content: 'hello' }, draft: null });
  await again.type('hello and more');
  await pass(12);
  expect(again.lock).toMatchObject({ status: 'mine', notice: null });
  expect(server.content).toBe('hello and more');
  expect(server.drafts).toEqual([]);
});

test('that wait is limited', async () => {
  const page = await visit(server, ana);
  await page.type('hello');
  server.fateOf = ({ method }) => (method === 'PUT' ? { before: new Promise(() => undefined) } : {});
  await page.leave();
  const again = await visit(server, ana);
  await pass(14);
  expect(again.lock.loaded).toBeNull();
  await pass(2);
  expect(again.lock).toMatchObject({ isEditable: true, loaded: { content: 'as it was' } });
});

test('a double mount does not wait', async () => {
  const page = await visit(server, ana, { isStrict: true });
  expect(page.lock).toMatchObject({ status: 'free', isEditable: true });
  await page.leave();
  const again = await visit(server, ana, { isStrict: true });
  expect(again.lock).toMatchObject({ status: 'free', isEditable: true });
});

test('a page that goes away in doubt about its lock saves when it comes back', async () => {
  const page = await visit(server, ana, { isWithoutSocket: true });
  await page.type('last words');
  server.fateOf = () => ({ isLost: 'request' });
  await sleep(20);
  await hidePage();
  await pass(5);
  server.fateOf = () => ({});
  server.hold = null;
  await act(async () => void window.dispatchEvent(Object.assign(new Event('pageshow'), { persisted: true })));
  await pass(30);
  expect(server.content).toBe('last words');
  expect(page.lock).toMatchObject({ status: 'free', hasUnsavedText: false });
});
