import type { Transport } from '@leasehold/react';

/** A transport that knows what is on its way. */
export function trackPending(transport: Transport): { transport: Transport; settled: () => Promise<void> } {
  const underWay = new Set<Promise<unknown>>();
  return {
    transport: {
      async send(request) {
        const sending = transport.send(request);
        underWay.add(sending);
        try {
          return await sending;
        } finally {
          underWay.delete(sending);
        }
      },
    },
    async settled() {
      // What an answer brings about counts, too.
      while (underWay.size > 0) await Promise.allSettled(underWay);
    },
  };
}
