import type { Draft } from '../../drafts/draft';
import type { TabMessage } from '../../tabs/tabs';
import type { SaveRequest } from '../terms/service';

/** The effects that the machine requires. Each request is answered by the input with the same serial number. */
export type Effect =
  | { readonly kind: 'acquire'; readonly serial: number; readonly how: 'acquire' | 'move' | 'take' }
  | { readonly kind: 'beat'; readonly serial: number; readonly idleFor: number }
  | { readonly kind: 'look'; readonly serial: number }
  | { readonly kind: 'load'; readonly serial: number }
  | {
      readonly kind: 'release';
      readonly serial: number;
      readonly reason: 'released' | 'idle';
      readonly keepAlive: boolean;
    }
  | {
      readonly kind: 'save';
      readonly serial: number;
      readonly request: SaveRequest;
      readonly keepAlive: boolean;
    }
  /** Answer the service's request for a heartbeat over the socket. */
  | { readonly kind: 'answer-beat'; readonly idleFor: number }
  /** Call the host before a release; answered by `host-ready`, perhaps much later. */
  | { readonly kind: 'prepare'; readonly serial: number }
  | { readonly kind: 'tell-tabs'; readonly message: TabMessage }
  /** Answered by `alarm`, unless it is set again before. */
  | { readonly kind: 'set-alarm'; readonly until: number; readonly afterMs: number }
  /** Search this browser for drafts; answered by `drafts-found`. */
  | { readonly kind: 'list-drafts' }
  | { readonly kind: 'keep-draft'; readonly draft: Draft }
  | { readonly kind: 'drop-draft'; readonly id: string };
