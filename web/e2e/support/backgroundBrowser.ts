import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type BrowserContext, chromium, expect, type Page } from '@playwright/test';
import { chromiumPath, flags } from './chromium';

/** After this time timers of a hidden page fire once a minute. The default of browsers is five minutes. */
export const GRACE_SECONDS = 5;

export interface BackgroundBrowser {
  readonly context: BrowserContext;
  stop(): Promise<void>;
}

/**
 * A browser whose tabs can be hidden: Playwright keeps every page focused in a browser that it has started, and none in a
 * browser that it is only connected to.
 */
export async function startBackgroundBrowser(): Promise<BackgroundBrowser> {
  const profile = await mkdtemp(join(tmpdir(), 'lh-browser-'));
  const throttling = `--enable-features=IntensiveWakeUpThrottling:grace_period_seconds/${GRACE_SECONDS}`;
  const started = spawn(
    chromiumPath(),
    ['--headless', '--remote-debugging-port=0', `--user-data-dir=${profile}`, throttling, ...flags],
    // It leaves files in its temporary directory at its end.
    { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, TMPDIR: profile } },
  );
  const killWithUs = () => started.kill('SIGKILL');
  process.once('exit', killWithUs);
  const endpoint = await endpointOf(started.stderr);
  started.stderr.resume();
  const browser = await chromium.connectOverCDP(endpoint, { noDefaults: true });
  const [context] = browser.contexts();
  if (!context) throw new Error('The browser has no default context');
  return {
    context,
    async stop() {
      await browser.close();
      if (started.exitCode === null && started.kill('SIGTERM')) await once(started, 'exit');
      process.off('exit', killWithUs);
      await rm(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 250 });
    },
  };
}

/** Opens another tab in front of these, and returns when they are hidden. */
export async function hide(...pages: readonly Page[]): Promise<void> {
  const front = await pages[0]?.context().newPage();
  await front?.bringToFront();
  for (const page of pages) {
    await expect.poll(() => page.evaluate(() => document.visibilityState)).toBe('hidden');
  }
}

async function endpointOf(stderr: NodeJS.ReadableStream): Promise<string> {
  const lines = createInterface({ input: stderr });
  for await (const line of lines) {
    const found = /DevTools listening on (ws:\S+)/.exec(line)?.[1];
    if (found) return found;
  }
  throw new Error('The browser did not start');
}
