import type { DocumentLock, Draft } from '@leasehold/react';
import { act, cleanup, fireEvent, render, screen } from '@testing-library/react';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { LocalDraft } from '../src/features/editing/LocalDraft';

afterEach(cleanup);

function draft(id: string): Draft {
  return { id, userId: 'ana', documentId: 'd', content: `text ${id}`, baseVersion: 1, changedAt: 1 };
}

function lockWith(more: Partial<DocumentLock>): DocumentLock {
  const lock: Partial<DocumentLock> = {
    isEditable: true,
    isLockedByMe: true,
    hasUnsavedText: false,
    keepsDrafts: true,
    restoreDraft: vi.fn(async () => true),
    discardDraft: vi.fn(),
    ...more,
  };
  return lock as DocumentLock;
}

function offer(lock: DocumentLock, shown: Draft) {
  return (
    <LocalDraft lock={lock} draft={shown} editor={null} current="" isCompared={false} onCompare={vi.fn()} />
  );
}

async function press(name: string): Promise<void> {
  await act(async () => void fireEvent.click(screen.getByRole('button', { name })));
}

describe('a draft of this browser', () => {
  it('is discarded by its id, after a confirmation for this draft only', async () => {
    const lock = lockWith({});
    const { rerender } = render(offer(lock, draft('one')));
    await press('Discard');
    rerender(offer(lock, draft('two')));
    expect(screen.queryByRole('button', { name: 'Discard permanently' })).toBeNull();
    await press('Discard');
    await press('Discard permanently');
    expect(lock.discardDraft).toHaveBeenCalledExactlyOnceWith('two');
  });

  it('is put into the editor by its id, and not over unsaved text', async () => {
    const lock = lockWith({});
    const { rerender } = render(offer(lock, draft('one')));
    await press('Replace with this text');
    expect(lock.restoreDraft).toHaveBeenCalledExactlyOnceWith('one');
    rerender(offer(lockWith({ hasUnsavedText: true }), draft('one')));
    expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Replace with this text' }).disabled).toBe(
      true,
    );
  });

  it('is not called stored by a browser that stores nothing', () => {
    const { container, rerender } = render(offer(lockWith({}), draft('one')));
    expect(container.textContent).toContain('stored only in this browser');
    rerender(offer(lockWith({ keepsDrafts: false }), draft('one')));
    expect(container.textContent).not.toContain('stored only in this browser');
    expect(container.textContent).toContain('copy it before you leave');
  });
});
