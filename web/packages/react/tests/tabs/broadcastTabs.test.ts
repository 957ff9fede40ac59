import { afterEach, expect, test, vi } from 'vitest';
import { broadcastTabs, type TabLine, type TabMessage } from '../../src';

const open: TabLine[] = [];

afterEach(() => {
  for (const line of open.splice(0)) line.hangUp();
  vi.unstubAllGlobals();
});

function openLine(userId: string, documentId: string) {
  const received: TabMessage[] = [];
  const line = broadcastTabs().open(userId, documentId, (message) => received.push(message));
  if (!line) throw new Error('no line');
  open.push(line);
  return { received, say: line.say };
}

test('a message reaches the other tabs of the same user and document, and only those', async () => {
  const sender = openLine('ana', 'd');
  const tab = openLine('ana', 'd');
  const others = [openLine('bob', 'd'), openLine('ana', 'e'), openLine('an', 'a/d')];
  sender.say({ kind: 'wanted', request: 'r' });
  await vi.waitFor(() => expect(tab.received).toEqual([{ kind: 'wanted', request: 'r' }]), 20_000);
  for (const { received } of [sender, ...others]) expect(received).toEqual([]);
});

test('an unreadable message is dropped', async () => {
  const tab = openLine('ana', 'd/ä');
  const stranger = new BroadcastChannel('leasehold/ana/d%2F%C3%A4');
  const unread = [
    null,
    'wanted',
    { kind: 'wanted' },
    { kind: 'burn', request: 'r' },
    { kind: 'done', request: 7 },
  ];
  for (const data of unread) stranger.postMessage(data);
  stranger.postMessage({ kind: 'done', request: 'r', more: 1 });
  await vi.waitFor(() => expect(tab.received).toEqual([{ kind: 'done', request: 'r' }]), 20_000);
  stranger.close();
});

test('without a channel, or with a refused one, there is no connection', () => {
  vi.stubGlobal('BroadcastChannel', undefined);
  expect(broadcastTabs().open('ana', 'd', () => undefined)).toBeNull();
  vi.stubGlobal('BroadcastChannel', function refuse() {
    throw new DOMException('no', 'SecurityError');
  });
  expect(broadcastTabs().open('ana', 'd', () => undefined)).toBeNull();
});
