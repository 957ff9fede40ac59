import type { BrowserContext, Page } from '@playwright/test';

// Longer timers, such as retries and time-outs, follow the page's clock.
const LONG_MS = 1_000;

interface PageClock {
  stop(): void;
  skip(ms: number): void;
  go(): void;
}

type Clocked = Window & { pageClock: PageClock };

/**
 * Adds clocks to the pages of a context that can be stopped and set forward, so that a later state of a page can be reached at
 * once, and inspected without a limit.
 *
 * While a clock is stopped, timers of a second and more do not fire. Shorter ones do, and so do a Worker's, which read no clock.
 */
export async function addClocks(context: BrowserContext): Promise<void> {
  await context.addInitScript(install, LONG_MS);
}

export async function stopClock(page: Page): Promise<void> {
  await page.evaluate(() => (window as unknown as Clocked).pageClock.stop());
}

export async function skip(page: Page, seconds: number): Promise<void> {
  await page.evaluate((ms) => (window as unknown as Clocked).pageClock.skip(ms), 1000 * seconds);
}

/** From where it stood. */
export async function startClock(page: Page): Promise<void> {
  await page.evaluate(() => (window as unknown as Clocked).pageClock.go());
}

function install(longMs: number): void {
  const wallNow = Date.now.bind(Date);
  const pageNow = performance.now.bind(performance);
  const setTimer = window.setTimeout.bind(window);
  const clearTimer = window.clearTimeout.bind(window);
  const overdue = new Map<number, () => void>();
  let aheadMs = 0;
  let stoppedAt: number | null = null;
  const stoodStillFor = () => (stoppedAt === null ? 0 : pageNow() - stoppedAt);
  Date.now = () => Math.round(wallNow() - stoodStillFor() + aheadMs);
  performance.now = () => pageNow() - stoodStillFor() + aheadMs;

  window.setTimeout = ((ring: (...given: unknown[]) => void, ms = 0, ...given: unknown[]) => {
    if (ms < longMs) return setTimer(ring, ms, ...given);
    const timer: number = setTimer(() => {
      if (stoppedAt === null) ring(...given);
      else overdue.set(timer, () => ring(...given));
    }, ms);
    return timer;
  }) as typeof window.setTimeout;
  window.clearTimeout = (timer) => {
    overdue.delete(Number(timer));
    clearTimer(timer);
  };

  (window as unknown as Clocked).pageClock = {
    stop() {
      stoppedAt ??= pageNow();
    },
    skip(ms) {
      aheadMs += ms;
    },
    go() {
      aheadMs -= stoodStillFor();
      stoppedAt = null;
      const rings = [...overdue.values()];
      overdue.clear();
      for (const ring of rings) ring();
    },
  };
}
