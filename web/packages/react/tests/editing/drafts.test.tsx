import { act } from '@testing-library/react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { MemoryDrafts } from '../support/memoryDrafts';
import { ModelServer } from '../support/modelServer';
import { ModelTabs } from '../support/modelTabs';
import { ana, bob, moment, pass, useFakeTime, visit } from '../support/visiting';

let server: ModelServer;
let drafts: MemoryDrafts;

beforeEach(() => {
  useFakeTime();
  server = new ModelServer();
  drafts = new MemoryDrafts();
});
afterEach(() => {
  vi.useRealTimers();
});

function leave(content: string, who = ana): void {
  drafts.kept.set(`old-${content}`, {
    id: `old-${content}`,
    userId: who.id,
    documentId: 'd',
    content,
    baseVersion: 1,
    changedAt: 1,
  });
}

test('text is in this browser within a second, and until the service has acknowledged it', async () => {
  const page = await visit(server, ana, { drafts });
  await page.type('hello');
  await pass(1);
  expect(drafts.texts).toEqual(['hello']);
  await pass(11);
  expect(drafts.texts).toEqual([]);
});

test('a draft of an earlier visit is offered, and put into the editor when it is wanted', async () => {
  leave('from yesterday');
  const page = await visit(server, ana, { drafts });
  expect(page.lock.draft?.content).toBe('from yesterday');
  await act(async () => expect(await page.lock.restoreDraft()).toBe(true));
  expect(page.lock).toMatchObject({ status: 'mine', draft: null, loaded: { content: 'from yesterday' } });
  expect(drafts.kept.has('old-from yesterday')).toBe(true);
  await pass(11);
  expect(server.content).toBe('from yesterday');
  expect(drafts.texts).toEqual([]);
});

test('a draft that the document has anyway is not offered, and forgotten', async () => {
  leave('as it was');
  const page = await visit(server, ana, { drafts });
  expect(page.lock.draft).toBeNull();
  expect(drafts.texts).toEqual([]);
});

test('a discarded draft is gone, and the next one is offered', async () => {
  leave('one');
  leave('two');
  const page = await visit(server, ana, { drafts });
  const first = page.lock.draft?.content;
  await act(async () => page.lock.discardDraft());
  expect(page.lock.draft?.content).not.toBe(first);
  expect(drafts.texts).toHaveLength(1);
});

test("another person's draft in the same browser is not shown", async () => {
  leave('secret', bob);
  const page = await visit(server, ana, { drafts });
  expect(page.lock.draft).toBeNull();
});

test('a draft that cannot be restored, since somebody edits, is still offered', async () => {
  leave('from yesterday');
  const page = await visit(server, ana, { drafts, isWithoutSocket: true });
  server.grant(bob);
  await act(async () => expect(await page.lock.restoreDraft()).toBe(false));
  expect(page.lock.draft?.content).toBe('from yesterday');
});

test('what another tab of the same person is typing is not offered while that tab edits', async () => {
  const first = await visit(server, ana, { drafts });
  await first.type('being typed');
  await pass(1);
  expect(drafts.texts).toEqual(['being typed']);
  const other = await visit(server, { ...ana, tab: 'ana-2' }, { drafts });
  expect(other.lock).toMatchObject({ status: 'other-tab', draft: null });
  await act(async () => first.lock.releaseLock());
  await pass(1);
  expect(other.lock).toMatchObject({ status: 'free', draft: null, loaded: { content: 'being typed' } });
});

test('what another tab has just saved is not offered before its answer and the new text are here', async () => {
  const first = await visit(server, ana, { drafts });
  const other = await visit(server, { ...ana, tab: 'ana-2' }, { drafts });
  await first.type('being typed');
  await pass(1);
  const [answer, text] = [moment(), moment()];
  server.fateOf = ({ method, path }) => {
    if (method === 'PUT') return { after: answer.comes };
    return path === '/api/documents/d' ? { before: text.comes } : {};
  };
  await act(async () => void first.lock.releaseLock());
  await pass(0);
  expect(drafts.texts).toEqual(['being typed']);
  expect(other.lock).toMatchObject({ status: 'free', draft: null });
  await act(async () => text.come());
  await pass(0);
  expect(other.lock).toMatchObject({ draft: null, loaded: { content: 'being typed' } });
  await act(async () => answer.come());
  await pass(0);
});

test('a tab that knows of an old draft stops offering it while another one edits, and offers it again', async () => {
  leave('from yesterday');
  const first = await visit(server, ana, { drafts });
  const other = await visit(server, { ...ana, tab: 'ana-2' }, { drafts });
  expect(other.lock.draft?.content).toBe('from yesterday');
  await first.type('today');
  expect(other.lock.draft).toBeNull();
  await act(async () => other.lock.discardDraft());
  await act(async () => first.lock.releaseLock());
  await pass(1);
  expect(other.lock.draft?.content).toBe('from yesterday');
});

test('what a tab had typed is offered once that tab and its hold are gone', async () => {
  const gone = await visit(server, ana, { drafts, ticker: { start: () => () => undefined } });
  await gone.type('never saved');
  await pass(1);
  server.sockets.clear();
  const other = await visit(server, { ...ana, tab: 'ana-2' }, { drafts });
  expect(other.lock).toMatchObject({ status: 'other-tab', draft: null });
  await pass(46);
  await act(async () => server.sweep());
  await pass(1);
  expect(other.lock).toMatchObject({ status: 'free', draft: { content: 'never saved' } });
});

test('what a tab that is gone had typed is offered to whoever goes on here', async () => {
  const gone = await visit(server, ana, { drafts, ticker: { start: () => () => undefined } });
  await gone.type('never saved');
  await pass(1);
  server.sockets.clear();
  const other = await visit(server, { ...ana, tab: 'ana-2' }, { drafts, tabs: new ModelTabs() });
  await act(async () => void other.lock.continueHere());
  await pass(1);
  expect(other.lock).toMatchObject({ status: 'mine', draft: { content: 'never saved' } });
});

test('a draft is not offered before it is known who edits', async () => {
  leave('from yesterday');
  server.goDown();
  const page = await visit(server, ana, { drafts });
  expect(page.lock).toMatchObject({ status: 'offline', draft: null });
  server.comeUp();
  await pass(5);
  expect(page.lock.draft?.content).toBe('from yesterday');
});
