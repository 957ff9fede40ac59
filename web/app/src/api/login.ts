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

/** What a session needs of the world around it. */
export interface LoginPorts {
  /** The cookie that goes into X-CSRF-Token; null without a login. */
  csrfToken(): string | null;
  /** Runs `work` while no other tab of this browser runs its own. */
  alone<T>(work: () => Promise<T>): Promise<T>;
  /** Tells the other tabs, which hear it through `Login.hear`. */
  tell(news: LoginNews): void;
  /** Another person has signed in in this browser: the page must begin anew. */
  startOver(): void;
  now(): number;
  pause(ms: number): Promise<void>;
}

export type LoginNews = { readonly kind: 'signed-out'; readonly userId: string };

// Ahead of its end: the token must still be good when it arrives, also where this clock is a little slow.
const SPARE_MS = 20_000;
const ATTEMPTS = 8;

/** Who is signed in. The access token is in memory only; the cookie that renews it is not readable for any page. */
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

  /** Finds out whether the cookie is good. Rejects with `NoAnswer` if that cannot be found out. */
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

  /** Ends the session on the server and in every tab. If the server does not answer, only the tabs have forgotten it. */
  async signOut(): Promise<void> {
    if (this.#state.phase !== 'in') return;
    const userId = this.#state.user.id;
    // The cookie may be that of another person by now, who signed in in another tab: it is left alone then.
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

  /** A token that is good for a while: at once if there is one, otherwise after a refresh. */
  accessToken(): string | Promise<string> {
    return this.ports.now() < this.#freshUntil ? this.#token : this.renew();
  }

  /** A new token. Rejects with `Problem` if the session is over, and then nobody is signed in any more. */
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
      // Read anew each time: a sign-in in another tab changes it.
      const headers = { 'X-CSRF-Token': this.ports.csrfToken() ?? '' };
      try {
        return this.#accept(await send<SignedInUser>({ method: 'POST', path: '/api/auth/refresh', headers }));
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        // Another tab, or a request of ours whose reply was lost, was faster: its cookie is there in a moment.
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
