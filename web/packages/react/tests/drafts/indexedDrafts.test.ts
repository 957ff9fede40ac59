import { expect, test, vi } from 'vitest';
import { type Draft, indexedDrafts } from '../../src';
import { DraftWriter } from '../../src/drafts/draftWriter';
import { MemoryDrafts } from '../support/memoryDrafts';

function draft(id: string, more: Partial<Draft> = {}): Draft {
  return {
    id,
    userId: 'ana',
    documentId: id,
    content: { type: 'doc' },
    baseVersion: 1,
    changedAt: 1,
    ...more,
  };
}

test('a draft is available to the next page, for its own user and document only', async () => {
  await indexedDrafts().put(draft('kept', { documentId: 'd1' }));
  expect(await indexedDrafts().list('ana', 'd1')).toEqual([draft('kept', { documentId: 'd1' })]);
  expect(await indexedDrafts().list('bob', 'd1')).toEqual([]);
  expect(await indexedDrafts().list('ana', 'd2')).toEqual([]);
});

test('drafts of one document are listed newest first, without removed ones', async () => {
  const drafts = indexedDrafts();
  await drafts.put(draft('old', { documentId: 'd3', changedAt: 1 }));
  await drafts.put(draft('new', { documentId: 'd3', changedAt: 2 }));
  expect((await drafts.list('ana', 'd3')).map(({ id }) => id)).toEqual(['new', 'old']);
  await drafts.remove('new');
  expect((await drafts.list('ana', 'd3')).map(({ id }) => id)).toEqual(['old']);
});

test('a browser that stores nothing causes no error, and may store a draft later', async () => {
  const drafts = indexedDrafts();
  const open = vi.spyOn(indexedDB, 'open').mockImplementation(() => {
    throw new DOMException('denied', 'SecurityError');
  });
  expect(await drafts.put(draft('lost', { documentId: 'd4' }))).toBe(false);
  expect(await drafts.list('ana', 'd4')).toEqual([]);
  open.mockRestore();
  expect(await drafts.put(draft('kept', { documentId: 'd4' }))).toBe(true);
  expect(await drafts.list('ana', 'd4')).toHaveLength(1);
});

/** The connections opened from now on. */
function watchConnections(): IDBDatabase[] {
  const opened: IDBDatabase[] = [];
  const open = indexedDB.open.bind(indexedDB);
  vi.spyOn(indexedDB, 'open').mockImplementation((...call) => {
    const request = open(...call);
    request.addEventListener('success', () => opened.push(request.result));
    return request;
  });
  return opened;
}

test('drafts are stored after the browser has closed the connection, with or without an event', async () => {
  const opened = watchConnections();
  const drafts = indexedDrafts();
  await drafts.put(draft('one', { documentId: 'd5' }));
  opened[0]?.close();
  expect(await drafts.put(draft('two', { documentId: 'd5' }))).toBe(true);
  const second = opened[1] as IDBDatabase;
  second.close();
  second.onclose?.(new Event('close'));
  expect(await drafts.put(draft('three', { documentId: 'd5' }))).toBe(true);
  expect(await drafts.list('ana', 'd5')).toHaveLength(3);
  expect(opened).toHaveLength(3);
});

test('deletion or upgrade of the database does not wait for this page, which continues', async () => {
  const drafts = indexedDrafts();
  await drafts.put(draft('one', { documentId: 'd6' }));
  await new Promise((resolve, reject) => {
    const deleting = indexedDB.deleteDatabase('leasehold-drafts');
    deleting.onsuccess = resolve;
    deleting.onblocked = reject;
  });
  expect(await drafts.put(draft('two', { documentId: 'd6' }))).toBe(true);
  expect((await drafts.list('ana', 'd6')).map(({ id }) => id)).toEqual(['two']);
});

test('only the newest of many changes is written, and a dropped draft is not written afterwards', () => {
  vi.useFakeTimers();
  try {
    const store = new MemoryDrafts();
    const keeper = new DraftWriter(store);
    const put = vi.spyOn(store, 'put');
    keeper.keep(draft('a', { content: '1' }));
    keeper.keep(draft('a', { content: '2' }));
    keeper.keep(draft('b'));
    keeper.drop('b');
    vi.advanceTimersByTime(1_000);
    expect(put.mock.calls.map(([{ content }]) => content)).toEqual(['2']);
  } finally {
    vi.useRealTimers();
  }
});

test('the report of a write is true only if every draft was stored', async () => {
  const store = new MemoryDrafts();
  const told: boolean[] = [];
  const keeper = new DraftWriter(store, (areKept) => told.push(areKept));
  const put = vi.spyOn(store, 'put').mockResolvedValueOnce(false);
  keeper.keep(draft('a'));
  keeper.flush();
  await vi.waitFor(() => expect(told).toEqual([false]), 20_000);
  keeper.keep(draft('a'));
  keeper.flush();
  await vi.waitFor(() => expect(told).toEqual([false, true]), 20_000);
  keeper.flush();
  expect(put).toHaveBeenCalledTimes(2);
});
