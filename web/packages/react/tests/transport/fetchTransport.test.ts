import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { fetchTransport, pageTab, Unreachable } from '../../src';

const asked: { url: string; init: RequestInit }[] = [];

beforeEach(() => {
  asked.length = 0;
});
afterEach(() => {
  vi.useRealTimers();
});

function answering(...replies: readonly (() => Response | Promise<Response>)[]): typeof fetch {
  return async (url, init) => {
    asked.push({ url: String(url), init: init ?? {} });
    const reply = replies[Math.min(asked.length, replies.length) - 1];
    if (!reply) throw new TypeError('Failed to fetch');
    return reply();
  };
}

test('a request carries the token, the tab and its body, and returns the answer for any status', async () => {
  const transport = fetchTransport({
    baseUrl: 'https://example.test',
    token: () => 'secret',
    fetch: answering(() => Response.json({ code: 'lock_busy' }, { status: 409 })),
  });
  const reply = await transport.send({ method: 'POST', path: '/api/documents/d/lock', body: { move: true } });
  expect(reply).toEqual({ status: 409, body: { code: 'lock_busy' } });
  expect(asked[0]).toMatchObject({
    url: 'https://example.test/api/documents/d/lock',
    init: {
      method: 'POST',
      body: '{"move":true}',
      headers: {
        Authorization: 'Bearer secret',
        'Leasehold-Tab': pageTab,
        'Content-Type': 'application/json',
      },
    },
  });
});

test('a request of a page that goes away is sent at once, and is kept alive', () => {
  const transport = fetchTransport({ token: () => 'secret', fetch: answering(() => new Response('{}')) });
  void transport.send({ method: 'PUT', path: '/x', body: {}, keepAlive: true });
  expect(asked[0]?.init.keepalive).toBe(true);
});

test('no network, and no answer in time, are both unreachable', async () => {
  await expect(fetchTransport({ fetch: answering() }).send({ method: 'GET', path: '/x' })).rejects.toThrow(
    Unreachable,
  );
  vi.useFakeTimers();
  const hanging: typeof fetch = (_, init) =>
    new Promise((_resolve, reject) =>
      init?.signal?.addEventListener('abort', () => reject(new Error('aborted'))),
    );
  const late = fetchTransport({ fetch: hanging }).send({ method: 'GET', path: '/x', timeoutMs: 1_000 });
  const outcome = expect(late).rejects.toThrow(Unreachable);
  await vi.advanceTimersByTimeAsync(1_001);
  await outcome;
});

test('an expired token is renewed once, and the request repeated with the new one', async () => {
  let token = 'old';
  const transport = fetchTransport({
    token: async () => token,
    onUnauthorized: async () => {
      token = 'new';
      return true;
    },
    fetch: answering(
      () => new Response('', { status: 401 }),
      () => Response.json({ fine: true }),
    ),
  });
  expect(await transport.send({ method: 'GET', path: '/x' })).toEqual({ status: 200, body: { fine: true } });
  expect(asked.map(({ init }) => new Headers(init.headers).get('Authorization'))).toEqual([
    'Bearer old',
    'Bearer new',
  ]);
});

test('an answer that is not JSON has no body', async () => {
  const transport = fetchTransport({ fetch: answering(() => new Response('<html>', { status: 502 })) });
  expect(await transport.send({ method: 'GET', path: '/x' })).toEqual({ status: 502, body: null });
});
