import { giveUp, goDown, lose, NOT_JOINED } from './connectionLoss';
import { hear } from './serverMessages';
import type { Input, LiveState, Step, Timer } from './state';

/** The socket's life: what follows from `input`. No clock, no randomness, no network. */
export function next(state: LiveState, input: Input): Step {
  if (state.link.phase === 'closed') return { state, effects: [] };
  switch (input.kind) {
    case 'watched':
      return watched(state, input.documentId);
    case 'unwatched':
      return unwatched(state, input.documentId);
    case 'opened':
      return {
        state,
        effects: [{ kind: 'send', message: { type: 'authenticate', data: input.credentials } }],
      };
    case 'received':
      return alive(hear(state, input.message));
    case 'ended':
      return lose(state, input.code);
    case 'nobody':
      return goDown(state, { phase: 'refused' }, []);
    case 'rang':
      return rang(state, input.timer);
    case 'reconnect':
      return reconnect(state);
    case 'close':
      return goDown(state, { phase: 'closed' }, [{ kind: 'hang-up' }]);
  }
}

function watched(state: LiveState, documentId: string): Step {
  if (state.rooms[documentId]) return { state, effects: [] };
  const watching = { ...state, rooms: { ...state.rooms, [documentId]: NOT_JOINED } };
  switch (state.link.phase) {
    case 'idle':
      return dial(watching);
    case 'online':
      return {
        state: watching,
        effects: [{ kind: 'send', message: { type: 'join', data: { document_id: documentId } } }],
      };
    default:
      return { state: watching, effects: [] };
  }
}

function unwatched(state: LiveState, documentId: string): Step {
  const { [documentId]: room, ...rooms } = state.rooms;
  if (!room || state.link.phase !== 'online') return { state: { ...state, rooms }, effects: [] };
  return {
    state: { ...state, rooms },
    effects: [{ kind: 'send', message: { type: 'leave', data: { document_id: documentId } } }],
  };
}

/** Whatever was said: the other side is there. */
function alive(step: Step): Step {
  if (step.state.link.phase !== 'online') return step;
  return {
    state: step.state,
    effects: [
      { kind: 'clear', timer: 'answer' },
      { kind: 'set', timer: 'quiet', failures: 0 },
      ...step.effects,
    ],
  };
}

function rang(state: LiveState, timer: Timer): Step {
  switch (timer) {
    case 'redial':
      return state.link.phase === 'pausing' ? dial(state) : { state, effects: [] };
    case 'quiet':
      return state.link.phase === 'online' ? ping(state) : { state, effects: [] };
    case 'answer':
      // A line that was cut without a word looks like one on which nobody speaks.
      return giveUp(state);
  }
}

function reconnect(state: LiveState): Step {
  switch (state.link.phase) {
    case 'pausing':
    case 'refused':
      return dial({ ...state, refusals: 0 });
    case 'online':
      return ping(state); // it says that it is there; this finds out
    default:
      return { state, effects: [] };
  }
}

function ping(state: LiveState): Step {
  return {
    state,
    effects: [
      { kind: 'send', message: { type: 'ping', data: {} } },
      { kind: 'set', timer: 'answer', failures: 0 },
    ],
  };
}

function dial(state: LiveState): Step {
  return {
    state: { ...state, link: { phase: 'dialling' } },
    effects: [
      { kind: 'clear', timer: 'redial' },
      { kind: 'set', timer: 'answer', failures: 0 },
      { kind: 'dial' },
    ],
  };
}
