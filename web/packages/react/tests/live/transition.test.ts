import { expect, test } from 'vitest';
import type { LiveEvent } from '../../src';
import { type Effect, type Input, initialState, type LiveState } from '../../src/live/state';
import { next } from '../../src/live/transition';
import type { ServerMessage } from '../../src/protocol/messages.generated';
import { changed, joined, lockState, welcome } from '../support/lockStates';

/** The state after all inputs, and the effects of the last. */
function run(...inputs: readonly Input[]): LiveState {
  return inputs.reduce(next, initialState);
}

const watched: Input = { kind: 'watched', documentId: 'd' };
const opened: Input = { kind: 'opened', credentials: { token: 't', tab: 'x' } };
const letIn = received({ type: 'authenticated', data: welcome });
const online = [watched, opened, letIn] as const;

function received(message: ServerMessage): Input {
  return { kind: 'received', message };
}

function notified(effects: readonly Effect[]): LiveEvent[] {
  return effects.flatMap((effect) => (effect.kind === 'notify' ? [effect.event] : []));
}

function sent(effects: readonly Effect[]) {
  return effects.flatMap((effect) => (effect.kind === 'send' ? [effect.message.type] : []));
}

test('the socket is opened with the first watcher, and authenticates first', () => {
  expect(run(watched).effects).toContainEqual({ kind: 'connect' });
  expect(run(watched, { kind: 'watched', documentId: 'e' }).effects).toEqual([]);
  expect(run(watched, opened).effects).toEqual([
    { kind: 'send', message: { type: 'authenticate', data: { token: 't', tab: 'x' } } },
  ]);
});

test('after authentication every watched document is joined', () => {
  const { effects } = run(watched, { kind: 'watched', documentId: 'e' }, opened, letIn);
  expect(sent(effects)).toEqual(['join', 'join']);
});

test.each(['constructor', '__proto__', 'toString'])('a document may have the id %s', (documentId) => {
  const state = run({ kind: 'watched', documentId }, opened, letIn);
  expect(state.effects).toContainEqual({
    kind: 'send',
    message: { type: 'join', data: { document_id: documentId } },
  });
  const lock = { ...lockState('10'), document_id: documentId };
  const snapshot = received({ type: 'joined', data: { document_id: documentId, role: 'viewer', lock } });
  expect(notified(next(state, snapshot).effects)).toHaveLength(1);
  expect(notified(run(...online, snapshot).effects)).toEqual([]);
});

test('events before the snapshot, and those that are not newer than the known state, are dropped', () => {
  expect(notified(run(...online, received(changed(lockState('9')))).effects)).toEqual([]);
  const known = [...online, received(joined(lockState('10', 1)))] as const;
  expect(notified(run(...known, received(changed(lockState('10', 1)))).effects)).toEqual([]);
  expect(notified(run(...known, received(changed(lockState('9', 5)))).effects)).toEqual([]);
  expect(notified(run(...known, received(changed(lockState('10', 2)))).effects)).toHaveLength(1);
});

test('fences are compared as numbers beyond JavaScript’s integers', () => {
  const known = [...online, received(joined(lockState('9007199254740993')))] as const;
  expect(notified(run(...known, received(changed(lockState('9007199254740992', 9)))).effects)).toEqual([]);
  expect(notified(run(...known, received(changed(lockState('9007199254740994')))).effects)).toHaveLength(1);
  expect(notified(run(...known, received(changed(lockState('10000000000000000')))).effects)).toHaveLength(1);
});

test('after a reconnect the snapshot is trusted, also if it is older', () => {
  const lost = [...online, received(joined(lockState('50'))), { kind: 'ended', code: 1006 }] as const;
  const again = [...lost, { kind: 'timer', timer: 'reconnect' }, opened, letIn] as const;
  expect(notified(run(...again, received(changed(lockState('60')))).effects)).toEqual([]);
  const older = lockState('7');
  expect(notified(run(...again, received(joined(older))).effects)).toEqual([
    { kind: 'joined', role: 'editor', lock: older },
  ]);
  expect(
    notified(run(...again, received(joined(older)), received(changed(lockState('8')))).effects),
  ).toHaveLength(1);
});

test('a lost socket is reported, and opened again after a pause that grows with the failures', () => {
  const first = run(...online, { kind: 'ended', code: 1006 });
  expect(notified(first.effects)).toEqual([{ kind: 'down' }]);
  expect(first.effects).toContainEqual({ kind: 'start-timer', timer: 'reconnect', failures: 1 });
  const second = run(
    ...online,
    { kind: 'ended', code: 1006 },
    { kind: 'timer', timer: 'reconnect' },
    { kind: 'ended', code: null },
  );
  expect(second.effects).toContainEqual({ kind: 'start-timer', timer: 'reconnect', failures: 2 });
});

test('the pause is reset after a successful authentication', () => {
  const { effects } = run(
    ...online,
    { kind: 'ended', code: 1006 },
    { kind: 'timer', timer: 'reconnect' },
    opened,
    letIn,
    { kind: 'ended', code: 1006 },
  );
  expect(effects).toContainEqual({ kind: 'start-timer', timer: 'reconnect', failures: 1 });
});

test('not signed in is believed the second time, and reconnecting tries again', () => {
  const ended: Input = { kind: 'ended', code: 4401 };
  const once = run(watched, opened, ended);
  expect(once.connection.phase).toBe('pausing');
  const twice = [watched, opened, ended, { kind: 'timer', timer: 'reconnect' }, opened, ended] as const;
  expect(run(...twice).connection.phase).toBe('refused');
  expect(run(...twice, { kind: 'reconnect' }).effects).toContainEqual({ kind: 'connect' });
});

test('a silent connection gets a ping, and is closed without an answer', () => {
  const asked = run(...online, { kind: 'timer', timer: 'silence' });
  expect(sent(asked.effects)).toEqual(['ping']);
  const given = run(...online, { kind: 'timer', timer: 'silence' }, { kind: 'timer', timer: 'response' });
  expect(given.effects).toContainEqual({ kind: 'disconnect' });
  expect(given).toMatchObject({ connection: { phase: 'pausing' }, failures: 1 });
  const answered = run(...online, { kind: 'timer', timer: 'silence' }, received({ type: 'pong', data: {} }));
  expect(answered.effects).toContainEqual({ kind: 'stop-timer', timer: 'response' });
});

test('a refused document is reported, and a temporary fault is retried with another socket', () => {
  const refused = received({ type: 'error', data: { code: 'not_allowed', message: '', document_id: 'd' } });
  expect(notified(run(...online, refused).effects)).toEqual([{ kind: 'refused', code: 'not_allowed' }]);
  const passing = received({
    type: 'error',
    data: { code: 'store_unavailable', message: '', document_id: 'd' },
  });
  expect(run(...online, passing).effects).toContainEqual({ kind: 'disconnect' });
});

test('a closed room is reported, without further events until it is joined again', () => {
  const closed = [
    ...online,
    received(joined(lockState('5'))),
    received({ type: 'room_closed', data: { document_id: 'd', code: 'not_allowed' } }),
  ] as const;
  expect(notified(run(...closed).effects)).toEqual([{ kind: 'refused', code: 'not_allowed' }]);
  expect(notified(run(...closed, received(changed(lockState('6')))).effects)).toEqual([]);
});

test('a document without watchers is left, without further events', () => {
  const left = [...online, received(joined(lockState('5'))), { kind: 'unwatched', documentId: 'd' }] as const;
  expect(sent(run(...left).effects)).toEqual(['leave']);
  expect(notified(run(...left, received(changed(lockState('6')))).effects)).toEqual([]);
  expect(notified(run(...left, received(joined(lockState('6')))).effects)).toEqual([]);
});

test('after close() no input has an effect', () => {
  const state = run(...online, { kind: 'close' });
  for (const input of [
    watched,
    letIn,
    { kind: 'reconnect' },
    { kind: 'timer', timer: 'reconnect' },
  ] as const) {
    expect(next(state, input)).toEqual({ ...state, effects: [] });
  }
});
