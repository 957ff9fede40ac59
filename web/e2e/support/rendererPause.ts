import type { Browser } from '@playwright/test';

/** Stops every page of a browser with its Workers, like a sleeping laptop. Returns a function that resumes them. */
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
