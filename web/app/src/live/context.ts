import type { Live, Ticker, Transport } from '@leasehold/react';
import { createContext, useContext } from 'react';

/** The connections for watching and editing documents. */
export interface LockClient {
  readonly live: Live;
  readonly transport: Transport;
  readonly ticker: Ticker;
  /** Resolves when every pending request is answered or has failed. */
  settled(): Promise<void>;
}

export const LockClientContext = createContext<LockClient | null>(null);

export function useLockClient(): LockClient {
  const lockClient = useContext(LockClientContext);
  if (lockClient === null) throw new Error('outside of LockClientContext');
  return lockClient;
}
