import { connectLive, fetchTransport, workerTicker } from '@leasehold/react';
import TickerWorker from '@leasehold/react/ticker.worker?worker';
import type { LockClient } from './context';
import { trackPending } from './pendingRequests';

/** Provides access tokens, and renews an expired one. */
interface Tokens {
  accessToken(): string | Promise<string>;
  renew(): Promise<string>;
}

/** One socket and one transport for all documents of one user in this page. */
export function openLockClient(tokens: Tokens): LockClient {
  return {
    live: connectLive({ url: '/ws', credentials: async () => ({ token: await tokens.accessToken() }) }),
    ...trackPending(
      fetchTransport({
        token: () => tokens.accessToken(),
        onUnauthorized: () =>
          tokens.renew().then(
            () => true,
            () => false,
          ),
      }),
    ),
    // From a file: the page's content security policy refuses a Worker that is made from a Blob.
    ticker: workerTicker(() => new TickerWorker()),
  };
}
