import { act } from '@testing-library/react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { MemoryDrafts } from '../support/memoryDrafts';
import { ModelServer } from '../support/modelServer';
import { ModelTabs } from '../support/modelTabs';
import { ana, bob, moment, pass, useFakeTime, vera, visit } from '../support/visit';

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

test('text is stored in this browser within a second, until the service has acknowledged it', async () => {
  const page = await visit(server, ana, { drafts });
  await page.type('hello');
  await pass(1);
  expect(drafts.texts).toEqual(['hello']);
  await pass(11);
  expect(drafts.texts).toEqual([]);
});

test('a draft of an earlier visit is offered, and restored on request', async () => {
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

test('a draft with the document’s content is not offered, and deleted', async () => {
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

test("another user's draft in the same browser is not shown", async () => {
  leave('secret', bob);
  const page = await visit(server, ana, { drafts });
  expect(page.lock.draft).toBeNull();
});

test('a draft that cannot be restored during another hold is still offered', async () => {
  leave('from yesterday');
  const page = await visit(server, ana, { drafts, isWithoutSocket: true });
  server.grant(bob);
  await act(async () => expect(await page.lock.restoreDraft()).toBe(false));
  expect(page.lock.draft?.content).toBe('from yesterday');
});

test('the text of another tab is not offered while that tab edits', async () => {
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

test('a text that another tab has just saved is not offered before the new text is loaded', async () => {
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

test('a tab stops offering an old draft while another tab edits, and offers it again afterwards', async () => {
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

test('the text of a closed tab is offered once its hold has ended', async () => {
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

test('the text of a closed tab is offered after continueHere', async () => {
  const gone = await visit(server, ana, { drafts, ticker: { start: () => () => undefined } });
  await gone.type('never saved');
  await pass(1);
  server.sockets.clear();
  const other = await visit(server, { ...ana, tab: 'ana-2' }, { drafts, tabs: new ModelTabs() });
  await act(async () => void other.lock.continueHere());
  await pass(2);
  expect(other.lock).toMatchObject({ status: 'mine', draft: { content: 'never saved' } });
});

test('a draft is not offered before the lock state is known', async () => {
  leave('from yesterday');
  server.goDown();
  const page = await visit(server, ana, { drafts });
  expect(page.lock).toMatchObject({ status: 'offline', draft: null });
  server.comeUp();
  await pass(5);
  expect(page.lock.draft?.content).toBe('from yesterday');
});

/** All texts in all places. */
function kept(): unknown[] {
  return [...server.saved, ...server.drafts.map(({ content }) => content), ...drafts.texts];
}

test('a draft restored over unsaved text makes that text a draft of its own', async () => {
  leave('from yesterday');
  const page = await visit(server, ana, { drafts });
  await page.type('an hour of work');
  await act(async () => expect(await page.lock.restoreDraft()).toBe(true));
  expect(page.lock).toMatchObject({
    loaded: { content: 'from yesterday' },
    draft: { content: 'an hour of work' },
  });
  await pass(20);
  expect(server.content).toBe('from yesterday');
  expect(drafts.texts).toEqual(['an hour of work']);
});

test('a text saved while a draft is restored is a version, and no longer a draft', async () => {
  leave('from yesterday');
  const page = await visit(server, ana, { drafts });
  await page.type('an hour of work');
  const slow = moment();
  server.fateOf = ({ method }) => (method === 'PUT' ? { after: slow.comes } : {});
  await pass(11);
  await act(async () => void page.lock.restoreDraft());
  server.fateOf = () => ({});
  await act(async () => slow.come());
  await pass(20);
  expect(server.saved).toEqual(['an hour of work', 'from yesterday']);
  expect(page.lock.draft).toBeNull();
  expect(drafts.texts).toEqual([]);
});

test('changes between the request for a draft and the grant are kept', async () => {
  leave('from yesterday');
  const page = await visit(server, ana, { drafts });
  const slow = moment();
  server.fateOf = ({ method }) => (method === 'POST' ? { after: slow.comes } : {});
  await act(async () => void page.lock.restoreDraft());
  await act(async () => page.lock.noteChange('as it was, and a new sentence'));
  await act(async () => slow.come());
  await pass(20);
  expect(kept()).toContain('as it was, and a new sentence');
  expect(server.content).toBe('from yesterday');
});

test('a draft requested during a release does not appear in a later hold', async () => {
  leave('from yesterday');
  const page = await visit(server, ana, { drafts });
  await page.type('first');
  const slow = moment();
  server.fateOf = ({ method }) => (method === 'PUT' ? { after: slow.comes } : {});
  await act(async () => void page.lock.releaseLock());
  await act(async () => expect(await page.lock.restoreDraft()).toBe(false));
  server.fateOf = () => ({});
  await act(async () => slow.come());
  await pass(5);
  await page.type('first and a new sentence');
  await pass(15);
  expect(server.content).toBe('first and a new sentence');
  expect(page.lock.draft?.content).toBe('from yesterday');
});

test('a stop cancels the request for a draft', async () => {
  leave('from yesterday');
  const page = await visit(server, ana, { drafts });
  const slow = moment();
  server.fateOf = ({ method }) => (method === 'POST' ? { after: slow.comes } : {});
  let isRestored: boolean | null = null;
  await act(async () => void page.lock.restoreDraft().then((is) => (isRestored = is)));
  await act(async () => void page.lock.releaseLock());
  expect(isRestored).toBe(false);
  await act(async () => slow.come());
  await pass(5);
  expect(server.content).toBe('as it was');
  expect(page.lock.draft?.content).toBe('from yesterday');
});

test('restoreDraft is false at once for a viewer', async () => {
  leave('from yesterday', vera);
  const page = await visit(server, vera, { drafts });
  expect(page.lock.draft).not.toBeNull();
  await act(async () => expect(await page.lock.restoreDraft()).toBe(false));
});

test('a draft is discarded by its id, even if another one is shown', async () => {
  leave('one');
  leave('two');
  const page = await visit(server, ana, { drafts });
  const shown = page.lock.draft?.id;
  await act(async () => page.lock.discardDraft(shown));
  await act(async () => page.lock.discardDraft(shown));
  expect(drafts.texts).toHaveLength(1);
  expect(page.lock.draft).not.toBeNull();
});

test('a restored draft comes with the text that it replaces, so that it can be undone', async () => {
  leave('from yesterday');
  const page = await visit(server, ana, { drafts });
  expect(page.lock.loaded).toEqual({ version: 1, content: 'as it was' });
  await act(async () => expect(await page.lock.restoreDraft()).toBe(true));
  expect(page.lock.loaded).toEqual({ version: 1, content: 'from yesterday', replaced: 'as it was' });
});

test('a browser that stores nothing is recognized at the first draft', async () => {
  let isWilling = false;
  const put = drafts.put.bind(drafts);
  drafts.put = async (draft) => isWilling && put(draft);
  const page = await visit(server, ana, { drafts });
  expect(page.lock.keepsDrafts).toBe(true);
  await page.type('hello');
  await pass(1);
  expect(page.lock.keepsDrafts).toBe(false);
  isWilling = true;
  await page.type('hello again');
  await pass(1);
  expect(page.lock.keepsDrafts).toBe(true);
});
