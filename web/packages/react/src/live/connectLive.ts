import type { ClientMessage, Credentials } from '../protocol/messages.generated';
import { pageTab } from '../protocol/tab';
import { Connection, type OpenSocket } from './connection';
import type { Live, LiveEvent, LivePhase } from './live';
import { type Effect, type Input, initialState, type LiveState } from './state';
import { Timers } from './timers';
import { next } from './transition';

export interface LiveOptions {
  /** The socket's address; a path is relative to the page's origin. */
  readonly url: string;
  /** Called before every attempt: `{token}` or `{ticket}`; null without a login. */
  readonly credentials: () => Promise<Credentials | null>;
  readonly tab?: string;
  /** Called with each message that cannot be read. It is dropped. */
  readonly onInvalid?: (received: unknown) => void;
  readonly openSocket?: OpenSocket;
  readonly random?: () => number;
}

/** One socket for all documents of a page. It opens with the first watcher, and again after each loss. */
export function connectLive(options: LiveOptions): Live {
  const listeners = new Map<string, Set<(event: LiveEvent) => void>>();
  const subscribers = new Set<() => void>();
  let state = initialState;

  const timers = new Timers((timer) => take({ kind: 'timer', timer }), options.random ?? Math.random);
  const connection = new Connection({ ...options, tab: options.tab ?? pageTab }, (input) => take(input));

  function take(input: Input): void {
    const before = state;
    state = next(state, input);
    for (const effect of state.effects) perform(effect);
    if (phaseOf(before) !== phaseOf(state)) for (const changed of [...subscribers]) changed();
  }

  function perform(effect: Effect): void {
    switch (effect.kind) {
      case 'connect':
        connection.open();
        break;
      case 'disconnect':
        connection.close();
        break;
      case 'send':
        connection.send(effect.message);
        break;
      case 'notify':
        for (const listener of [...(listeners.get(effect.documentId) ?? [])]) listener(effect.event);
        break;
      case 'start-timer':
        timers.start(effect.timer, effect.failures);
        break;
      case 'stop-timer':
        timers.stop(effect.timer);
        break;
    }
  }

  return {
    watch(documentId, hear) {
      const watchers = listeners.get(documentId) ?? new Set();
      listeners.set(documentId, watchers.add(hear));
      for (const event of known(state, documentId)) hear(event);
      take({ kind: 'watched', documentId });
      return () => {
        watchers.delete(hear);
        if (watchers.size > 0 || listeners.get(documentId) !== watchers) return;
        listeners.delete(documentId);
        take({ kind: 'unwatched', documentId });
      };
    },
    heartbeat(documentId, idleForSeconds) {
      if (state.connection.phase !== 'online') return false;
      connection.send(heartbeat(documentId, idleForSeconds));
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

function heartbeat(documentId: string, idleFor: number): ClientMessage {
  return {
    type: 'heartbeat',
    data: { document_id: documentId, idle_for: Math.min(Math.max(idleFor, 0), 86_400) },
  };
}

/** The events that a new watcher has missed. */
function known({ connection, rooms }: LiveState, documentId: string): LiveEvent[] {
  const room = rooms.get(documentId);
  if (connection.phase !== 'online') return [];
  const up: LiveEvent = { kind: 'up', welcome: connection.welcome };
  return room?.kind === 'joined' ? [up, { kind: 'joined', role: room.role, lock: room.lock }] : [up];
}

function phaseOf({ connection, failures }: LiveState): LivePhase {
  switch (connection.phase) {
    case 'connecting':
      return failures > 0 ? 'offline' : 'connecting';
    case 'pausing':
      return 'offline';
    case 'closed':
      return 'idle';
    default:
      return connection.phase;
  }
}
