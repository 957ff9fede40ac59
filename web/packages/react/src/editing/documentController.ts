import { Alarm } from '../clock/alarm';
import { steadyClock } from '../clock/steadyClock';
import type { Ticker } from '../clock/ticker';
import type { DraftStore } from '../drafts/draft';
import { DraftWriter } from '../drafts/draftWriter';
import type { Content } from '../protocol/content';
import type { Role } from '../protocol/rest';
import type { TabLine, TabMessage } from '../tabs/tabs';
import { watchPage } from './effects/pageEvents';
import { addRelease, keyOf, type PendingReleases, pageReleases } from './effects/pendingReleases';
import { type Ports, run } from './effects/runner';
import type { Input } from './machine/inputs';
import { isSettled } from './machine/lifecycle';
import { type Beginning, initialState, type State } from './machine/state';
import { next } from './machine/transition';
import type { DocumentLockState } from './view/documentLock';
import { lockStateOf } from './view/lockState';

/** How long a removed component may still be saving. */
const RELEASE_WITHIN_MS = 60_000;

export interface ControllerOptions extends Omit<Beginning, 'now'> {
  readonly ports: Ports;
  readonly drafts: DraftStore | null;
  readonly ticker: Ticker;
  readonly now?: () => number;
  /** Earlier controllers of the same page that still save. */
  readonly pendingReleases?: PendingReleases;
}

/**
 * One document on one page: runs the state machine and its effects, and publishes the lock's state.
 *
 * The constructor has no effects. The controller runs from `attach` until the returned function is called. A call of `attach`
 * in the same task continues it: React mounts twice in development, and that must not release a lock.
 */
export class DocumentController {
  readonly #options: ControllerOptions;
  readonly #drafts: DraftWriter;
  readonly #alarm = new Alarm();
  readonly #now: () => number;
  readonly #listeners = new Set<() => void>();
  readonly #queue: Input[] = [];
  #isTaking = false;
  #state: State;
  #view: DocumentLockState;
  #attached = 0;
  #leftAt = 0;
  #stop: (() => void) | null = null;
  /** Resolves the wait of the next controller of this document. */
  #settle: (() => void) | null = null;
  #line: TabLine | null = null;

  constructor(options: ControllerOptions) {
    this.#options = options;
    this.#now = options.now ?? steadyClock();
    this.#drafts = new DraftWriter(options.drafts, (areKept) =>
      this.#takeIfRunning({ kind: 'drafts-kept', areKept }),
    );
    this.#state = initialState({ ...options, now: this.#now(), keepsDrafts: options.drafts !== null });
    this.#view = lockStateOf(this.#state);
  }

  readonly getState = (): DocumentLockState => this.#view;

  get current(): State {
    return this.#state;
  }

  readonly subscribe = (changed: () => void): (() => void) => {
    this.#listeners.add(changed);
    return () => this.#listeners.delete(changed);
  };

  attach(): () => void {
    this.#attached += 1;
    this.#settle?.();
    if (this.#stop) this.take({ kind: 'component-returned' });
    else this.#start();
    let isAttached = true;
    return () => {
      if (!isAttached) return;
      isAttached = false;
      this.#attached -= 1;
      // Before the microtask: another controller of this document may be attached until then.
      if (this.#attached === 0) this.#settle = addRelease(this.#releases, this.#key);
      queueMicrotask(() => {
        if (this.#attached > 0) return;
        this.#leftAt = this.#now();
        this.take({ kind: 'component-removed' });
      });
    };
  }

  get #releases(): PendingReleases {
    return this.#options.pendingReleases ?? pageReleases;
  }

  get #key(): string {
    return keyOf(this.#options.userId, this.#options.documentId);
  }

  setRole(role: Role): void {
    this.take({ kind: 'role-changed', role });
  }

  /** Processes an input. Inputs that arise in the meantime are queued. */
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

  /** Ignored after the end. */
  #takeIfRunning(input: Input): void {
    if (this.#stop) this.take(input);
  }

  /** Resolves once `isSo` is true. */
  until(isSo: (state: State) => boolean): Promise<State> {
    return new Promise((resolve) => {
      const look = () => {
        if (!isSo(this.#state)) return;
        stop();
        resolve(this.#state);
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
    this.#state = next(this.#state, input, this.#now());
    const context = {
      documentId,
      userId,
      drafts: this.#drafts,
      alarm: this.#alarm,
      line: this.#line,
      take: (answer: Input) => this.take(answer),
    };
    for (const effect of this.#state.effects) run(effect, ports, context);
  }

  #publish(): void {
    const shown = lockStateOf(this.#state);
    const isChanged = !isShallowEqual(shown, this.#view);
    if (isChanged) this.#view = shown;
    // Components first: code that awaits an action finds them up to date.
    if (isChanged) for (const changed of [...this.#listeners]) changed();
    for (const look of [...this.#watchers]) look();
    if (this.#state.leaving && this.#attached === 0 && isSettled(this.#state)) this.#end();
  }

  #start(): void {
    const { documentId, userId, ports, ticker } = this.#options;
    const hear = (message: TabMessage) => this.take({ kind: 'tab-message', message });
    this.#line = ports.tabs?.open(userId, documentId, hear) ?? null;
    const ends = [
      ticker.start(() => this.#tick()),
      watchPage({ onHide: () => this.#hide(), onShow: () => this.#show(), onNetwork: () => this.#retry() }),
    ];
    this.#stop = () => {
      for (const end of ends) end();
    };
    this.#waitForEarlier();
    if (this.#state.leaving) this.take({ kind: 'component-returned' });
    this.take({ kind: 'tick' });
    if (ports.live) ends.push(ports.live.watch(documentId, (event) => this.take({ kind: 'live', event })));
  }

  /** The save of an earlier controller releases the lock. The service sees the same tab: it would release this one's lock. */
  #waitForEarlier(): void {
    const settled = this.#releases.get(this.#key);
    if (!settled) return;
    this.take({ kind: 'earlier-save-started' });
    void settled.then(() => this.#takeIfRunning({ kind: 'earlier-save-ended' }));
  }

  #end(): void {
    this.#settle?.();
    this.#stop?.();
    this.#stop = null;
    this.#line?.hangUp();
    this.#line = null;
    this.#alarm.clear();
    this.#drafts.flush();
  }

  #tick(): void {
    this.take({ kind: 'tick' });
    if (this.#attached === 0 && this.#now() - this.#leftAt > RELEASE_WITHIN_MS) this.#end();
  }

  #hide(): void {
    const content = this.#state.hold.kind === 'held' ? atOnce(this.#options.ports.beforeRelease) : undefined;
    this.take({ kind: 'page-hiding', content });
    this.#drafts.flush();
  }

  #show(): void {
    this.take({ kind: 'page-shown' });
    this.#options.ports.live?.reconnect();
  }

  #retry(): void {
    this.take({ kind: 'retry-requested' });
    this.#options.ports.live?.reconnect();
  }
}

/** The host's content, if it is returned synchronously. */
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
