import { fireEvent, render, screen, within } from '@testing-library/react';
import { expect, test, vi } from 'vitest';
import { type CompareTarget, type DocumentLock, LockBanner, messages } from '../../src';
import { holder } from '../support/lockStates';

function lock(more: Partial<DocumentLock> = {}): DocumentLock {
  return {
    status: 'free',
    lockHolder: null,
    isLockedByMe: false,
    isLockedByOther: false,
    takenBy: null,
    canForceTake: false,
    isLoading: false,
    isEditable: true,
    isSaving: false,
    hasUnsavedText: false,
    lastSaved: null,
    version: 1,
    loaded: null,
    idleIn: null,
    notice: null,
    draft: null,
    keepsDrafts: true,
    acquireLock: vi.fn(async () => true),
    releaseLock: vi.fn(async () => undefined),
    forceTakeLock: vi.fn(async () => true),
    continueHere: vi.fn(async () => true),
    save: vi.fn(async () => true),
    noteActivity: vi.fn(),
    noteChange: vi.fn(),
    restoreDraft: vi.fn(async () => true),
    discardDraft: vi.fn(),
    dismissNotice: vi.fn(),
    retry: vi.fn(),
    reload: vi.fn(),
    ...more,
  };
}

const byOlga = { user_id: 'olga', user_name: 'Olga' };
const mine: Partial<DocumentLock> = { status: 'mine', isLockedByMe: true };
const bobs: Partial<DocumentLock> = {
  status: 'other',
  isLockedByOther: true,
  isEditable: false,
  lockHolder: holder('Bob'),
};

function statusText(): string {
  return screen.getAllByRole('status')[0]?.textContent ?? '';
}

function press(name: string): void {
  fireEvent.click(screen.getByRole('button', { name }));
}

test('the holder can stop editing', () => {
  const shown = lock(mine);
  render(<LockBanner lock={shown} />);
  expect(statusText()).toBe('You are editing this document');
  press('Stop editing');
  expect(shown.releaseLock).toHaveBeenCalledOnce();
});

test('a free document offers to edit, and a read-only one does not', () => {
  const shown = lock();
  const { rerender } = render(<LockBanner lock={shown} />);
  press('Edit');
  expect(shown.acquireLock).toHaveBeenCalledOnce();
  rerender(<LockBanner lock={lock({ isEditable: false })} />);
  expect(screen.queryAllByRole('button')).toEqual([]);
  expect(statusText()).toBe('You can read this document');
});

test('others see who edits and since when, and only owners can take over', () => {
  const { rerender } = render(<LockBanner lock={lock(bobs)} />);
  expect(statusText()).toMatch(/^Being edited by Bob since \d/);
  expect(screen.queryAllByRole('button')).toEqual([]);
  rerender(<LockBanner lock={lock({ ...bobs, canForceTake: true })} />);
  expect(screen.getByRole('button', { name: 'Take over editing' })).toBeTruthy();
});

test('a take-over explains its effect before it happens', () => {
  const shown = lock({ ...bobs, canForceTake: true });
  render(<LockBanner lock={shown} />);
  press('Take over editing');
  expect(shown.forceTakeLock).not.toHaveBeenCalled();
  const question = screen.getByRole('group', { name: 'Take over editing' });
  expect(question.textContent).toContain('Bob will be asked to save');
  expect(document.activeElement).toBe(within(question).getByRole('button', { name: 'Take over' }));
  press('Cancel');
  press('Take over editing');
  press('Take over');
  expect(shown.forceTakeLock).toHaveBeenCalledOnce();
});

test('a confirmation for one editor does not apply to the next', () => {
  const { rerender } = render(<LockBanner lock={lock({ ...bobs, canForceTake: true })} />);
  press('Take over editing');
  const next = { ...bobs, canForceTake: true, lockHolder: holder('Cleo', { acquired_at: 1_790_000_500 }) };
  rerender(<LockBanner lock={lock(next)} />);
  expect(screen.queryByRole('button', { name: 'Take over' })).toBeNull();
});

test('the taker and the previous editor both see that the text is being saved', () => {
  const { rerender } = render(<LockBanner lock={lock({ ...bobs, status: 'taking' })} />);
  expect(statusText()).toBe('Saving the previous editor’s text…');
  rerender(<LockBanner lock={lock({ ...mine, status: 'taking', takenBy: byOlga })} />);
  expect(statusText()).toBe('Olga is taking over. Saving your text…');
});

test('after a take-over the text can be viewed and compared', () => {
  const onView = vi.fn();
  const onCompare = vi.fn<(target: CompareTarget) => void>();
  const shown = lock({
    ...bobs,
    status: 'taken',
    notice: { kind: 'taken', by: byOlga, outcome: { kind: 'saved', version: 7 } },
  });
  render(<LockBanner lock={shown} onView={onView} onCompare={onCompare} />);
  expect(statusText()).toBe('Editing taken over by Olga Your text is saved as version 7');
  press('View');
  press('Compare');
  press('Close');
  expect(onView).toHaveBeenCalledWith(7);
  expect(onCompare).toHaveBeenCalledWith({ kind: 'version', version: 7 });
  expect(shown.dismissNotice).toHaveBeenCalledOnce();
});

test('a rescued draft can be compared, and without a way to show it there is no button', () => {
  const onCompare = vi.fn<(target: CompareTarget) => void>();
  const outcome = { kind: 'rescued', draftId: 'x', version: 3 } as const;
  const shown = lock({ ...bobs, status: 'lost', notice: { kind: 'lost', why: 'expired', outcome } });
  const { rerender } = render(<LockBanner lock={shown} onCompare={onCompare} />);
  press('Compare');
  expect(onCompare).toHaveBeenCalledWith({ kind: 'rescued', draftId: 'x' });
  rerender(<LockBanner lock={shown} />);
  expect(screen.queryByRole('button', { name: 'Compare' })).toBeNull();
});

test('editing in another tab can be continued here', () => {
  const shown = lock({ ...bobs, status: 'other-tab' });
  render(<LockBanner lock={shown} />);
  expect(statusText()).toBe('You are editing in another tab');
  press('Continue here');
  expect(shown.continueHere).toHaveBeenCalledOnce();
});

test('while the other tab saves the banner shows it, and the button keeps its place and the focus', () => {
  const shown = lock({ ...bobs, status: 'other-tab', loaded: { version: 1, content: '' } });
  const { rerender } = render(<LockBanner lock={shown} />);
  const button = screen.getByRole('button', { name: 'Continue here' });
  button.focus();
  rerender(<LockBanner lock={{ ...shown, isLoading: true }} />);
  expect(statusText()).toBe(messages.en.movingHere);
  rerender(<LockBanner lock={{ ...shown, isLoading: true }} messages={messages.de} />);
  expect(statusText()).toBe(messages.de.movingHere);
  expect(document.activeElement).toBe(button);
});

test('without a connection the banner says that the text is stored, and offers a retry', () => {
  const shown = lock({ ...mine, status: 'offline' });
  render(<LockBanner lock={shown} />);
  expect(statusText()).toBe('Connection lost. Your text is stored in this browser Retrying…');
  press('Retry now');
  expect(shown.retry).toHaveBeenCalledOnce();
});

test('an idle release explains how to continue', () => {
  render(<LockBanner lock={lock({ notice: { kind: 'idle' } })} />);
  expect(statusText()).toContain('Type to continue');
});

test('the countdown is shown and not read out every second', () => {
  const { rerender } = render(<LockBanner lock={lock({ ...mine, idleIn: 5 })} />);
  const first = statusText();
  expect(screen.getByText('5 s').getAttribute('aria-hidden')).toBe('true');
  rerender(<LockBanner lock={lock({ ...mine, idleIn: 4 })} />);
  expect(screen.getByText('4 s')).toBeTruthy();
  expect(statusText()).toBe(first);
});

test('the live region is polite, stays the same element, and never takes the focus', () => {
  const outside = document.createElement('input');
  document.body.append(outside);
  outside.focus();
  const { rerender } = render(<LockBanner lock={lock()} />);
  const region = screen.getByRole('status');
  expect(region.getAttribute('aria-live')).toBe('polite');
  for (const state of [mine, bobs, { ...bobs, status: 'other-tab' }, { status: 'offline' }] as const) {
    rerender(<LockBanner lock={lock(state)} />);
    expect(screen.getByRole('status')).toBe(region);
    expect(document.activeElement).toBe(outside);
  }
});

test('a draft in this browser is offered', () => {
  const draft = { id: 'x', userId: 'ana', documentId: 'd', content: 'kept', baseVersion: 1, changedAt: 1 };
  const shown = lock({ draft });
  const onCompare = vi.fn<(target: CompareTarget) => void>();
  const { rerender } = render(<LockBanner lock={shown} onCompare={onCompare} />);
  press('Compare');
  press('Restore in the editor');
  press('Discard');
  expect(onCompare).toHaveBeenCalledWith({ kind: 'local', draft });
  expect(shown.restoreDraft).toHaveBeenCalledExactlyOnceWith('x');
  expect(shown.discardDraft).toHaveBeenCalledExactlyOnceWith('x');
  rerender(<LockBanner lock={lock({ draft, isEditable: false })} />);
  expect(screen.queryByRole('button', { name: 'Restore in the editor' })).toBeNull();
  rerender(<LockBanner lock={lock({ draft })} showsDraft={false} />);
  expect(screen.queryByRole('button', { name: 'Discard' })).toBeNull();
});

test('a browser that stores nothing does not claim to store text', () => {
  const draft = { id: 'x', userId: 'ana', documentId: 'd', content: 'kept', baseVersion: 1, changedAt: 1 };
  const states: Partial<DocumentLock>[] = [
    { status: 'offline', isLockedByMe: true },
    { status: 'lost', notice: { kind: 'lost', why: 'expired', outcome: { kind: 'kept-locally' } } },
    { ...bobs, notice: { kind: 'typed-kept', by: null } },
    { notice: { kind: 'outdated' } },
    { draft },
  ];
  for (const state of states) {
    const { container, rerender } = render(<LockBanner lock={lock(state)} />);
    expect(container.textContent).toContain('is stored');
    rerender(<LockBanner lock={lock({ ...state, keepsDrafts: false })} />);
    expect(container.textContent).not.toContain('is stored');
    expect(container.textContent).toMatch(/before you leave|leave the page open/);
  }
});

test('in another language every text is in that language', () => {
  render(<LockBanner lock={lock(mine)} messages={messages.de} />);
  expect(statusText()).toBe('Sie bearbeiten dieses Dokument');
  expect(screen.getByRole('button', { name: 'Bearbeiten beenden' })).toBeTruthy();
});

test('every text exists in both languages, and differs', () => {
  const call = (text: unknown): unknown => (typeof text === 'function' ? text('Bob', '12:00') : text);
  const german = new Map(Object.entries(messages.de));
  expect([...german.keys()].sort()).toEqual(Object.keys(messages.en).sort());
  const same = Object.entries(messages.en).filter(([name, text]) => call(text) === call(german.get(name)));
  expect(same.map(([name]) => name)).toEqual(['seconds']);
});
