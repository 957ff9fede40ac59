import { act } from '@testing-library/react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ModelServer } from '../support/modelServer';
import { ana, olga, pass, useFakeTime, visit } from '../support/visit';

let server: ModelServer;

beforeEach(() => {
  useFakeTime();
  server = new ModelServer();
});
afterEach(() => {
  vi.useRealTimers();
});

test('a host that manages the text gets the lock at the first key press, and its text is not sent', async () => {
  const page = await visit(server, ana, { managesText: false });
  expect(page.lock).toMatchObject({ status: 'free', isEditable: true, isLoading: false });
  await page.type('known to the host alone');
  await pass(12);
  expect(page.lock).toMatchObject({ status: 'mine', hasUnsavedText: false });
  expect(server.requests.filter(({ path }) => !path.includes('/lock'))).toEqual([]);
});

test('such a host saves before the lock is released', async () => {
  const order: string[] = [];
  const onBeforeRelease = async () => {
    order.push(server.hold ? 'saved while held' : 'saved too late');
  };
  const page = await visit(server, ana, { managesText: false, onBeforeRelease });
  await page.type('text');
  await act(async () => page.lock.releaseLock());
  expect(order).toEqual(['saved while held']);
  expect(server.hold).toBeNull();
});

test('a slow host does not delay a take-over', async () => {
  const page = await visit(server, ana, {
    managesText: false,
    onBeforeRelease: () => new Promise<undefined>(() => undefined),
  });
  await page.type('text');
  await act(async () => server.mark(olga));
  await pass(2.5);
  expect(server.hold?.who).toBe(olga);
  expect(page.lock.status).toBe('taken');
});
