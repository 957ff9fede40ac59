import type { SocketLike } from '../../src/live/connection';
import type { ClientMessage, Lock, ServerMessage } from '../../src/protocol/messages.generated';
import {
  type Transport,
  type TransportReply,
  type TransportRequest,
  Unreachable,
} from '../../src/transport/transport';

const ENDED = 2147483647;
const NO_HOLD = -1;
const TOO_LARGE = { status: 413, body: { code: 'invalid_request', message: 'too large' } };

export interface Visitor {
  readonly id: string;
  readonly name: string;
  readonly tab: string;
  readonly role: 'viewer' | 'editor' | 'owner';
}

interface Hold {
  readonly who: Visitor;
  readonly fence: number;
  step: number;
  beatenAt: number;
  taker: Visitor | null;
}

/** The fate of a request: a wait before its execution or before its answer, a loss of either, or a refusal. */
export type Fate = {
  before?: Promise<void>;
  after?: Promise<void>;
  isLost?: 'request' | 'reply';
  isRefused?: boolean;
};

/** A service for one document that follows docs/protocol.md, for pages in the same process. It has no timers. */
export class ModelServer {
  version = 1;
  content: unknown = 'as it was';
  fence = 100;
  hold: Hold | null = null;
  registered: { fence: number; who: Visitor } | null = null;
  readonly drafts: { content: unknown; fence: number; base: number }[] = [];
  readonly versions = new Map<number, { content: unknown; fence: number }>();
  /** The contents of all versions. */
  readonly saved: unknown[] = [];
  readonly requests: (TransportRequest & { by: string })[] = [];
  readonly sockets = new Set<ModelSocket>();
  isDown = false;
  fateOf: (request: TransportRequest, by: Visitor) => Fate = () => ({});
  times = { ttl: 45, heartbeat: 10, idle: 30 };
  #yielded: (() => void) | null = null;
  #readings = 0;

  transport(who: Visitor): Transport {
    return { send: (request) => this.#receive(request, who) };
  }

  openSocket(who: Visitor): SocketLike {
    const socket = new ModelSocket(this, who);
    this.sockets.add(socket);
    queueMicrotask(() => (this.isDown ? socket.drop(1006) : socket.onopen?.()));
    return socket;
  }

  /** The network fails silently, until `comeUp`. */
  goDown(): void {
    this.isDown = true;
    for (const socket of [...this.sockets]) socket.drop(1006);
  }

  comeUp(): void {
    this.isDown = false;
  }

  asked(method: string, ending: string): (TransportRequest & { by: string })[] {
    return this.requests.filter(
      ({ method: verb, path }) => verb === method && path.split('?')[0]?.endsWith(ending),
    );
  }

  lockFor(who: Visitor): Lock {
    const { hold } = this;
    return {
      document_id: 'd',
      locked: hold !== null,
      lock_holder: hold && holderFor(hold, who),
      version: this.#lockVersion(),
      expires_in: hold ? 45 : null,
      taking: hold?.taker ? { user_id: hold.taker.id, user_name: hold.taker.name, seconds_left: 3 } : null,
    };
  }

  /** Before the first hold each reading has a newer version, as from the store's clock. */
  #lockVersion(): Lock['version'] {
    const { hold } = this;
    if (hold) return { fence: `${hold.fence}`, step: hold.step };
    if (this.registered) return { fence: `${this.fence}`, step: ENDED };
    this.#readings += 1;
    return { fence: `${this.#readings}`, step: NO_HOLD };
  }

  /** Grants the lock to `who`, regardless of the holder. */
  grant(who: Visitor, type: 'document_locked' | 'document_force_taken' = 'document_locked'): void {
    this.fence += 1;
    this.hold = { who, fence: this.fence, step: 0, beatenAt: Date.now(), taker: null };
    this.registered = { fence: this.fence, who };
    this.tell(type, who);
  }

  free(type: 'document_unlocked' | 'document_lock_expired' = 'document_unlocked'): void {
    const by = this.hold?.who ?? null;
    const taker = this.hold?.taker ?? null;
    this.hold = null;
    this.#yielded?.();
    if (taker) this.grant(taker, 'document_force_taken');
    else this.tell(type, by);
  }

  /** Expires a hold without heartbeats. The model has no timer for that. */
  sweep(): void {
    if (this.hold && Date.now() - this.hold.beatenAt > 1000 * this.times.ttl)
      this.free('document_lock_expired');
  }

  /** A heartbeat of `who`; true if they hold the lock. */
  beat(who: Visitor): boolean {
    if (!this.hold || !isSame(this.hold.who, who)) return false;
    this.hold.beatenAt = Date.now();
    return true;
  }

  /** Asks the holder to save for `taker`. */
  mark(taker: Visitor): void {
    if (!this.hold) return;
    this.hold.taker = taker;
    this.hold.step += 1;
    this.tell('document_force_save_requested', taker);
  }

  /** The taker has withdrawn. */
  unmark(): void {
    if (!this.hold) return;
    this.hold.taker = null;
    this.hold.step += 1;
    this.tell('document_locked', null);
  }

  /** Another user saves a version. */
  write(content: unknown): void {
    this.version += 1;
    this.content = content;
  }

  requestHeartbeats(): void {
    for (const socket of this.sockets) {
      if (this.hold && isSame(this.hold.who, socket.who)) {
        socket.deliver({ type: 'heartbeat_requested', data: { document_ids: ['d'] } });
      }
    }
  }

  tell(type: ServerMessage['type'], by: Visitor | null): void {
    for (const socket of this.sockets) {
      if (!socket.isJoined) continue;
      const lock = this.lockFor(socket.who);
      const triggered_by = by && { user_id: by.id, user_name: by.name };
      const data = {
        document_id: 'd',
        lock_holder: lock.lock_holder,
        triggered_by,
        timestamp: 0,
        lock,
        saved: null,
      };
      socket.deliver({ type, data } as ServerMessage);
    }
  }

  async #receive(request: TransportRequest, who: Visitor): Promise<TransportReply> {
    this.requests.push({ ...request, by: who.id });
    const fate = this.fateOf(request, who);
    await fate.before;
    if (this.isDown || fate.isLost === 'request') throw new Unreachable('lost');
    const reply = fate.isRefused ? TOO_LARGE : await this.#answer(request, who);
    await fate.after;
    if (this.isDown || fate.isLost === 'reply') throw new Unreachable('lost');
    return reply;
  }

  async #answer({ method, path, body }: TransportRequest, who: Visitor): Promise<TransportReply> {
    const [route = '', query = ''] = path.replace('/api/documents/d', '').split('?');
    switch (`${method} ${route}`) {
      case 'GET ':
        return { status: 200, body: { version: this.version, content: this.content } };
      case 'GET /lock':
        return { status: 200, body: this.lockFor(who) };
      case 'POST /lock':
        return this.#acquire(who, (body as { move?: boolean } | undefined)?.move === true);
      case 'DELETE /lock':
        if (this.hold && isSame(this.hold.who, who)) this.free();
        return { status: 200, body: { ...this.lockFor(who), query } };
      case 'POST /lock/heartbeat':
        if (!this.beat(who)) return this.#problem('lease_lost', who);
        return { status: 200, body: { ...this.lockFor(who), extended: true } };
      case 'POST /lock/force-take':
        return this.#take(who);
      case 'PUT /content':
        return this.#save(who, body as SaveBody);
      default:
        return { status: 404, body: { code: 'not_found', message: path } };
    }
  }

  #acquire(who: Visitor, move: boolean): TransportReply {
    if (this.hold && !isSame(this.hold.who, who) && !(move && this.hold.who.id === who.id)) {
      return this.#problem('lock_busy', who);
    }
    if (!this.hold || !isSame(this.hold.who, who)) this.grant(who);
    return this.#granted(who);
  }

  async #take(who: Visitor): Promise<TransportReply> {
    if (!this.hold) return this.#acquire(who, true);
    const yielded = new Promise<void>((resolve) => {
      this.#yielded = resolve;
    });
    this.mark(who);
    await Promise.race([yielded, new Promise((resolve) => setTimeout(resolve, 3_000))]);
    if (!this.hold || !isSame(this.hold.who, who)) this.grant(who, 'document_force_taken');
    return this.#granted(who);
  }

  #granted(who: Visitor): TransportReply {
    const { fence } = this.hold ?? { fence: 0 };
    return {
      status: 200,
      body: { ...this.lockFor(who), fence: `${fence}`, content_version: this.version, saved: null },
    };
  }

  #save(who: Visitor, { content, base_version: base, fence, release }: SaveBody): TransportReply {
    const given = Number(fence);
    const made = this.versions.get(base + 1);
    let reply: TransportReply;
    if (made && made.fence === given && JSON.stringify(made.content) === JSON.stringify(content)) {
      reply = { status: 200, body: { version: base + 1, lock_lost: !this.#holds(who, given) } };
    } else if (
      this.registered?.fence !== given ||
      !isSame(this.registered.who, who) ||
      base !== this.version
    ) {
      this.drafts.push({ content, fence: given, base });
      const draft = { code: 'save_rescued', draft_id: `draft-${this.drafts.length}`, version: this.version };
      reply = { status: 409, body: { ...draft, message: 'kept' } };
    } else {
      if (JSON.stringify(content) !== JSON.stringify(this.content)) this.version += 1;
      this.content = content;
      this.saved.push(content);
      this.versions.set(this.version, { content, fence: given });
      reply = { status: 200, body: { version: this.version, lock_lost: !this.#holds(who, given) } };
    }
    if (release && this.#holds(who, given)) this.free();
    return reply;
  }

  #holds(who: Visitor, fence: number): boolean {
    return this.hold !== null && isSame(this.hold.who, who) && this.hold.fence === fence;
  }

  #problem(code: string, who: Visitor): TransportReply {
    return { status: 409, body: { code, message: code, lock_holder: this.lockFor(who).lock_holder } };
  }
}

interface SaveBody {
  readonly content: unknown;
  readonly base_version: number;
  readonly fence: string;
  readonly release?: boolean;
}

function isSame(one: Visitor, other: Visitor): boolean {
  return one.id === other.id && one.tab === other.tab;
}

function holderFor({ who }: Hold, viewer: Visitor) {
  return {
    user_id: who.id,
    user_name: who.name,
    acquired_at: 1_790_000_000,
    same_user: who.id === viewer.id,
    tab_is_mine: isSame(who, viewer),
    idle_since: null,
  };
}

export class ModelSocket implements SocketLike {
  onopen: SocketLike['onopen'] = null;
  onmessage: SocketLike['onmessage'] = null;
  onclose: SocketLike['onclose'] = null;
  onerror: SocketLike['onerror'] = null;
  isJoined = false;
  readonly received: ClientMessage[] = [];
  readonly who: Visitor;
  readonly #server: ModelServer;

  constructor(server: ModelServer, who: Visitor) {
    this.#server = server;
    this.who = who;
  }

  send(text: string): void {
    const message = JSON.parse(text) as ClientMessage;
    this.received.push(message);
    queueMicrotask(() => this.#answer(message));
  }

  close(): void {
    this.#server.sockets.delete(this);
  }

  drop(code: number): void {
    this.#server.sockets.delete(this);
    this.onclose?.({ code });
  }

  deliver(message: ServerMessage): void {
    this.onmessage?.({ data: JSON.stringify(message) });
  }

  #answer(message: ClientMessage): void {
    this.deliver(this.#answerTo(message));
  }

  #answerTo(message: ClientMessage): ServerMessage {
    const server = this.#server;
    const { lock_holder } = server.lockFor(this.who);
    switch (message.type) {
      case 'authenticate': {
        const { id: user_id, name: user_name } = this.who;
        return { type: 'authenticated', data: { user_id, user_name, expires_at: null, ...server.times } };
      }
      case 'join':
        this.isJoined = true;
        return {
          type: 'joined',
          data: { document_id: 'd', role: this.who.role, lock: server.lockFor(this.who) },
        };
      case 'leave':
        this.isJoined = false;
        return { type: 'left', data: { document_id: 'd' } };
      case 'heartbeat': {
        const extended = server.beat(this.who);
        return { type: 'heartbeat', data: { document_id: 'd', extended, lock_holder } };
      }
      case 'ping':
        return { type: 'pong', data: {} };
    }
  }
}
