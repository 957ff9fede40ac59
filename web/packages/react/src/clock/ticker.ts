/** Ticks about once a second, also in a hidden page. */
export interface Ticker {
  /** Calls `tick` until the returned function is called. */
  start(tick: () => void): () => void;
}
