import type { Live, Ticker, Transport } from '@leasehold/react';
import { createContext, useContext } from 'react';

/** What documents are watched and edited through. */
export interface LockClient {
  readonly live: Live;
  readonly transport: Transport;
  readonly ticker: Ticker;
  /** Resolves when every request that is on its way is answered, or given up. */
  settled(): Promise<void>;
}

export const LockClientContext = createContext<LockClient | null>(null);

export function useLockClient(): LockClient {
  const lockClient = useContext(LockClientContext);
  if (lockClient === null) throw new Error('outside of LockClientContext');
  return lockClient;
}
