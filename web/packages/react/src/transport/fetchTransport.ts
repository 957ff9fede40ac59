import { pageTab } from '../protocol/tab';
import {
  DEFAULT_TIMEOUT_MS,
  type Transport,
  type TransportReply,
  type TransportRequest,
  Unreachable,
} from './transport';

type Token = string | null;

export interface FetchTransportOptions {
  /** The service's address, if it is not the page's origin. */
  readonly baseUrl?: string;
  /** The access token, or a function for it. A synchronous one also works for a page that goes away. */
  readonly token?: Token | (() => Token | Promise<Token>);
  /** Called after a 401 to renew the token; true to repeat the request. */
  readonly onUnauthorized?: () => Promise<boolean>;
  readonly tab?: string;
  readonly fetch?: typeof globalThis.fetch;
}

/** Requests by `fetch`. */
export function fetchTransport(options: FetchTransportOptions = {}): Transport {
  const { baseUrl = '', token = null, tab = pageTab, onUnauthorized } = options;
  const fetching =
    options.fetch ?? ((...call: Parameters<typeof globalThis.fetch>) => globalThis.fetch(...call));

  async function ask(request: TransportRequest, bearer: Token): Promise<TransportReply> {
    const headers: Record<string, string> = { Accept: 'application/json', 'Leasehold-Tab': tab };
    if (bearer) headers.Authorization = `Bearer ${bearer}`;
    if (request.body !== undefined) headers['Content-Type'] = 'application/json';
    const patience = new AbortController();
    const timer = setTimeout(() => patience.abort(), request.timeoutMs ?? DEFAULT_TIMEOUT_MS);
    try {
      const response = await fetching(`${baseUrl}${request.path}`, {
        method: request.method,
        headers,
        signal: patience.signal,
        ...(request.body !== undefined && { body: JSON.stringify(request.body) }),
        ...(request.keepAlive && { keepalive: true }),
      });
      return { status: response.status, body: parse(await response.text()) };
    } catch (cause) {
      throw new Unreachable(`${request.method} ${request.path}: no answer`, { cause });
    } finally {
      clearTimeout(timer);
    }
  }

  async function refreshed(request: TransportRequest, reply: TransportReply): Promise<TransportReply> {
    if (reply.status !== 401 || !onUnauthorized || request.keepAlive || !(await onUnauthorized()))
      return reply;
    return ask(request, await read(token));
  }

  return {
    async send(request) {
      const bearer = read(token);
      // Synchronous if possible: a page that goes away may get no further turn of the event loop.
      const reply = bearer instanceof Promise ? await ask(request, await bearer) : await ask(request, bearer);
      return refreshed(request, reply);
    },
  };
}

function read(token: Exclude<FetchTransportOptions['token'], undefined>): Token | Promise<Token> {
  return typeof token === 'function' ? token() : token;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
