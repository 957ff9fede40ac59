import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { connectLive, type LiveEvent } from '../../src';
import type { SocketLike } from '../../src/live/connection';
import { changed, joined, lockState, welcome } from '../support/lockStates';

class ScriptedSocket implements SocketLike {
  onopen: SocketLike['onopen'] = null;
  onmessage: SocketLike['onmessage'] = null;
  onclose: SocketLike['onclose'] = null;
  onerror: SocketLike['onerror'] = null;
  readonly sent: string[] = [];
  isClosed = false;
  readonly url: string;

  constructor(url: string) {
    this.url = url;
  }
  send(text: string): void {
    this.sent.push((JSON.parse(text) as { type: string }).type);
  }
  close(): void {
    this.isClosed = true;
  }
  deliver(message: unknown): void {
    this.onmessage?.({ data: typeof message === 'string' ? message : JSON.stringify(message) });
  }
  letIn(): void {
    this.onopen?.();
    this.deliver({ type: 'authenticated', data: welcome });
  }
}

const sockets: ScriptedSocket[] = [];
const invalid: unknown[] = [];
let credentials: () => Promise<{ token: string } | null>;

beforeEach(() => {
  vi.useFakeTimers();
  sockets.length = 0;
  invalid.length = 0;
  credentials = async () => ({ token: 't' });
});
afterEach(() => {
  vi.useRealTimers();
});

function connect() {
  return connectLive({
    url: 'https://example.test/ws',
    credentials: () => credentials(),
    onInvalid: (received) => invalid.push(received),
    random: () => 1,
    openSocket: (url) => {
      const socket = new ScriptedSocket(url);
      sockets.push(socket);
      return socket;
    },
  });
}

async function latest(): Promise<ScriptedSocket> {
  await vi.advanceTimersByTimeAsync(0);
  const socket = sockets.at(-1);
  if (!socket) throw new Error('no socket was opened');
  return socket;
}

function hearing(): { events: LiveEvent[]; hear: (event: LiveEvent) => void } {
  const events: LiveEvent[] = [];
  return { events, hear: (event) => events.push(event) };
}

test('the address gets the WebSocket protocol', async () => {
  connect().watch('d', () => undefined);
  expect((await latest()).url).toBe('wss://example.test/ws');
});

test('a later watcher gets the known state at once', async () => {
  const live = connect();
  live.watch('d', () => undefined);
  const socket = await latest();
  socket.letIn();
  socket.deliver(joined(lockState('5')));
  const { events, hear } = hearing();
  live.watch('d', hear);
  expect(events.map(({ kind }) => kind)).toEqual(['up', 'joined']);
  expect(socket.sent).toEqual(['authenticate', 'join']);
});

test('a document is left with its last watcher, and not before', async () => {
  const live = connect();
  const one = live.watch('d', () => undefined);
  const two = live.watch('d', () => undefined);
  const socket = await latest();
  socket.letIn();
  one();
  one();
  expect(socket.sent).not.toContain('leave');
  two();
  expect(socket.sent).toContain('leave');
});

test.each([
  ['not JSON', '{'],
  ['of an unknown type', '{"type":"document_exploded","data":{}}'],
  ['without its data', '{"type":"joined"}'],
  ['with a fence that is no number', JSON.stringify(changed(lockState('five')))],
  ['null', 'null'],
])('a message that is %s is dropped and reported, and the next one is processed', async (_, text) => {
  const live = connect();
  const { events, hear } = hearing();
  live.watch('d', hear);
  const socket = await latest();
  socket.letIn();
  socket.deliver(joined(lockState('5')));
  const before = events.length;
  socket.deliver(text);
  expect(invalid).toEqual([text]);
  expect(events).toHaveLength(before);
  socket.deliver(changed(lockState('6')));
  expect(events).toHaveLength(before + 1);
});

test('unknown members are accepted', async () => {
  const live = connect();
  const { events, hear } = hearing();
  live.watch('d', hear);
  const socket = await latest();
  socket.letIn();
  socket.deliver({
    type: 'joined',
    data: { document_id: 'd', role: 'editor', lock: { ...lockState('5'), colour: 'red' } },
  });
  expect(events.at(-1)?.kind).toBe('joined');
});

test('pauses between attempts double up to twenty seconds', async () => {
  connect().watch('d', () => undefined);
  const pauses: number[] = [];
  for (let attempt = 0; attempt < 8; attempt += 1) {
    const socket = await latest();
    const count = sockets.length;
    socket.onclose?.({ code: 1006 });
    let waited = 0;
    while (sockets.length === count) {
      await vi.advanceTimersByTimeAsync(100);
      waited += 100;
    }
    pauses.push(waited);
  }
  expect(pauses).toEqual([500, 1000, 2000, 4000, 8000, 16_000, 20_000, 20_000]);
});

test('a connection without an answer to a ping is replaced, and the old one ignored', async () => {
  const live = connect();
  const { events, hear } = hearing();
  live.watch('d', hear);
  const first = await latest();
  first.letIn();
  first.deliver(joined(lockState('5')));
  const speak = first.onmessage;
  await vi.advanceTimersByTimeAsync(15_000);
  expect(first.sent.at(-1)).toBe('ping');
  await vi.advanceTimersByTimeAsync(9_000);
  expect(first.isClosed).toBe(true);
  expect(first.onmessage).toBeNull();
  expect(events.at(-1)).toEqual({ kind: 'down' });
  expect(speak).not.toBeNull();
  const second = await latest();
  expect(second).not.toBe(first);
  second.letIn();
  expect(second.sent).toEqual(['authenticate', 'join']);
});

test('a socket that never opens is closed', async () => {
  connect().watch('d', () => undefined);
  await latest();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(sockets).toHaveLength(2);
});

test('credentials are requested again after an error, and without any there is no attempt', async () => {
  let attempts = 0;
  credentials = async () => {
    attempts += 1;
    if (attempts === 1) throw new Error('no network');
    return null;
  };
  const live = connect();
  live.watch('d', () => undefined);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(attempts).toBe(2);
  expect(live.phase).toBe('refused');
  credentials = async () => ({ token: 't' });
  live.reconnect();
  (await latest()).letIn();
  expect(live.phase).toBe('online');
});

test('changes of the phase are reported, and after close() no socket is opened', async () => {
  const live = connect();
  const phases: string[] = [];
  live.subscribe(() => phases.push(live.phase));
  live.watch('d', () => undefined);
  const socket = await latest();
  socket.letIn();
  socket.onclose?.({ code: 1012 });
  live.close();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(phases).toEqual(['connecting', 'online', 'offline', 'idle']);
  expect(sockets).toHaveLength(1);
});

test('a heartbeat is sent only over an open socket', async () => {
  const live = connect();
  live.watch('d', () => undefined);
  expect(live.heartbeat('d', 1)).toBe(false);
  const socket = await latest();
  socket.letIn();
  expect(live.heartbeat('d', 1)).toBe(true);
  expect(socket.sent.at(-1)).toBe('heartbeat');
});
