import { giveUp, goDown, lose, WAITING } from './connectionLoss';
import { receive } from './serverMessages';
import { emit, type Input, type LiveState, type Timer } from './state';

/** The state after `input`, with the effects that it requires. No clock, no randomness, no network. */
export function next(before: LiveState, input: Input): LiveState {
  const state = { ...before, effects: [] };
  if (state.connection.phase === 'closed') return state;
  switch (input.kind) {
    case 'watched':
      return watch(state, input.documentId);
    case 'unwatched':
      return unwatch(state, input.documentId);
    case 'opened':
      return emit(state, { kind: 'send', message: { type: 'authenticate', data: input.credentials } });
    case 'received':
      return restartSilence(receive(state, input.message));
    case 'ended':
      return lose(state, input.code);
    case 'signed-out':
      return goDown(state, { phase: 'refused' });
    case 'timer':
      return timeUp(state, input.timer);
    case 'reconnect':
      return reconnect(state);
    case 'close':
      return goDown(state, { phase: 'closed' }, { kind: 'disconnect' });
  }
}

function watch(state: LiveState, documentId: string): LiveState {
  if (state.rooms.has(documentId)) return state;
  const watching = { ...state, rooms: new Map(state.rooms).set(documentId, WAITING) };
  switch (state.connection.phase) {
    case 'idle':
      return connect(watching);
    case 'online':
      return emit(watching, {
        kind: 'send',
        message: { type: 'join', data: { document_id: documentId } },
      });
    default:
      return watching;
  }
}

function unwatch(state: LiveState, documentId: string): LiveState {
  const rooms = new Map(state.rooms);
  const wasWatched = rooms.delete(documentId);
  const left = { ...state, rooms };
  if (!wasWatched || state.connection.phase !== 'online') return left;
  return emit(left, { kind: 'send', message: { type: 'leave', data: { document_id: documentId } } });
}

/** Any message shows that the connection works. Timers go first: a watcher that is notified may close the connection. */
function restartSilence(state: LiveState): LiveState {
  if (state.connection.phase !== 'online') return state;
  return {
    ...state,
    effects: [
      { kind: 'stop-timer', timer: 'response' },
      { kind: 'start-timer', timer: 'silence', failures: 0 },
      ...state.effects,
    ],
  };
}

function timeUp(state: LiveState, timer: Timer): LiveState {
  switch (timer) {
    case 'reconnect':
      return state.connection.phase === 'pausing' ? connect(state) : state;
    case 'silence':
      return state.connection.phase === 'online' ? ping(state) : state;
    case 'response':
      // A broken connection may report nothing: it looks like a silent one.
      return giveUp(state);
  }
}

function reconnect(state: LiveState): LiveState {
  switch (state.connection.phase) {
    case 'pausing':
    case 'refused':
      return connect({ ...state, refusals: 0 });
    case 'online':
      return ping(state); // it may be broken without a report
    default:
      return state;
  }
}

function ping(state: LiveState): LiveState {
  return emit(
    state,
    { kind: 'send', message: { type: 'ping', data: {} } },
    { kind: 'start-timer', timer: 'response', failures: 0 },
  );
}

function connect(state: LiveState): LiveState {
  return emit(
    { ...state, connection: { phase: 'connecting' } },
    { kind: 'stop-timer', timer: 'reconnect' },
    { kind: 'start-timer', timer: 'response', failures: 0 },
    { kind: 'connect' },
  );
}
