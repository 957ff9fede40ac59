import { defineConfig } from '@playwright/test';
import { chromiumPath, flags } from './support/chromium';
import type { ServiceOptions } from './support/test';

export default defineConfig<object, ServiceOptions>({
  testDir: 'tests',
  globalSetup: './support/controlPage.ts',
  outputDir: '../../.cache/e2e',
  // Each has a browser and a service of its own.
  workers: 2,
  fullyParallel: true,
  forbidOnly: true,
  timeout: 90_000,
  expect: { timeout: 25_000 },
  reporter: [['list', { printSteps: false }]],
  use: {
    browserName: 'chromium',
    launchOptions: { executablePath: chromiumPath(), args: [...flags] },
    actionTimeout: 25_000,
    navigationTimeout: 25_000,
    locale: 'en-GB',
    timezoneId: 'UTC',
    // A colour on its way to another one would be judged by axe.
    contextOptions: { reducedMotion: 'reduce' },
    viewport: { width: 1000, height: 640 },
    // A trace costs as much as the page itself: E2E_TRACE=1 for whoever looks for a cause.
    trace: process.env.E2E_TRACE ? 'retain-on-failure' : 'off',
  },
});
