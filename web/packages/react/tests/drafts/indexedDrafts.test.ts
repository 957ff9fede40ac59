import { expect, test, vi } from 'vitest';
import { type Draft, indexedDrafts } from '../../src';
import { DraftKeeper } from '../../src/drafts/draftKeeper';
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

test('a draft is there for the next page, and for its own person and document only', async () => {
  await indexedDrafts().put(draft('kept', { documentId: 'd1' }));
  expect(await indexedDrafts().list('ana', 'd1')).toEqual([draft('kept', { documentId: 'd1' })]);
  expect(await indexedDrafts().list('bob', 'd1')).toEqual([]);
  expect(await indexedDrafts().list('ana', 'd2')).toEqual([]);
});

test('drafts of one document come newest first, and a removed one is gone', async () => {
  const drafts = indexedDrafts();
  await drafts.put(draft('old', { documentId: 'd3', changedAt: 1 }));
  await drafts.put(draft('new', { documentId: 'd3', changedAt: 2 }));
  expect((await drafts.list('ana', 'd3')).map(({ id }) => id)).toEqual(['new', 'old']);
  await drafts.remove('new');
  expect((await drafts.list('ana', 'd3')).map(({ id }) => id)).toEqual(['old']);
});

test('a browser that keeps nothing stops nobody, and may keep something later', async () => {
  const drafts = indexedDrafts();
  const open = vi.spyOn(indexedDB, 'open').mockImplementation(() => {
    throw new DOMException('denied', 'SecurityError');
  });
  await drafts.put(draft('lost', { documentId: 'd4' }));
  expect(await drafts.list('ana', 'd4')).toEqual([]);
  open.mockRestore();
  await drafts.put(draft('kept', { documentId: 'd4' }));
  expect(await drafts.list('ana', 'd4')).toHaveLength(1);
});

test('only the newest of many changes is written, and a dropped draft is not written afterwards', () => {
  vi.useFakeTimers();
  try {
    const store = new MemoryDrafts();
    const keeper = new DraftKeeper(store);
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
