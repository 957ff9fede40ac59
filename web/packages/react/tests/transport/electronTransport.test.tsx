import { act } from '@testing-library/react';
import { afterEach, expect, test, vi } from 'vitest';
import { type ElectronBridge, electronTransport, Unreachable } from '../../src';
import { ModelServer } from '../support/modelServer';
import { ana, bob, pass, useFakeTime, visit } from '../support/visit';

afterEach(() => {
  vi.useRealTimers();
});

/** The bridge of a preload script: it passes requests to the main process, which sends them. */
function bridgeTo(server: ModelServer): ElectronBridge {
  const main = server.transport(ana);
  const passOn = async (method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown) => {
    const { status, body: data } = await main.send({ method, path, body });
    return structuredClone({ status, data });
  };
  return {
    get: (path) => passOn('GET', path),
    post: (path, body) => passOn('POST', path, body),
    put: (path, body) => passOn('PUT', path, body),
    delete: (path) => passOn('DELETE', path),
  };
}

test('a document is edited, saved and released through window.electronAPI', async () => {
  useFakeTime();
  const server = new ModelServer();
  const electronAPI = bridgeTo(server);
  const page = await visit(server, ana, { transport: electronTransport(electronAPI, { tab: ana.tab }) });
  await page.type('from the desktop');
  expect(page.lock.status).toBe('mine');
  await act(async () => page.lock.releaseLock());
  expect(server.content).toBe('from the desktop');
  expect(server.hold).toBeNull();
  await act(async () => server.grant(bob));
  await act(async () => expect(await page.lock.acquireLock()).toBe(false));
  expect(page.lock.lockHolder?.user_name).toBe('Bob');
});

test('a window that closes saves with a plain put', async () => {
  useFakeTime();
  const server = new ModelServer();
  const page = await visit(server, ana, { transport: electronTransport(bridgeTo(server), { tab: ana.tab }) });
  await page.type('last words');
  await act(async () => void window.dispatchEvent(new Event('pagehide')));
  await pass(0);
  expect(server.content).toBe('last words');
  expect(server.hold).toBeNull();
});

function answering(answer: () => Promise<unknown>): ElectronBridge {
  return { get: answer, post: answer, put: answer, delete: answer };
}

test.each([
  [
    'status and data',
    { status: 409, data: { code: 'lock_busy' } },
    { status: 409, body: { code: 'lock_busy' } },
  ],
  ['status and body', { status: 200, body: [1] }, { status: 200, body: [1] }],
  ['the bare body of a good answer', { locked: false }, { status: 200, body: { locked: false } }],
  [
    'a bare problem, which has a status of its own',
    { code: 'lock_busy', status: 409 },
    { status: 409, body: { code: 'lock_busy', status: 409 } },
  ],
  ['nothing', undefined, { status: 200, body: null }],
])('a bridge may answer with %s', async (_, given, expected) => {
  const transport = electronTransport(answering(async () => given));
  expect(await transport.send({ method: 'GET', path: '/x' })).toEqual(expected);
});

test('a bridge may reject with the answer inside the error; any other rejection is no answer', async () => {
  const refused = Object.assign(new Error('409'), { response: { status: 409, data: { code: 'lock_busy' } } });
  const transport = electronTransport(answering(() => Promise.reject(refused)));
  expect(await transport.send({ method: 'GET', path: '/x' })).toEqual({
    status: 409,
    body: { code: 'lock_busy' },
  });
  const broken = electronTransport(answering(() => Promise.reject(new Error('ECONNREFUSED'))));
  await expect(broken.send({ method: 'GET', path: '/x' })).rejects.toThrow(Unreachable);
});

test('the tab and the headers of the host go with every request', async () => {
  const seen: unknown[] = [];
  const bridge = { ...answering(async () => null), put: async (...call: unknown[]) => void seen.push(call) };
  const transport = electronTransport(bridge, { tab: 'x', headers: () => ({ Authorization: 'Bearer t' }) });
  await transport.send({ method: 'PUT', path: '/x', body: { a: 1 } });
  expect(seen).toEqual([['/x', { a: 1 }, { headers: { Authorization: 'Bearer t', 'Leasehold-Tab': 'x' } }]]);
});

test('a bridge that does not answer in time is unreachable', async () => {
  vi.useFakeTimers();
  const transport = electronTransport(answering(() => new Promise(() => undefined)));
  const outcome = expect(transport.send({ method: 'GET', path: '/x', timeoutMs: 500 })).rejects.toThrow(
    Unreachable,
  );
  await vi.advanceTimersByTimeAsync(501);
  await outcome;
});
