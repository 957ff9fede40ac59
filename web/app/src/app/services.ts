import { pageTab } from '@leasehold/react';
import { QueryClient } from '@tanstack/react-query';
import { browserPorts } from '../api/browserPorts';
import { Client } from '../api/client';
import { Session } from '../api/login';
import { Problem } from '../api/problem';
import type { Lines } from '../live/context';
import { openLines } from '../live/lockClient';

/** Everything that lives as long as the page, made once. */
export class Services {
  readonly session: Session = new Session(browserPorts((news) => this.session.hear(news)));
  readonly client = new Client(this.session, pageTab);
  readonly queries = new QueryClient({
    defaultOptions: {
      queries: { retry: (failures, error) => !(error instanceof Problem) && failures < 3, staleTime: 5_000 },
    },
  });
  #lines: Lines | null = null;

  constructor() {
    // What one person has seen is not for the next one.
    this.session.subscribe(() => {
      if (this.session.state.phase === 'in') return;
      this.#lines?.live.close();
      this.#lines = null;
      this.queries.clear();
    });
  }

  /** For whoever is signed in. */
  get lines(): Lines {
    this.#lines ??= openLines(this.session);
    return this.#lines;
  }
}
