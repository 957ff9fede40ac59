import { act } from '@testing-library/react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { type BeforeRelease, pageTab } from '../../src';
import { MemoryDrafts } from '../support/memoryDrafts';
import { ModelServer, type Visitor } from '../support/modelServer';
import { ModelTabs } from '../support/modelTabs';
import { ana, bob, moment, olga, pass, useFakeTime, type Visit, visit } from '../support/visit';

let server: ModelServer;
let tabs: ModelTabs;
let drafts: MemoryDrafts;
const second = { ...ana, tab: 'ana-2' };
const third = { ...ana, tab: 'ana-3' };

beforeEach(() => {
  useFakeTime();
  server = new ModelServer();
  tabs = new ModelTabs();
  drafts = new MemoryDrafts();
});
afterEach(() => {
  vi.useRealTimers();
});

/** A tab of Ana's browser. */
function openTab(who: Visitor, more: { isStrict?: boolean; onBeforeRelease?: () => BeforeRelease } = {}) {
  return visit(server, who, { tabs, drafts, ...more });
}

/** Sends the request without waiting for the answer. */
async function continueAt(tab: Visit): Promise<void> {
  await act(async () => void tab.lock.continueHere());
  await pass(0);
}

const moves = () => server.asked('POST', '/lock').filter(({ body }) => body !== undefined);

test('the unsaved text of the first tab is a version before the lock moves', async () => {
  const first = await openTab(ana);
  const other = await openTab(second);
  await first.type('not saved yet');
  await act(async () => expect(await other.lock.continueHere()).toBe(true));
  await pass(0);
  expect(server.content).toBe('not saved yet');
  expect(server.drafts).toEqual([]);
  const order = server.requests.map(({ method, path }) => `${method} ${path}`);
  expect(order.indexOf('PUT /api/documents/d/content')).toBeLessThan(
    order.lastIndexOf('POST /api/documents/d/lock'),
  );
  expect(server.asked('PUT', '/content')).toMatchObject([{ body: { release: true } }]);
  expect(server.asked('DELETE', '/lock')).toEqual([]);
  expect(other.lock).toMatchObject({
    status: 'mine',
    isEditable: true,
    draft: null,
    loaded: { version: 2, content: 'not saved yet' },
  });
  expect(first.lock).toMatchObject({
    status: 'other-tab',
    isEditable: false,
    hasUnsavedText: false,
    draft: null,
    notice: { kind: 'lost', why: 'moved', outcome: { kind: 'saved', version: 2 } },
  });
  expect(drafts.texts).toEqual([]);
});

test('a first tab without unsaved text releases the lock, and saves nothing twice', async () => {
  const first = await openTab(ana);
  const other = await openTab(second);
  await first.type('saved');
  await pass(11);
  await continueAt(other);
  expect(other.lock).toMatchObject({ status: 'mine', loaded: { version: 2, content: 'saved' } });
  expect(server.asked('PUT', '/content')).toHaveLength(1);
  expect(first.lock.notice).toEqual({ kind: 'lost', why: 'moved', outcome: { kind: 'nothing-unsaved' } });
});

test('while the first tab saves, it is read-only, and both tabs show what is happening', async () => {
  const first = await openTab(ana);
  const other = await openTab(second);
  await first.type('not saved yet');
  const slow = moment();
  server.fateOf = ({ method }) => (method === 'PUT' ? { before: slow.comes } : {});
  await continueAt(other);
  expect(first.lock).toMatchObject({
    status: 'lost',
    isEditable: false,
    notice: { kind: 'lost', why: 'moved', outcome: { kind: 'saving' } },
  });
  expect(other.lock).toMatchObject({ status: 'other-tab', isLoading: true, isEditable: false });
  expect(moves()).toHaveLength(0);
  await act(async () => slow.come());
  await pass(0);
  expect(other.lock).toMatchObject({ status: 'mine', loaded: { content: 'not saved yet' } });
});

test('between the release there and the grant here the document is not shown as free', async () => {
  const first = await openTab(ana);
  const other = await openTab(second);
  await first.type('not saved yet');
  const slow = moment();
  server.fateOf = ({ method }) => (method === 'PUT' ? { after: slow.comes } : {});
  await continueAt(other);
  expect(server.hold).toBeNull();
  expect(other.lock).toMatchObject({ lockHolder: null, status: 'other-tab', isEditable: false });
  expect(first.lock).toMatchObject({ status: 'lost', isEditable: false });
  await act(async () => slow.come());
  await pass(0);
  expect(other.lock.status).toBe('mine');
});

test('the host’s content for a release is saved before the lock moves', async () => {
  const first = await openTab(ana, { onBeforeRelease: () => 'with the last word' });
  const other = await openTab(second);
  await first.type('without');
  await continueAt(other);
  expect(other.lock).toMatchObject({ status: 'mine', loaded: { content: 'with the last word' } });
});

test('an autosave under way finishes first, and later changes become a version too', async () => {
  const first = await openTab(ana);
  const other = await openTab(second);
  await first.type('one');
  const slow = moment();
  server.fateOf = ({ method }) => (method === 'PUT' ? { after: slow.comes } : {});
  await pass(10.5);
  await first.type('one two');
  await continueAt(other);
  server.fateOf = () => ({});
  await act(async () => slow.come());
  await pass(0);
  expect(server.saved).toEqual(['one', 'one two']);
  expect(other.lock).toMatchObject({ status: 'mine', loaded: { content: 'one two' } });
});

test('a silent first tab costs 1.2 s, and what it saves later is rescued', async () => {
  const first = await visit(server, ana);
  const other = await openTab(second);
  await first.type('not saved yet');
  await continueAt(other);
  await pass(1.199);
  expect(moves()).toHaveLength(0);
  await pass(0.001);
  expect(moves()).toHaveLength(1);
  expect(other.lock.status).toBe('mine');
  expect(server.drafts).toEqual([{ content: 'not saved yet', fence: 101, base: 1 }]);
  expect(first.lock.notice).toMatchObject({ kind: 'lost', why: 'moved', outcome: { kind: 'rescued' } });
});

test('a first tab that answers and then hangs costs 3 s, and what it saves later is rescued', async () => {
  const first = await openTab(ana);
  const other = await openTab(second);
  await first.type('not saved yet');
  const stuck = moment();
  server.fateOf = ({ method }) => (method === 'PUT' ? { before: stuck.comes } : {});
  await continueAt(other);
  await pass(2.999);
  expect(moves()).toHaveLength(0);
  await pass(0.001);
  expect(other.lock.status).toBe('mine');
  await act(async () => stuck.come());
  await pass(0);
  expect(server.drafts).toEqual([{ content: 'not saved yet', fence: 101, base: 1 }]);
  expect(first.lock).toMatchObject({
    status: 'other-tab',
    hasUnsavedText: false,
    notice: { kind: 'lost', why: 'moved', outcome: { kind: 'rescued' } },
  });
});

test('without a connection to other tabs the lock moves at once', async () => {
  const first = await visit(server, ana);
  const other = await visit(server, second, { tabs: { open: () => null } });
  await first.type('hello');
  await continueAt(other);
  expect(other.lock.status).toBe('mine');
});

test('after a double mount, as in React’s development mode, each tab has one line, and the text is saved once', async () => {
  const first = await openTab(ana, { isStrict: true });
  const other = await openTab(second, { isStrict: true });
  expect(tabs.lines).toBe(2);
  await first.type('not saved yet');
  await continueAt(other);
  expect(other.lock).toMatchObject({ status: 'mine', loaded: { version: 2, content: 'not saved yet' } });
  expect(server.asked('PUT', '/content')).toHaveLength(1);
  expect(tabs.sent.map(({ kind }) => kind)).toEqual(['wanted', 'heard', 'done']);
  await first.leave();
  await other.leave();
  expect(tabs.lines).toBe(0);
});

test('if two tabs request the lock, one gets it, and the text is saved once', async () => {
  const first = await openTab(ana);
  const others = [await openTab(second), await openTab(third)] as const;
  await first.type('not saved yet');
  const slow = moment();
  server.fateOf = ({ method }) => (method === 'PUT' ? { after: slow.comes } : {});
  await continueAt(others[0]);
  await continueAt(others[1]);
  expect(moves()).toHaveLength(0);
  await act(async () => slow.come());
  await pass(1);
  expect(others.map(({ lock }) => lock.status).sort()).toEqual(['mine', 'other-tab']);
  expect(server.saved).toEqual(['not saved yet']);
  expect(server.drafts).toEqual([]);
  for (const { lock } of others) expect(lock).toMatchObject({ isLoading: false, draft: null });
});

test('a tab with an outdated belief in its lock does not end the wait for the real holder', async () => {
  const asleep = await openTab(third, { isStrict: false });
  await asleep.type('of the sleeper');
  server.sockets.clear();
  await act(async () => server.free('document_lock_expired'));
  const first = await openTab(ana);
  await first.type('not saved yet');
  const other = await openTab(second);
  const slow = moment();
  server.fateOf = ({ method }, { tab }) =>
    method === 'PUT' && tab === 'ana-1' ? { before: slow.comes } : {};
  await continueAt(other);
  expect(server.drafts.map(({ content }) => content)).toEqual(['of the sleeper']);
  expect(tabs.sent.map(({ kind }) => kind)).toEqual(['wanted', 'heard', 'heard', 'done']);
  expect(moves()).toHaveLength(0);
  await act(async () => slow.come());
  await pass(0);
  expect(other.lock).toMatchObject({ status: 'mine', loaded: { content: 'not saved yet' } });
});

test('a take-over during the handover goes first, and nothing is lost', async () => {
  const first = await openTab(ana);
  const other = await openTab(second);
  const owner = await visit(server, olga);
  await first.type('not saved yet');
  const slow = moment();
  server.fateOf = ({ method }) => (method === 'PUT' ? { before: slow.comes } : {});
  await continueAt(other);
  await act(async () => void owner.lock.forceTakeLock());
  await act(async () => slow.come());
  await pass(0);
  expect(owner.lock).toMatchObject({ status: 'mine', loaded: { content: 'not saved yet' } });
  expect(first.lock.notice).toMatchObject({ kind: 'taken', outcome: { kind: 'saved', version: 2 } });
  expect(other.lock).toMatchObject({ status: 'other', notice: { kind: 'busy' } });
});

test('a failed take-over does not block the other tab', async () => {
  const host = moment();
  const first = await openTab(ana, { onBeforeRelease: () => host.comes });
  const other = await openTab(second);
  await first.type('not saved yet');
  await act(async () => server.mark(olga));
  await continueAt(other);
  expect(first.lock.status).toBe('taking');
  await act(async () => server.unmark());
  expect(first.lock).toMatchObject({ status: 'lost', isEditable: false, takenBy: null });
  await act(async () => host.come());
  await pass(0);
  expect(other.lock).toMatchObject({ status: 'mine', loaded: { content: 'not saved yet' } });
});

test('a handover that is cancelled while the other tab saves sends no request', async () => {
  const first = await openTab(ana);
  const other = await openTab(second);
  await first.type('not saved yet');
  const slow = moment();
  server.fateOf = ({ method }) => (method === 'PUT' ? { before: slow.comes } : {});
  await continueAt(other);
  await act(async () => other.lock.releaseLock());
  await act(async () => slow.come());
  await pass(5);
  expect(moves()).toHaveLength(0);
  expect(server.content).toBe('not saved yet');
  expect(first.lock.status).toBe('free');
  await first.type('and on');
  expect(first.lock.status).toBe('mine');
});

test('tabs of other users get no message, and no message identifies its tab', async () => {
  const first = await openTab(bob);
  const other = await openTab(ana);
  await first.type('hello');
  await continueAt(other);
  await pass(1.2);
  expect(first.lock.status).toBe('mine');
  expect(tabs.sent).toEqual([{ kind: 'wanted', request: expect.stringMatching(/^[0-9a-f]{32}$/) }]);
  expect(tabs.sent[0]?.request).not.toBe(pageTab);
});
