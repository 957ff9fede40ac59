import { closeCodes } from '../protocol/messages.generated';
import { type ConnectionState, type Effect, emit, type LiveState, type Room } from './state';

/** "Not signed in" may mean a token that has just expired. The second time in a row it is believed. */
const REFUSALS_TO_BELIEVE = 2;

export const WAITING: Room = { kind: 'waiting' };

/** The socket has closed or could not be opened: the next attempt follows after a pause. */
export function lose(state: LiveState, code: number | null): LiveState {
  const refusals = code === closeCodes.NOT_SIGNED_IN ? state.refusals + 1 : state.refusals;
  if (refusals >= REFUSALS_TO_BELIEVE) return goDown({ ...state, refusals }, { phase: 'refused' });
  const failures = state.failures + 1;
  const retry: Effect = { kind: 'start-timer', timer: 'reconnect', failures };
  return goDown({ ...state, refusals, failures }, { phase: 'pausing' }, retry);
}

/** Closes a socket that is open but of no use, and retries like `lose`. */
export function giveUp(state: LiveState): LiveState {
  return lose(emit(state, { kind: 'disconnect' }), null);
}

/** Without a socket no lock state is known: the snapshot of the next join counts, whatever its version. */
export function goDown(
  state: LiveState,
  connection: ConnectionState,
  ...effects: readonly Effect[]
): LiveState {
  const documentIds = [...state.rooms.keys()];
  return emit(
    { ...state, connection, rooms: new Map(documentIds.map((id) => [id, WAITING])) },
    { kind: 'stop-timer', timer: 'silence' },
    { kind: 'stop-timer', timer: 'response' },
    { kind: 'stop-timer', timer: 'reconnect' },
    ...effects,
    ...documentIds.map((documentId): Effect => ({ kind: 'notify', documentId, event: { kind: 'down' } })),
  );
}
