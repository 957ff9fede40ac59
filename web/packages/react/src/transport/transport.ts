export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

export interface TransportRequest {
  readonly method: Method;
  /** From the service's root, e.g. `/api/documents/7/lock`. */
  readonly path: string;
  readonly body?: unknown;
  /** The page is going away: the request should outlive it. Browsers allow that up to 64 KiB. */
  readonly keepAlive?: boolean;
  readonly timeoutMs?: number;
}

export interface TransportReply {
  readonly status: number;
  /** Parsed JSON; null if there was none. */
  readonly body: unknown;
}

/**
 * How requests reach the service.
 *
 * `send` resolves with whatever the service answered, also with 4xx and 5xx. It rejects with `Unreachable` if no answer
 * came in time, and then the outcome is unknown: the service may have done what it was asked.
 */
export interface Transport {
  send(request: TransportRequest): Promise<TransportReply>;
}

/** No answer. What was asked may have been done, or not. */
export class Unreachable extends Error {
  override readonly name = 'Unreachable';
}

/** Long enough for a slow line, and well below the lock's time to live. */
export const DEFAULT_TIMEOUT_MS = 8_000;
