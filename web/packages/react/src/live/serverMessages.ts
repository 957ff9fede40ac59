import type { Fault, Joined, Lock, ServerMessage, Welcome } from '../protocol/messages.generated';
import { isNewer } from '../protocol/versions';
import { giveUp, WAITING } from './connectionLoss';
import type { LiveEvent } from './live';
import { type Effect, emit, type LiveState, type Room } from './state';

/** Temporary faults: another socket may succeed. */
const TEMPORARY = new Set(['store_unavailable', 'store_refused', 'leasehold_error']);

/** The state after a message of the server. */
export function receive(state: LiveState, message: ServerMessage): LiveState {
  switch (message.type) {
    case 'authenticated':
      return authenticated(state, message.data);
    case 'joined':
      return joined(state, message.data);
    case 'document_locked':
    case 'document_unlocked':
    case 'document_lock_expired':
    case 'document_force_save_requested':
    case 'document_force_taken': {
      const { lock, triggered_by: by } = message.data;
      return changed(state, lock, { kind: 'changed', type: message.type, lock, by });
    }
    case 'heartbeat_requested':
      return message.data.document_ids.reduce(
        (asked, id) => notify(asked, id, { kind: 'heartbeat-requested' }),
        state,
      );
    case 'heartbeat': {
      const { document_id: id, extended, lock_holder: holder } = message.data;
      return notify(state, id, { kind: 'heartbeat', extended, holder });
    }
    case 'room_closed':
      return refuse(state, message.data.document_id, message.data.code);
    case 'error':
      return failed(state, message.data);
    case 'left':
    case 'pong':
      return state;
  }
}

function authenticated(state: LiveState, welcome: Welcome): LiveState {
  return emit(
    { ...state, connection: { phase: 'online', welcome }, failures: 0, refusals: 0 },
    ...[...state.rooms.keys()].flatMap((id): Effect[] => [
      { kind: 'notify', documentId: id, event: { kind: 'up', welcome } },
      { kind: 'send', message: { type: 'join', data: { document_id: id } } },
    ]),
  );
}

function joined(state: LiveState, { document_id: id, role, lock }: Joined['data']): LiveState {
  return notify(withRoom(state, id, { kind: 'joined', lock, role }), id, { kind: 'joined', role, lock });
}

function changed(state: LiveState, lock: Lock, event: LiveEvent): LiveState {
  const id = lock.document_id;
  const room = state.rooms.get(id);
  // Events before the snapshot cannot be ordered; the snapshot includes their effect.
  if (room?.kind !== 'joined' || !isNewer(lock.version, room.lock.version)) return state;
  return notify(withRoom(state, id, { ...room, lock }), id, event);
}

function refuse(state: LiveState, id: string, code: string): LiveState {
  return notify(withRoom(state, id, WAITING), id, { kind: 'refused', code });
}

function failed(state: LiveState, { code, document_id: id }: Fault): LiveState {
  if (id === null || state.rooms.get(id)?.kind !== 'waiting') return state;
  // The next socket joins the document again.
  return TEMPORARY.has(code) ? giveUp(state) : refuse(state, id, code);
}

function withRoom(state: LiveState, id: string, room: Room): LiveState {
  return state.rooms.has(id) ? { ...state, rooms: new Map(state.rooms).set(id, room) } : state;
}

function notify(state: LiveState, documentId: string, event: LiveEvent): LiveState {
  return state.rooms.has(documentId) ? emit(state, { kind: 'notify', documentId, event }) : state;
}
