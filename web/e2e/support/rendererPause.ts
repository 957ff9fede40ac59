import type { Browser } from '@playwright/test';

/** Stops every page of a browser, with its Workers, as a laptop that sleeps does. Returns how to let them go on. */
export async function stopRenderers(browser: Browser): Promise<() => void> {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  const renderers = processInfo.filter(({ type }) => type === 'renderer').map(({ id }) => id);
  if (renderers.length === 0) throw new Error('The browser has no pages');
  for (const pid of renderers) process.kill(pid, 'SIGSTOP');
  return () => {
    for (const pid of renderers) process.kill(pid, 'SIGCONT');
  };
}
