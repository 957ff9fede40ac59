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
 * Sends requests to the service.
 *
 * `send` resolves with the service's answer, also with 4xx and 5xx. It rejects with `Unreachable` if no answer arrives in
 * time, and then the outcome is unknown: the service may have executed the request.
 */
export interface Transport {
  send(request: TransportRequest): Promise<TransportReply>;
}

/** No answer. The request may have been executed. */
export class Unreachable extends Error {
  override readonly name = 'Unreachable';
}

/** Long enough for a slow network, and well below the lock's time to live. */
export const DEFAULT_TIMEOUT_MS = 8_000;
