import type { BrowserContext } from '@playwright/test';

// Many tests cause refusals and lost connections, and the browser reports each.
const EXPECTED = /Failed to load resource|WebSocket connection to|net::ERR_/;

/** Reports uncaught exceptions and the browser's errors, such as violations of the content security policy. */
export function reportBrowserErrors(context: BrowserContext, report: (error: string) => void): void {
  context.on('weberror', (error) => report(String(error.error())));
  context.on('console', (message) => {
    if (message.type() === 'error' && !EXPECTED.test(message.text())) report(message.text());
  });
}
