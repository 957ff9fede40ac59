import type { ClientMessage, Credentials } from '../protocol/messages.generated';
import { pageTab } from '../protocol/tab';
import { Line, type OpenSocket } from './connection';
import type { Live, LiveEvent, LivePhase } from './live';
import { type Effect, type Input, initialState, type LiveState } from './state';
import { Timers } from './timers';
import { next } from './transition';

export interface LiveOptions {
  /** The socket's address; a path means where the page came from. */
  readonly url: string;
  /** Asked before every attempt: `{token}` or `{ticket}`; null if nobody is signed in. */
  readonly credentials: () => Promise<Credentials | null>;
  readonly tab?: string;
  /** Called with what arrived and cannot be read. It is dropped. */
  readonly onInvalid?: (received: unknown) => void;
  readonly openSocket?: OpenSocket;
  readonly random?: () => number;
}

/** One socket for all documents of a page: it is opened when the first is watched, and again whenever it is lost. */
export function connectLive(options: LiveOptions): Live {
  const listeners = new Map<string, Set<(event: LiveEvent) => void>>();
  const subscribers = new Set<() => void>();
  let state = initialState;

  const timers = new Timers((timer) => take({ kind: 'rang', timer }), options.random ?? Math.random);
  const line = new Line({ ...options, tab: options.tab ?? pageTab }, (input) => take(input));

  function take(input: Input): void {
    const before = state;
    const step = next(state, input);
    state = step.state;
    for (const effect of step.effects) perform(effect);
    if (phaseOf(before) !== phaseOf(state)) for (const changed of [...subscribers]) changed();
  }

  function perform(effect: Effect): void {
    switch (effect.kind) {
      case 'dial':
        line.dial();
        break;
      case 'hang-up':
        line.hangUp();
        break;
      case 'send':
        line.send(effect.message);
        break;
      case 'tell':
        for (const hear of [...(listeners.get(effect.documentId) ?? [])]) hear(effect.event);
        break;
      case 'set':
        timers.set(effect.timer, effect.failures);
        break;
      case 'clear':
        timers.clear(effect.timer);
        break;
    }
  }

  return {
    watch(documentId, hear) {
      const hearing = listeners.get(documentId) ?? new Set();
      listeners.set(documentId, hearing.add(hear));
      for (const event of known(state, documentId)) hear(event);
      take({ kind: 'watched', documentId });
      return () => {
        hearing.delete(hear);
        if (hearing.size > 0 || listeners.get(documentId) !== hearing) return;
        listeners.delete(documentId);
        take({ kind: 'unwatched', documentId });
      };
    },
    heartbeat(documentId, idleForSeconds) {
      if (state.link.phase !== 'online') return false;
      line.send(beat(documentId, idleForSeconds));
      return true;
    },
    get phase() {
      return phaseOf(state);
    },
    subscribe(changed) {
      subscribers.add(changed);
      return () => subscribers.delete(changed);
    },
    reconnect: () => take({ kind: 'reconnect' }),
    close: () => take({ kind: 'close' }),
  };
}

function beat(documentId: string, idleFor: number): ClientMessage {
  return {
    type: 'heartbeat',
    data: { document_id: documentId, idle_for: Math.min(Math.max(idleFor, 0), 86_400) },
  };
}

/** What somebody who begins to watch has missed. */
function known({ link, rooms }: LiveState, documentId: string): LiveEvent[] {
  const room = rooms[documentId];
  if (link.phase !== 'online') return [];
  const up: LiveEvent = { kind: 'up', welcome: link.welcome };
  return room?.lock && room.role ? [up, { kind: 'joined', role: room.role, lock: room.lock }] : [up];
}

function phaseOf({ link, failures }: LiveState): LivePhase {
  switch (link.phase) {
    case 'dialling':
      return failures > 0 ? 'offline' : 'connecting';
    case 'pausing':
      return 'offline';
    case 'closed':
      return 'idle';
    default:
      return link.phase;
  }
}
