import type { Live, Ticker, Transport } from '@leasehold/react';
import { createContext, useContext } from 'react';

/** What documents are watched and edited through. */
export interface Lines {
  readonly live: Live;
  readonly transport: Transport;
  readonly ticker: Ticker;
  /** Resolves when every request that is on its way is answered, or given up. */
  settled(): Promise<void>;
}

export const LinesContext = createContext<Lines | null>(null);

export function useLines(): Lines {
  const lines = useContext(LinesContext);
  if (lines === null) throw new Error('outside of LinesContext');
  return lines;
}
