import type { Fault, Joined, Lock, ServerMessage, Welcome } from '../protocol/messages.generated';
import { isNewer } from '../protocol/versions';
import { giveUp, NOT_JOINED } from './connectionLoss';
import type { LiveEvent } from './live';
import type { Effect, LiveState, Step } from './state';

/** Codes that say "not now", so that another socket may fare better. */
const PASSING = new Set(['store_unavailable', 'store_refused', 'leasehold_error']);

/** What follows from a message of the server. */
export function hear(state: LiveState, message: ServerMessage): Step {
  switch (message.type) {
    case 'authenticated':
      return letIn(state, message.data);
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
      return {
        state,
        effects: message.data.document_ids.flatMap((id) =>
          telling(state, id, { kind: 'heartbeat-requested' }),
        ),
      };
    case 'heartbeat': {
      const { document_id: id, extended, lock_holder: holder } = message.data;
      return { state, effects: telling(state, id, { kind: 'heartbeat', extended, holder }) };
    }
    case 'room_closed':
      return shutOut(state, message.data.document_id, message.data.code);
    case 'error':
      return failed(state, message.data);
    case 'left':
    case 'pong':
      return { state, effects: [] };
  }
}

function letIn(state: LiveState, welcome: Welcome): Step {
  const ids = Object.keys(state.rooms);
  return {
    state: { ...state, link: { phase: 'online', welcome }, failures: 0, refusals: 0 },
    effects: ids.flatMap((id) => [
      { kind: 'tell', documentId: id, event: { kind: 'up', welcome } },
      { kind: 'send', message: { type: 'join', data: { document_id: id } } },
    ]),
  };
}

function joined(state: LiveState, { document_id: id, role, lock }: Joined['data']): Step {
  if (!state.rooms[id]) return { state, effects: [] };
  return {
    state: { ...state, rooms: { ...state.rooms, [id]: { lock, role } } },
    effects: telling(state, id, { kind: 'joined', role, lock }),
  };
}

function changed(state: LiveState, lock: Lock, event: LiveEvent): Step {
  const id = lock.document_id;
  const room = state.rooms[id];
  // Before the snapshot nothing can be ordered: it will have what this says, or something newer.
  if (!room?.lock || !isNewer(lock.version, room.lock.version)) return { state, effects: [] };
  return {
    state: { ...state, rooms: { ...state.rooms, [id]: { ...room, lock } } },
    effects: telling(state, id, event),
  };
}

function shutOut(state: LiveState, id: string, code: string): Step {
  if (!state.rooms[id]) return { state, effects: [] };
  return {
    state: { ...state, rooms: { ...state.rooms, [id]: NOT_JOINED } },
    effects: telling(state, id, { kind: 'refused', code }),
  };
}

function failed(state: LiveState, { code, document_id: id }: Fault): Step {
  const room = id === null ? undefined : state.rooms[id];
  if (id === null || !room || room.lock) return { state, effects: [] };
  // What could not be joined is joined with the next socket.
  if (PASSING.has(code)) return giveUp(state);
  return shutOut(state, id, code);
}

function telling(state: LiveState, documentId: string, event: LiveEvent): Effect[] {
  return state.rooms[documentId] ? [{ kind: 'tell', documentId, event }] : [];
}
