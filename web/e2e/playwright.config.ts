import { defineConfig } from '@playwright/test';
import { chromiumPath, flags } from './support/chromium';

// Longer than any test on a busy machine: only a hang exceeds it.
const LIMIT_MS = 60_000;
const results = process.env.TEST_RESULTS; // `make test` counts the tests from there

export default defineConfig({
  testDir: 'tests',
  globalSetup: './support/services.ts',
  outputDir: '../../.cache/e2e',
  // Each worker has its own browser; the services are shared.
  workers: 2,
  fullyParallel: true,
  forbidOnly: true,
  timeout: 5 * LIMIT_MS,
  expect: { timeout: LIMIT_MS },
  reporter: [
    ['list', { printSteps: false }],
    ...(results ? [['junit', { outputFile: `${results}/e2e.xml` }] as const] : []),
  ],
  use: {
    browserName: 'chromium',
    launchOptions: { executablePath: chromiumPath(), args: [...flags], timeout: 2 * LIMIT_MS },
    actionTimeout: LIMIT_MS,
    navigationTimeout: LIMIT_MS,
    locale: 'en-GB',
    timezoneId: 'UTC',
    // axe would check a colour during its transition.
    contextOptions: { reducedMotion: 'reduce' },
    viewport: { width: 1000, height: 640 },
    // A trace costs as much as the page itself: E2E_TRACE=1 enables it for debugging.
    trace: process.env.E2E_TRACE ? 'retain-on-failure' : 'off',
  },
});
