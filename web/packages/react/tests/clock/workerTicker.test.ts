import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { workerTicker } from '../../src';

class ScriptedWorker {
  static made: ScriptedWorker[] = [];
  onmessage: (() => void) | null = null;
  onerror: (() => void) | null = null;
  isTerminated = false;
  readonly url: string;

  constructor(url: string) {
    this.url = url;
    ScriptedWorker.made.push(this);
  }
  terminate(): void {
    this.isTerminated = true;
  }
}

beforeEach(() => {
  vi.useFakeTimers();
  ScriptedWorker.made = [];
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

test('ticks come from a Worker, independent of the page’s timers', () => {
  vi.stubGlobal('Worker', ScriptedWorker);
  let ticks = 0;
  const stop = workerTicker().start(() => {
    ticks += 1;
  });
  const [worker] = ScriptedWorker.made;
  expect(worker?.url).toMatch(/^blob:/);
  vi.advanceTimersByTime(60_000);
  expect(ticks).toBe(0);
  worker?.onmessage?.();
  expect(ticks).toBe(1);
  stop();
  expect(worker?.isTerminated).toBe(true);
});

test('without a Worker the page’s own timers tick', () => {
  const refused = () => {
    throw new DOMException('refused', 'SecurityError');
  };
  let ticks = 0;
  const stop = workerTicker(refused).start(() => {
    ticks += 1;
  });
  vi.advanceTimersByTime(3_000);
  expect(ticks).toBe(3);
  stop();
  vi.advanceTimersByTime(3_000);
  expect(ticks).toBe(3);
});

test('a Worker that is refused after its construction is replaced by the page’s timers too', () => {
  vi.stubGlobal('Worker', ScriptedWorker);
  let ticks = 0;
  const stop = workerTicker().start(() => {
    ticks += 1;
  });
  const [worker] = ScriptedWorker.made;
  worker?.onerror?.();
  vi.advanceTimersByTime(3_000);
  expect(ticks).toBe(3);
  expect(worker?.isTerminated).toBe(true);
  stop();
  vi.advanceTimersByTime(3_000);
  expect(ticks).toBe(3);
});
