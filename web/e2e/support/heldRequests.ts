import type { Page } from '@playwright/test';

interface HeldRequests {
  /** Resolves when the page has sent such a request. */
  readonly asked: Promise<void>;
  /** Lets it and everything after it go on to the server. */
  readonly letThrough: () => void;
}

/** Holds back requests of a page until `letThrough`. */
export async function holdRequests(page: Page, method: string, path: RegExp): Promise<HeldRequests> {
  const asked = signal();
  const opened = signal();
  await page.route(path, async (route) => {
    if (route.request().method() === method) {
      asked.send();
      await opened.sent;
    }
    // The page may have cancelled the request or closed in the meantime.
    await route.continue().catch(() => undefined);
  });
  return { asked: asked.sent, letThrough: opened.send };
}

function signal(): { sent: Promise<void>; send: () => void } {
  let send = () => {};
  const sent = new Promise<void>((resolve) => {
    send = resolve;
  });
  return { sent, send };
}
