import { send } from './http';
import { Problem } from './problem';
import type { Credentials, Registration, SignedInUser } from './schema.generated';

export interface LoginUser {
  readonly id: string;
  readonly email: string;
  readonly name: string;
}

/** `unknown` until the cookie has been tried. */
export type LoginState =
  | { readonly phase: 'unknown' }
  | { readonly phase: 'out' }
  | { readonly phase: 'in'; readonly user: LoginUser };

/** The environment of a login. */
export interface LoginPorts {
  /** The cookie that goes into X-CSRF-Token; null without a login. */
  csrfToken(): string | null;
  /** Runs `work` in one tab of this browser at a time. */
  alone<T>(work: () => Promise<T>): Promise<T>;
  /** Sends `news` to the other tabs, which pass it to `Login.hear`. */
  tell(news: LoginNews): void;
  /** Reloads the page: another user has signed in in this browser. */
  startOver(): void;
  now(): number;
  pause(ms: number): Promise<void>;
}

export type LoginNews = { readonly kind: 'signed-out'; readonly userId: string };

// Renewed ahead of its end: the token must still be valid on arrival, also if this clock is slightly slow.
const SPARE_MS = 20_000;
const ATTEMPTS = 8;

/** The signed-in user. The access token is in memory only; no page can read the cookie that renews it. */
export class Login {
  #state: LoginState = { phase: 'unknown' };
  #token = '';
  #csrf = '';
  #freshUntil = 0;
  #renewing: Promise<string> | null = null;
  readonly #listeners = new Set<() => void>();

  constructor(private readonly ports: LoginPorts) {}

  get state(): LoginState {
    return this.#state;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Tries the cookie. Rejects with `NoAnswer` if the server does not answer. */
  async begin(): Promise<void> {
    if (this.#state.phase !== 'unknown') return;
    if (this.ports.csrfToken() === null) return this.#become({ phase: 'out' });
    await this.renew().catch((error: unknown) => {
      if (!(error instanceof Problem)) throw error;
    });
  }

  async signIn(credentials: Credentials): Promise<void> {
    this.#accept(await send<SignedInUser>({ method: 'POST', path: '/api/auth/login', body: credentials }));
  }

  async register(registration: Registration): Promise<void> {
    this.#accept(
      await send<SignedInUser>({ method: 'POST', path: '/api/auth/register', body: registration }),
    );
  }

  /** Ends the login on the server and in every tab. If the server does not answer, only in the tabs. */
  async signOut(): Promise<void> {
    if (this.#state.phase !== 'in') return;
    const userId = this.#state.user.id;
    // The cookie may belong to another user who has signed in in another tab: then it is left unchanged.
    const isOurCookie = this.ports.csrfToken() === this.#csrf;
    const headers = {
      Authorization: `Bearer ${this.#token}`,
      ...(isOurCookie && { 'X-CSRF-Token': this.#csrf }),
    };
    try {
      await send({ method: 'POST', path: '/api/auth/logout', headers, withCookies: isOurCookie });
    } finally {
      this.#forget();
      this.ports.tell({ kind: 'signed-out', userId });
    }
  }

  hear(news: LoginNews): void {
    if (this.#state.phase === 'in' && this.#state.user.id === news.userId) this.#forget();
  }

  /** A token that is valid for a while: synchronously if there is one, otherwise after a refresh. */
  accessToken(): string | Promise<string> {
    return this.ports.now() < this.#freshUntil ? this.#token : this.renew();
  }

  /** A new token. Rejects with `Problem` if the login has ended; the state is `out` then. */
  renew(): Promise<string> {
    this.#renewing ??= this.ports
      .alone(() => this.#refresh())
      .finally(() => {
        this.#renewing = null;
      });
    return this.#renewing;
  }

  async #refresh(): Promise<string> {
    for (let attempt = 1; ; attempt += 1) {
      // Read at each attempt: a login in another tab changes it.
      const headers = { 'X-CSRF-Token': this.ports.csrfToken() ?? '' };
      try {
        return this.#accept(await send<SignedInUser>({ method: 'POST', path: '/api/auth/refresh', headers }));
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        // Another tab, or an earlier request with a lost reply, was faster: its cookie follows.
        if (error.status === 409 && attempt < ATTEMPTS) await this.ports.pause(250 * attempt);
        else if (error.status === 401 || error.status === 403) return this.#over(error);
        else throw error;
      }
    }
  }

  #over(error: Problem): never {
    this.#forget();
    throw error;
  }

  #accept(signedIn: SignedInUser): string {
    const before = this.#state;
    if (before.phase === 'in' && before.user.id !== signedIn.id) this.ports.startOver();
    this.#token = signedIn.access_token;
    this.#csrf = signedIn.csrf_token;
    const lifetime = signedIn.expires_in * 1000;
    this.#freshUntil = this.ports.now() + lifetime - Math.min(SPARE_MS, lifetime / 4);
    const user = { id: signedIn.id, email: signedIn.email, name: signedIn.display_name };
    if (before.phase !== 'in' || before.user.id !== user.id) this.#become({ phase: 'in', user });
    return this.#token;
  }

  #forget(): void {
    this.#token = '';
    this.#freshUntil = 0;
    this.#become({ phase: 'out' });
  }

  #become(state: LoginState): void {
    this.#state = state;
    for (const listener of this.#listeners) listener();
  }
}
