import { Worker } from 'node:worker_threads';

const BEAT_MS = 1_000;

/**
 * Ends this process if its main thread is stuck in a loop for longer than `limitMs`, and prints the stack. Its test fails then,
 * and the others continue. For a promise that never resolves the time limit of a test applies.
 */
export function startWatchdog(limitMs: number): () => Promise<void> {
  const beats = new Int32Array(new SharedArrayBuffer(4));
  const beating = setInterval(() => Atomics.add(beats, 0, 1), BEAT_MS);
  beating.unref();
  const watchdog = new Worker(new URL('./watchdog.worker.mjs', import.meta.url), {
    workerData: { beats, limitMs },
  });
  watchdog.unref();
  return async () => {
    clearInterval(beating);
    await watchdog.terminate();
  };
}
