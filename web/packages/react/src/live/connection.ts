import type { ClientMessage, Credentials } from '../protocol/messages.generated';
import { readMessage } from '../protocol/parser';
import type { Input } from './state';

/** The part of a WebSocket that is used here. */
export interface SocketLike {
  onopen: (() => void) | null;
  onmessage: ((event: { readonly data: unknown }) => void) | null;
  onclose: ((event: { readonly code: number }) => void) | null;
  onerror: (() => void) | null;
  send(text: string): void;
  close(): void;
}

export type OpenSocket = (url: string) => SocketLike;

interface ConnectionOptions {
  readonly url: string;
  readonly tab: string;
  readonly credentials: () => Promise<Credentials | null>;
  readonly openSocket?: OpenSocket;
  readonly onInvalid?: (received: unknown) => void;
}

/** At most one socket at a time. Events of an earlier one are ignored. */
export class Connection {
  readonly #options: ConnectionOptions;
  readonly #take: (input: Input) => void;
  #socket: SocketLike | null = null;
  #attempt = 0;

  constructor(options: ConnectionOptions, take: (input: Input) => void) {
    this.#options = options;
    this.#take = take;
  }

  open(): void {
    this.close();
    void this.#attemptToOpen(this.#attempt);
  }

  close(): void {
    this.#drop();
    this.#attempt += 1;
  }

  send(message: ClientMessage): void {
    try {
      this.#socket?.send(JSON.stringify(message));
    } catch {
      // It is closing: `onclose` follows.
    }
  }

  async #attemptToOpen(attempt: number): Promise<void> {
    try {
      const credentials = await this.#options.credentials();
      if (attempt !== this.#attempt) return;
      if (credentials) this.#openSocket(credentials);
      else this.#take({ kind: 'signed-out' });
    } catch {
      if (attempt === this.#attempt) this.#take({ kind: 'ended', code: null });
    }
  }

  #openSocket(credentials: Credentials): void {
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
    // A close always follows an error.
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
      // It never opened.
    }
  }
}

function openWebSocket(url: string): SocketLike {
  return new WebSocket(url) as SocketLike;
}

/** Browsers before 2023 accept neither relative addresses nor http. */
function absolute(url: string): string {
  const whole = new URL(url, globalThis.location?.href);
  whole.protocol = whole.protocol.replace('http', 'ws');
  return whole.href;
}
