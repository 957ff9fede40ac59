import type { ClientMessage, Credentials } from '../protocol/messages.generated';
import { readMessage } from '../protocol/parser';
import type { Input } from './state';

/** As much of a WebSocket as is needed here. */
export interface SocketLike {
  onopen: (() => void) | null;
  onmessage: ((event: { readonly data: unknown }) => void) | null;
  onclose: ((event: { readonly code: number }) => void) | null;
  onerror: (() => void) | null;
  send(text: string): void;
  close(): void;
}

export type OpenSocket = (url: string) => SocketLike;

interface LineOptions {
  readonly url: string;
  readonly tab: string;
  readonly credentials: () => Promise<Credentials | null>;
  readonly openSocket?: OpenSocket;
  readonly onInvalid?: (received: unknown) => void;
}

/** At most one socket at a time. What an earlier one still says is not heard. */
export class Line {
  readonly #options: LineOptions;
  readonly #take: (input: Input) => void;
  #socket: SocketLike | null = null;
  #calls = 0;

  constructor(options: LineOptions, take: (input: Input) => void) {
    this.#options = options;
    this.#take = take;
  }

  dial(): void {
    this.#drop();
    this.#calls += 1;
    void this.#call(this.#calls);
  }

  hangUp(): void {
    this.#drop();
    this.#calls += 1;
  }

  send(message: ClientMessage): void {
    try {
      this.#socket?.send(JSON.stringify(message));
    } catch {
      // It is closing: its end is about to be told.
    }
  }

  async #call(call: number): Promise<void> {
    try {
      const credentials = await this.#options.credentials();
      if (call !== this.#calls) return;
      if (credentials) this.#open(credentials);
      else this.#take({ kind: 'nobody' });
    } catch {
      if (call === this.#calls) this.#take({ kind: 'ended', code: null });
    }
  }

  #open(credentials: Credentials): void {
    const { url, tab, openSocket = openWebSocket, onInvalid } = this.#options;
    const socket = openSocket(absolute(url));
    this.#socket = socket;
    socket.onopen = () => this.#take({ kind: 'opened', credentials: { ...credentials, tab } });
    socket.onmessage = ({ data }) => {
      const message = readMessage(data);
      if (message) this.#take({ kind: 'received', message });
      else onInvalid?.(data);
    };
    socket.onclose = ({ code }) => {
      this.#drop();
      this.#take({ kind: 'ended', code });
    };
    // An error is always followed by a close, which is what counts.
    socket.onerror = () => undefined;
  }

  #drop(): void {
    const socket = this.#socket;
    this.#socket = null;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = socket.onerror = null;
    try {
      socket.close();
    } catch {
      // It was never open.
    }
  }
}

function openWebSocket(url: string): SocketLike {
  return new WebSocket(url) as SocketLike;
}

/** Browsers of before 2023 take no relative addresses, and none with http. */
function absolute(url: string): string {
  const whole = new URL(url, globalThis.location?.href);
  whole.protocol = whole.protocol.replace('http', 'ws');
  return whole.href;
}
