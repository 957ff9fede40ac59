import { beforeEach, describe, expect, it, vi } from 'vitest';
import { Login, type LoginNews, type LoginPorts } from '../src/api/login';
import { NoAnswer, Problem } from '../src/api/problem';

interface Asked {
  readonly path: string;
  readonly csrf: string | null;
  readonly credentials: RequestCredentials | undefined;
}

/** A server with scripted answers, which records the requests. */
class ScriptedServer {
  readonly asked: Asked[] = [];
  readonly answers: (() => Response | Promise<Response>)[] = [];

  readonly fetch = async (path: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const headers = new Headers(init?.headers);
    this.asked.push({
      path: String(path),
      csrf: headers.get('X-CSRF-Token'),
      credentials: init?.credentials,
    });
    const answer = this.answers.shift();
    if (!answer) throw new Error(`nothing to say to ${path}`);
    return answer();
  };

  signsIn(id: string, token: string, { expiresIn = 900, csrf = `csrf-${id}` } = {}): this {
    const user = { id, email: `${id}@example.com`, display_name: id, created_at: 0 };
    const tokens = { access_token: token, token_type: 'bearer', expires_in: expiresIn, csrf_token: csrf };
    this.answers.push(() => Response.json({ ...user, ...tokens }));
    return this;
  }

  says(status: number, code: string): this {
    this.answers.push(() =>
      Response.json({ type: code, code, title: code, status, message: code }, { status }),
    );
    return this;
  }

  isAway(): this {
    this.answers.push(() => Promise.reject(new TypeError('no network')));
    return this;
  }
}

class World implements LoginPorts {
  cookie: string | null = 'csrf-ana';
  time = 1_000_000;
  told: LoginNews[] = [];
  startedOver = 0;
  pauses: number[] = [];
  alone<T>(work: () => Promise<T>) {
    return work();
  }
  csrfToken = () => this.cookie;
  tell = (news: LoginNews) => this.told.push(news);
  startOver = () => {
    this.startedOver += 1;
  };
  now = () => this.time;
  pause = async (ms: number) => {
    this.pauses.push(ms);
  };
}

let server: ScriptedServer;
let world: World;
let login: Login;

beforeEach(() => {
  server = new ScriptedServer();
  world = new World();
  login = new Login(world);
  vi.stubGlobal('fetch', server.fetch);
});

describe('a login', () => {
  it('sends no request without a cookie', async () => {
    world.cookie = null;
    await login.begin();
    expect(login.state.phase).toBe('out');
    expect(server.asked).toEqual([]);
  });

  it('starts with the cookie of the last visit', async () => {
    server.signsIn('ana', 'one');
    await login.begin();
    expect(login.state).toEqual({
      phase: 'in',
      user: { id: 'ana', email: 'ana@example.com', name: 'ana' },
    });
    expect(server.asked[0]).toMatchObject({ path: '/api/auth/refresh', csrf: 'csrf-ana' });
  });

  it('does not count an unreachable server as a refusal', async () => {
    server.isAway();
    await expect(login.begin()).rejects.toBeInstanceOf(NoAnswer);
    expect(login.state.phase).toBe('unknown');
    server.signsIn('ana', 'one');
    await login.begin();
    expect(login.state.phase).toBe('in');
  });

  it('ends when the server refuses', async () => {
    server.says(401, 'not_signed_in');
    await login.begin();
    expect(login.state.phase).toBe('out');
  });

  it('returns a valid token synchronously, and renews it before its end', async () => {
    server.signsIn('ana', 'one').signsIn('ana', 'two');
    await login.begin();
    expect(login.accessToken()).toBe('one');
    world.time += 881_000;
    expect(await login.accessToken()).toBe('two');
    expect(login.accessToken()).toBe('two');
  });

  it('renews once for simultaneous callers', async () => {
    server.signsIn('ana', 'one');
    const tokens = await Promise.all([login.accessToken(), login.accessToken(), login.renew()]);
    expect(tokens).toEqual(['one', 'one', 'one']);
    expect(server.asked).toHaveLength(1);
  });

  it('repeats the refresh with the new cookie when another tab was faster', async () => {
    server.says(409, 'in_progress').signsIn('ana', 'one');
    const begun = login.begin();
    world.cookie = 'csrf-later';
    await begun;
    expect(login.state.phase).toBe('in');
    expect(server.asked.at(-1)?.csrf).toBe('csrf-later');
    expect(world.pauses).toHaveLength(1);
  });

  it('stays signed in through an outage, and reports it', async () => {
    server.signsIn('ana', 'one').isAway().says(503, 'store_unavailable').signsIn('ana', 'two');
    await login.begin();
    world.time += 900_000;
    await expect(login.accessToken()).rejects.toBeInstanceOf(NoAnswer);
    await expect(login.accessToken()).rejects.toBeInstanceOf(Problem);
    expect(login.state.phase).toBe('in');
    expect(await login.accessToken()).toBe('two');
  });

  it('reloads the page when another user has signed in in this browser', async () => {
    server.signsIn('ana', 'one').signsIn('ben', 'two');
    await login.begin();
    await login.renew();
    expect(world.startedOver).toBe(1);
  });

  it('ends here and in the other tabs of the same user', async () => {
    server.signsIn('ana', 'one');
    server.answers.push(() => new Response(null, { status: 204 }));
    await login.begin();
    await login.signOut();
    expect(login.state.phase).toBe('out');
    expect(server.asked.at(-1)).toMatchObject({ path: '/api/auth/logout', csrf: 'csrf-ana' });
    expect(world.told).toEqual([{ kind: 'signed-out', userId: 'ana' }]);
  });

  it('ends with the logout of the same user in another tab', async () => {
    server.signsIn('ana', 'one');
    await login.begin();
    login.hear({ kind: 'signed-out', userId: 'ben' });
    expect(login.state.phase).toBe('in');
    login.hear({ kind: 'signed-out', userId: 'ana' });
    expect(login.state.phase).toBe('out');
  });

  it('leaves the cookie of another user unchanged', async () => {
    server.signsIn('ana', 'one');
    server.answers.push(() => new Response(null, { status: 204 }));
    await login.begin();
    world.cookie = 'csrf-ben';
    await login.signOut();
    expect(server.asked.at(-1)).toMatchObject({ csrf: null, credentials: 'omit' });
  });

  it('ends here even if the server is unreachable', async () => {
    server.signsIn('ana', 'one').isAway();
    await login.begin();
    await expect(login.signOut()).rejects.toBeInstanceOf(NoAnswer);
    expect(login.state.phase).toBe('out');
  });

  it('notifies listeners of every change, and of nothing else', async () => {
    server.signsIn('ana', 'one').signsIn('ana', 'two');
    const listener = vi.fn();
    const stop = login.subscribe(listener);
    await login.begin();
    await login.renew();
    expect(listener).toHaveBeenCalledTimes(1);
    stop();
    login.hear({ kind: 'signed-out', userId: 'ana' });
    expect(listener).toHaveBeenCalledTimes(1);
  });
});
