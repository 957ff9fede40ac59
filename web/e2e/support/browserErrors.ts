import type { BrowserContext } from '@playwright/test';

// Refusals and lost connections are what many tests are about, and the browser reports each.
const EXPECTED = /Failed to load resource|WebSocket connection to|net::ERR_/;

/** Tells of exceptions that nobody caught, and of what the browser has to complain about: its policies, above all. */
export function watchForTrouble(context: BrowserContext, tell: (trouble: string) => void): void {
  context.on('weberror', (error) => tell(String(error.error())));
  context.on('console', (message) => {
    if (message.type() === 'error' && !EXPECTED.test(message.text())) tell(message.text());
  });
}
