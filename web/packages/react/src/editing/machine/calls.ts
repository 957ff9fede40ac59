import type { Effect } from './effects';
import { type Call, emit, REACHED, type State } from './state';

/** Sends a request. Its answer is the input with the same serial number. */
export function send(state: State, call: Call, effect: (serial: number) => Effect): State {
  const serial = state.serial + 1;
  return emit({ ...state, serial, calls: { ...state.calls, [call]: serial } }, effect(serial));
}

/** The state after the end of a request; null if its answer is late. */
export function settle(state: State, call: Call, serial: number): State | null {
  return state.calls[call] === serial ? { ...state, calls: { ...state.calls, [call]: null } } : null;
}

/** The service has answered. */
export function reached(state: State): State {
  return state.service.kind === 'reached' ? state : { ...state, service: REACHED };
}

/** No answer: the next attempt follows after a pause, with a look if nothing else is due. */
export function unreached(state: State): State {
  const { now, times, service } = state;
  const failures = service.kind === 'unreached' ? service.failures + 1 : 1;
  const retryAt = now + 1000 * Math.min(times.retry * 2 ** (failures - 1), times.retryAtMost);
  return {
    ...state,
    service: { kind: 'unreached', failures, retryAt },
    lookAt: Math.min(state.lookAt, retryAt),
  };
}

/** The next attempt is due at once, with a look. */
export function retry(state: State): State {
  const { now, service } = state;
  return {
    ...state,
    service: service.kind === 'unreached' ? { ...service, retryAt: now } : service,
    lookAt: now,
  };
}
