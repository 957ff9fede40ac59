import { isObject } from '../protocol/shapes';
import { pageTab } from '../protocol/tab';
import {
  DEFAULT_TIMEOUT_MS,
  type Transport,
  type TransportReply,
  type TransportRequest,
  Unreachable,
} from './transport';

export interface BridgeOptions {
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * The interface that the preload script exposes as `window.electronAPI`.
 *
 * It resolves with `{status, data}` (or `{status, body}`), or with the bare body of a successful answer. It may reject with
 * an error that has `response: {status, data}`; any other rejection counts as no answer.
 */
export interface ElectronBridge {
  get(path: string, options?: BridgeOptions): Promise<unknown>;
  post(path: string, body?: unknown, options?: BridgeOptions): Promise<unknown>;
  put(path: string, body?: unknown, options?: BridgeOptions): Promise<unknown>;
  delete(path: string, options?: BridgeOptions): Promise<unknown>;
}

export interface ElectronTransportOptions {
  readonly tab?: string;
  /** Sent with every request, e.g. `Authorization`, where the bridge does not add it by itself. */
  readonly headers?: () => Readonly<Record<string, string>>;
}

/** Requests through Electron's bridge. They outlive the page, because the main process sends them. */
export function electronTransport(bridge: ElectronBridge, options: ElectronTransportOptions = {}): Transport {
  const { tab = pageTab, headers = () => ({}) } = options;
  return {
    async send(request) {
      try {
        return replyOf(
          await inTime(call(bridge, request, { headers: { ...headers(), 'Leasehold-Tab': tab } }), request),
        );
      } catch (cause) {
        const answered = isObject(cause) ? cause.response : undefined;
        if (isObject(answered) && typeof answered.status === 'number') return replyOf(answered);
        throw new Unreachable(`${request.method} ${request.path}: no answer`, { cause });
      }
    },
  };
}

function call(
  bridge: ElectronBridge,
  { method, path, body }: TransportRequest,
  options: BridgeOptions,
): Promise<unknown> {
  switch (method) {
    case 'GET':
      return bridge.get(path, options);
    case 'POST':
      return bridge.post(path, body, options);
    case 'PUT':
      return bridge.put(path, body, options);
    case 'DELETE':
      return bridge.delete(path, options);
  }
}

function inTime<Result>(
  answer: Promise<Result>,
  { timeoutMs = DEFAULT_TIMEOUT_MS }: TransportRequest,
): Promise<Result> {
  let timer: ReturnType<typeof setTimeout>;
  const overdue = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('timed out')), timeoutMs);
  });
  return Promise.race([answer, overdue]).finally(() => clearTimeout(timer));
}

function replyOf(answer: unknown): TransportReply {
  if (!isObject(answer) || typeof answer.status !== 'number') return { status: 200, body: answer ?? null };
  if ('data' in answer) return { status: answer.status, body: answer.data };
  if ('body' in answer) return { status: answer.status, body: answer.body };
  // A problem has a status of its own: it is the body.
  return { status: answer.status, body: answer };
}
