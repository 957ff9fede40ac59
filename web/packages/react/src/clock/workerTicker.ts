import type { Ticker } from './ticker';

const EVERY_MS = 1_000;
const SOURCE = `setInterval(() => postMessage(0), ${EVERY_MS});`;

/** Ticks of the page's own timers. Browsers reduce them to one a minute while the page is hidden. */
export function pageTicker(): Ticker {
  return {
    start(tick) {
      const timer = setInterval(tick, EVERY_MS);
      return () => clearInterval(timer);
    },
  };
}

/**
 * Ticks of a Worker, which is not slowed down with the page; of the page's own timers where a Worker is not available.
 *
 * The Worker is made from a Blob, so that bundlers need no configuration. A content security policy without
 * `worker-src blob:` refuses that: then `make` can return one from a file.
 */
export function workerTicker(make: () => Worker = workerFromBlob): Ticker {
  return {
    start(tick) {
      let stop: () => void;
      const fallBack = () => {
        stop = pageTicker().start(tick);
      };
      try {
        const worker = make();
        stop = () => worker.terminate();
        worker.onmessage = tick;
        // For a refused Worker some browsers throw, others report here.
        worker.onerror = () => {
          worker.onerror = null;
          worker.terminate();
          fallBack();
        };
      } catch {
        fallBack();
      }
      return () => stop();
    },
  };
}

function workerFromBlob(): Worker {
  const url = URL.createObjectURL(new Blob([SOURCE], { type: 'text/javascript' }));
  try {
    return new Worker(url);
  } finally {
    // After this task: a browser may not have started to read it yet.
    setTimeout(() => URL.revokeObjectURL(url), EVERY_MS);
  }
}
