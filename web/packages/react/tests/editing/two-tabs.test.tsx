import { act } from '@testing-library/react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { pageTab } from '../../src';
import { ModelServer } from '../support/modelServer';
import { ana, pass, useFakeTime, visit } from '../support/visit';

let server: ModelServer;
const second = { ...ana, tab: 'ana-2' };

beforeEach(() => {
  useFakeTime();
  server = new ModelServer();
});
afterEach(() => {
  vi.useRealTimers();
});

test('the second tab of the same user shows it, and may not take over by force', async () => {
  const first = await visit(server, { ...ana, role: 'owner' });
  const other = await visit(server, { ...second, role: 'owner' });
  await first.type('hello');
  expect(other.lock).toMatchObject({
    status: 'other-tab',
    isLockedByOther: true,
    isEditable: false,
    canForceTake: false,
  });
});

test('continueHere moves the lock, and the first tab shows where it went', async () => {
  const first = await visit(server, ana);
  const other = await visit(server, second);
  await first.type('hello');
  await pass(11);
  await act(async () => expect(await other.lock.continueHere()).toBe(true));
  await pass(0);
  expect(other.lock).toMatchObject({ status: 'mine', loaded: { version: 2, content: 'hello' } });
  expect(first.lock).toMatchObject({
    status: 'other-tab',
    isEditable: false,
    notice: { kind: 'lost', why: 'moved' },
  });
  await other.type('and more');
  await pass(11);
  expect(server.content).toBe('and more');
});

test('unsaved text of the first tab is not lost when the lock moves without a connection between tabs', async () => {
  const first = await visit(server, ana);
  const other = await visit(server, second);
  await first.type('not saved yet');
  await act(async () => expect(await other.lock.continueHere()).toBe(true));
  await pass(0);
  expect(server.drafts).toEqual([{ content: 'not saved yet', fence: 101, base: 1 }]);
  expect(first.lock.notice).toMatchObject({ kind: 'lost', why: 'moved', outcome: { kind: 'rescued' } });
});

test('a tab has a random id that is in no storage', () => {
  expect(pageTab).toMatch(/^[0-9a-f]{32}$/);
  expect(JSON.stringify({ ...sessionStorage, ...localStorage })).not.toContain(pageTab);
});
