import { act, renderHook } from '@testing-library/react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { connectLive, useLivePhase, useWatchedLock } from '../../src';
import { ModelServer } from '../support/modelServer';
import { bob, pass, useFakeTime, vera } from '../support/visit';

beforeEach(useFakeTime);
afterEach(() => {
  vi.useRealTimers();
});

test('a list shows live who edits, and nothing unknown', async () => {
  const server = new ModelServer();
  const live = connectLive({
    url: 'ws://model/ws',
    credentials: async () => ({ token: 'vera' }),
    openSocket: () => server.openSocket(vera),
    random: () => 0,
  });
  const shown = renderHook(() => ({ lock: useWatchedLock('d', live), phase: useLivePhase(live) }));
  expect(shown.result.current).toEqual({ lock: null, phase: 'connecting' });
  await pass(0);
  expect(shown.result.current).toMatchObject({ lock: { locked: false }, phase: 'online' });
  await act(async () => server.grant(bob));
  expect(shown.result.current.lock?.lock_holder?.user_name).toBe('Bob');
  await act(async () => server.goDown());
  expect(shown.result.current).toEqual({ lock: null, phase: 'offline' });
  server.comeUp();
  await pass(5);
  expect(shown.result.current.lock?.lock_holder?.user_name).toBe('Bob');
});
