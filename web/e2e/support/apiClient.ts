import type { Service } from './service';

export type Name = 'Olga' | 'Ana' | 'Ben' | 'Vera';

interface Holder {
  readonly user_name: string;
  readonly acquired_at: number;
  /** Seconds since 1970, as of the last heartbeat. */
  readonly idle_since: number | null;
}

export interface LockState {
  readonly locked: boolean;
  readonly lock_holder: Holder | null;
  readonly version: { readonly fence: string; readonly step: number };
}

/** A member of the team without a browser: a client of the API. */
export class ApiClient {
  readonly #address: string;
  readonly #token: string;

  private constructor(address: string, token: string) {
    this.#address = address;
    this.#token = token;
  }

  static async signIn({ address }: Pick<Service, 'address'>, name: Name): Promise<ApiClient> {
    const body = { email: `${name.toLowerCase()}@demo.example`, password: `demo-${name.toLowerCase()}` };
    const { access_token } = await send(`${address}/api/auth/login`, 'POST', { body });
    return new ApiClient(address, String(access_token));
  }

  async call<Reply = Record<string, unknown>>(method: string, path: string, body?: unknown): Promise<Reply> {
    return (await send(`${this.#address}${path}`, method, { body, token: this.#token })) as Reply;
  }

  lock(documentId: string): Promise<LockState> {
    return this.call('GET', `/api/documents/${documentId}/lock`);
  }

  acquire(documentId: string): Promise<LockState & { fence: string; content_version: number }> {
    return this.call('POST', `/api/documents/${documentId}/lock`);
  }

  release(documentId: string): Promise<LockState> {
    return this.call('DELETE', `/api/documents/${documentId}/lock`);
  }

  /** One edit: takes the lock, saves the paragraphs, releases the lock. */
  async write(documentId: string, ...paragraphs: string[]): Promise<void> {
    const { fence, content_version } = await this.acquire(documentId);
    const content = {
      type: 'doc',
      content: paragraphs.map((text) => ({ type: 'paragraph', content: [{ type: 'text', text }] })),
    };
    await this.call('PUT', `/api/documents/${documentId}/content`, {
      content,
      base_version: content_version,
      fence,
      release: true,
    });
  }

  /** A new document of the demo team. */
  async create(title: string): Promise<string> {
    const teams = await this.call<{ items: { id: string }[] }>('GET', '/api/applications');
    const made = await this.call('POST', '/api/documents', { title, application_id: teams.items[0]?.id });
    return String(made.id);
  }
}

async function send(
  url: string,
  method: string,
  { body, token }: { body?: unknown; token?: string },
): Promise<Record<string, unknown>> {
  const reply = await fetch(url, {
    method,
    headers: {
      'Leasehold-Tab': 'a-program',
      ...(token !== undefined && { Authorization: `Bearer ${token}` }),
      ...(body !== undefined && { 'Content-Type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  if (!reply.ok) throw new Error(`${method} ${url}: ${reply.status} ${await reply.text()}`);
  return reply.status === 204 ? {} : await reply.json();
}
