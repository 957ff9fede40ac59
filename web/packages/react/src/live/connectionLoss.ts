import { closeCodes } from '../protocol/messages.generated';
import type { Effect, Link, LiveState, Room, Step } from './state';

/** "Not signed in" may mean a token that has just run out. The second time in a row it is meant. */
const REFUSALS_TO_BELIEVE = 2;

export const NOT_JOINED: Room = { lock: null, role: null };

/** The socket is gone, or could not be had: another follows after a pause. */
export function lose(state: LiveState, code: number | null): Step {
  const refusals = code === closeCodes.NOT_SIGNED_IN ? state.refusals + 1 : state.refusals;
  if (refusals >= REFUSALS_TO_BELIEVE) return goDown({ ...state, refusals }, { phase: 'refused' }, []);
  const failures = state.failures + 1;
  return goDown({ ...state, refusals, failures }, { phase: 'pausing' }, [
    { kind: 'set', timer: 'redial', failures },
  ]);
}

/** The same for a socket that is still there but of no use. */
export function giveUp(state: LiveState): Step {
  const step = lose(state, null);
  return { state: step.state, effects: [{ kind: 'hang-up' }, ...step.effects] };
}

/** Without a socket nothing is known: what comes after the next join counts, whatever its version. */
export function goDown(state: LiveState, link: Link, more: readonly Effect[]): Step {
  const documentIds = Object.keys(state.rooms);
  return {
    state: { ...state, link, rooms: Object.fromEntries(documentIds.map((id) => [id, NOT_JOINED])) },
    effects: [
      { kind: 'clear', timer: 'quiet' },
      { kind: 'clear', timer: 'answer' },
      { kind: 'clear', timer: 'redial' },
      ...more,
      ...documentIds.map((documentId): Effect => ({ kind: 'tell', documentId, event: { kind: 'down' } })),
    ],
  };
}
