import { send } from './http';
import { Problem } from './problem';
import type { Operations } from './schema.generated';

export type OperationName = keyof Operations;

/** The parameters of an operation: path and body if it has them; a query is always optional. */
type Asked<Name extends OperationName> = {
  [Part in 'path' | 'body' as undefined extends Operations[Name][Part]
    ? never
    : Part]: Operations[Name][Part];
} & { readonly query?: Operations[Name]['query'] };

/** Gives access tokens: `Login` is one. */
export interface TokenSource {
  accessToken(): string | Promise<string>;
  renew(): Promise<string>;
}

/** Sends requests for the signed-in user. */
export class Client {
  constructor(
    private readonly tokens: TokenSource,
    private readonly tab: string,
  ) {}

  /**
   * One operation, by its method and path as in the OpenAPI document.
   *
   * Rejects with `Problem` or `NoAnswer`. An expired token is renewed once.
   */
  async call<Name extends OperationName>(name: Name, asked: Asked<Name>): Promise<Operations[Name]['reply']> {
    const [method = '', template = ''] = name.split(' ');
    const { path, query, body } = asked as { path?: Values; query?: Values; body?: unknown };
    const attempt = (token: string) =>
      send<Operations[Name]['reply']>({
        method,
        path: filled(template, path) + searched(query),
        headers: { Authorization: `Bearer ${token}`, 'Leasehold-Tab': this.tab },
        body,
      });
    try {
      return await attempt(await this.tokens.accessToken());
    } catch (error) {
      if (!(error instanceof Problem && error.status === 401)) throw error;
      return attempt(await this.tokens.renew());
    }
  }
}

type Values = Readonly<Record<string, string | number | boolean | null | undefined>>;

function filled(template: string, values: Values = {}): string {
  return template.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(values[name])));
}

function searched(values: Values = {}): string {
  const given = Object.entries(values).flatMap(([name, value]) =>
    value == null ? [] : [[name, String(value)]],
  );
  return given.length === 0 ? '' : `?${new URLSearchParams(given)}`;
}
