import type { Transport, TransportReply } from '@leasehold/react';
import { expect, it } from 'vitest';
import { trackPending } from '../src/live/pendingRequests';

it('is settled only when every pending request is answered, also one that an answer causes', async () => {
  const waiting: ((reply: TransportReply) => void)[] = [];
  const slow: Transport = { send: () => new Promise((resolve) => waiting.push(resolve)) };
  const { transport, settled } = trackPending(slow);
  const request = { method: 'GET', path: '/' } as const;
  await settled();

  const both = transport.send(request).then(() => transport.send(request));
  let isSettled = false;
  const settling = settled().then(() => {
    isSettled = true;
  });
  waiting.shift()?.({ status: 200, body: null });
  await Promise.resolve();
  expect(isSettled).toBe(false);
  await expect.poll(() => waiting.length).toBe(1);
  expect(isSettled).toBe(false);
  waiting.shift()?.({ status: 200, body: null });
  await both;
  await settling;
});

it('ignores a request without an answer', async () => {
  const { transport, settled } = trackPending({ send: () => Promise.reject(new Error('away')) });
  await expect(transport.send({ method: 'GET', path: '/' })).rejects.toThrow('away');
  await settled();
});
