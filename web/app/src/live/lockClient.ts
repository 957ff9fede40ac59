import { connectLive, fetchTransport, workerTicker } from '@leasehold/react';
import type { Lines } from './context';
import { counted } from './pendingRequests';

/** Gives access tokens, and renews one that the server does not take any more. */
interface Tokens {
  accessToken(): string | Promise<string>;
  renew(): Promise<string>;
}

/** One socket and one transport for everything that one person does in this page. */
export function openLines(tokens: Tokens): Lines {
  return {
    live: connectLive({ url: '/ws', credentials: async () => ({ token: await tokens.accessToken() }) }),
    ...counted(
      fetchTransport({
        token: () => tokens.accessToken(),
        onUnauthorized: () =>
          tokens.renew().then(
            () => true,
            () => false,
          ),
      }),
    ),
    // From a file of our own: the page's policy has no room for Workers that are made from a Blob.
    ticker: workerTicker(
      () =>
        new Worker(new URL('../../../packages/react/src/clock/ticker.worker.ts', import.meta.url), {
          type: 'module',
        }),
    ),
  };
}
