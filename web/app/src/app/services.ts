import { pageTab } from '@leasehold/react';
import { QueryClient } from '@tanstack/react-query';
import { browserPorts } from '../api/browserPorts';
import { Client } from '../api/client';
import { Login } from '../api/login';
import { Problem } from '../api/problem';
import type { LockClient } from '../live/context';
import { openLockClient } from '../live/lockClient';

/** The services of the page, made once. */
export class Services {
  readonly login: Login = new Login(browserPorts((news) => this.login.hear(news)));
  readonly client = new Client(this.login, pageTab);
  readonly queries = new QueryClient({
    defaultOptions: {
      queries: { retry: (failures, error) => !(error instanceof Problem) && failures < 3, staleTime: 5_000 },
    },
  });
  #lockClient: LockClient | null = null;

  constructor() {
    // The next user must not see the data of the last one.
    this.login.subscribe(() => {
      if (this.login.state.phase === 'in') return;
      this.#lockClient?.live.close();
      this.#lockClient = null;
      this.queries.clear();
    });
  }

  /** For the signed-in user. */
  get lockClient(): LockClient {
    this.#lockClient ??= openLockClient(this.login);
    return this.#lockClient;
  }
}
