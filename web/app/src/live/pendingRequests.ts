import type { Transport } from '@leasehold/react';

/** A transport with a count of its pending requests. */
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
      // An answer may cause further requests, which count too.
      while (underWay.size > 0) await Promise.allSettled(underWay);
    },
  };
}
