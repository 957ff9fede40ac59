import { Alarm } from '../clock/alarm';
import { steadyClock } from '../clock/steadyClock';
import type { Ticker } from '../clock/ticker';
import type { DraftStore } from '../drafts/draft';
import { DraftKeeper } from '../drafts/draftWriter';
import type { Content } from '../protocol/content';
import type { Role } from '../protocol/rest';
import type { TabLine, TabMessage } from '../tabs/tabs';
import { watchPage } from './effects/pageEvents';
import { keyOf, type Lingering, linger, pageLingering } from './effects/pendingReleases';
import { type Ports, perform } from './effects/runner';
import type { Input } from './machine/inputs';
import { isSettled } from './machine/lifecycle';
import { type Beginning, beginSession, type Session } from './machine/state';
import { next } from './machine/transition';
import type { DocumentLockState } from './view/documentLock';
import { view } from './view/lockState';

/** How long a component that has gone may still be saving. */
const LINGER_MS = 60_000;

export interface SessionOptions extends Omit<Beginning, 'now'> {
  readonly ports: Ports;
  readonly drafts: DraftStore | null;
  readonly ticker: Ticker;
  readonly now?: () => number;
  /** Sessions of the same page that were left before. */
  readonly lingering?: Lingering;
}

/**
 * One document on one page: runs the state machine, does what it wants done, and shows what is true.
 *
 * Making one does nothing yet. It lives from `attach` until what that returned is called; a call of `attach` right after that
 * goes on as if nothing had been: React mounts twice in development, and that must not give a lock back.
 */
export class DocumentSession {
  readonly #options: SessionOptions;
  readonly #keeper: DraftKeeper;
  readonly #alarm = new Alarm();
  readonly #now: () => number;
  readonly #listeners = new Set<() => void>();
  readonly #queue: Input[] = [];
  #isTaking = false;
  #session: Session;
  #view: DocumentLockState;
  #attached = 0;
  #leftAt = 0;
  #stop: (() => void) | null = null;
  /** Tells whoever waits for this one that it has settled. */
  #settle: (() => void) | null = null;
  #line: TabLine | null = null;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#now = options.now ?? steadyClock();
    this.#keeper = new DraftKeeper(options.drafts, (areKept) => this.#tell({ kind: 'drafts-kept', areKept }));
    this.#session = beginSession({ ...options, now: this.#now(), keepsDrafts: options.drafts !== null });
    this.#view = view(this.#session);
  }

  readonly getState = (): DocumentLockState => this.#view;

  get current(): Session {
    return this.#session;
  }

  readonly subscribe = (changed: () => void): (() => void) => {
    this.#listeners.add(changed);
    return () => this.#listeners.delete(changed);
  };

  attach(): () => void {
    this.#attached += 1;
    this.#settle?.();
    if (this.#stop) this.take({ kind: 'reopened' });
    else this.#start();
    let isAttached = true;
    return () => {
      if (!isAttached) return;
      isAttached = false;
      this.#attached -= 1;
      // At once: another session of this document may be attached before the microtask.
      if (this.#attached === 0) this.#settle = linger(this.#lingering, this.#key);
      queueMicrotask(() => {
        if (this.#attached > 0) return;
        this.#leftAt = this.#now();
        this.take({ kind: 'closed' });
      });
    };
  }

  get #lingering(): Lingering {
    return this.#options.lingering ?? pageLingering;
  }

  get #key(): string {
    return keyOf(this.#options.userId, this.#options.documentId);
  }

  setRole(role: Role): void {
    this.take({ kind: 'role-changed', role });
  }

  /** Something happened. Inputs that come up while another is dealt with wait for their turn. */
  take(input: Input): void {
    this.#queue.push(input);
    if (this.#isTaking) return;
    this.#isTaking = true;
    try {
      for (let each = this.#queue.shift(); each; each = this.#queue.shift()) this.#step(each);
    } finally {
      this.#isTaking = false;
    }
    this.#publish();
  }

  /** Something that does not matter any more once the session has ended. */
  #tell(input: Input): void {
    if (this.#stop) this.take(input);
  }

  /** Resolves once that is so. */
  until(isSo: (session: Session) => boolean): Promise<Session> {
    return new Promise((resolve) => {
      const look = () => {
        if (!isSo(this.#session)) return;
        stop();
        resolve(this.#session);
      };
      const stop = this.#watch(look);
      look();
    });
  }

  readonly #watchers = new Set<() => void>();

  #watch(look: () => void): () => void {
    this.#watchers.add(look);
    return () => this.#watchers.delete(look);
  }

  #step(input: Input): void {
    const { documentId, userId, ports } = this.#options;
    this.#session = next(this.#session, input, this.#now());
    const inside = {
      documentId,
      userId,
      keeper: this.#keeper,
      alarm: this.#alarm,
      line: this.#line,
      take: (answer: Input) => this.take(answer),
    };
    for (const effect of this.#session.effects) perform(effect, ports, inside);
  }

  #publish(): void {
    const shown = view(this.#session);
    const isChanged = !isShallowEqual(shown, this.#view);
    if (isChanged) this.#view = shown;
    // Components first: whoever awaits an action finds them as the session is.
    if (isChanged) for (const changed of [...this.#listeners]) changed();
    for (const look of [...this.#watchers]) look();
    if (this.#session.leaving && this.#attached === 0 && isSettled(this.#session)) this.#end();
  }

  #start(): void {
    const { documentId, userId, ports, ticker } = this.#options;
    const hear = (message: TabMessage) => this.take({ kind: 'tab-said', message });
    this.#line = ports.tabs?.open(userId, documentId, hear) ?? null;
    const ends = [
      ticker.start(() => this.#tick()),
      watchPage({ onHide: () => this.#hide(), onShow: () => this.#show(), onNetwork: () => this.#retry() }),
    ];
    this.#stop = () => {
      for (const end of ends) end();
    };
    this.#waitForEarlier();
    if (this.#session.leaving) this.take({ kind: 'reopened' });
    this.take({ kind: 'tick' });
    if (ports.live) ends.push(ports.live.watch(documentId, (event) => this.take({ kind: 'live', event })));
  }

  /** The save of an earlier session gives the lock back. For the service both are the same tab: it would be this one's lock. */
  #waitForEarlier(): void {
    const settled = this.#lingering.get(this.#key);
    if (!settled) return;
    this.take({ kind: 'held-up' });
    void settled.then(() => this.#tell({ kind: 'let-go' }));
  }

  #end(): void {
    this.#settle?.();
    this.#stop?.();
    this.#stop = null;
    this.#line?.hangUp();
    this.#line = null;
    this.#alarm.clear();
    this.#keeper.flush();
  }

  #tick(): void {
    this.take({ kind: 'tick' });
    if (this.#attached === 0 && this.#now() - this.#leftAt > LINGER_MS) this.#end();
  }

  #hide(): void {
    const content =
      this.#session.hold.kind === 'held' ? atOnce(this.#options.ports.beforeRelease) : undefined;
    this.take({ kind: 'page-hiding', content });
    this.#keeper.flush();
  }

  #show(): void {
    this.take({ kind: 'shown' });
    this.#options.ports.live?.reconnect();
  }

  #retry(): void {
    this.take({ kind: 'retry-asked' });
    this.#options.ports.live?.reconnect();
  }
}

/** What the host has to save, if it says so without waiting. */
function atOnce(beforeRelease: Ports['beforeRelease']): Content | undefined {
  try {
    const content = beforeRelease();
    return content instanceof Promise ? undefined : content;
  } catch {
    return undefined;
  }
}

function isShallowEqual(one: object, other: object): boolean {
  const known: Record<string, unknown> = { ...other };
  return Object.entries(one).every(([name, value]) => Object.is(value, known[name]));
}
