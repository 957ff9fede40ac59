import 'fake-indexeddb/auto';
import { cleanup } from '@testing-library/react';
import { afterEach, beforeEach, vi } from 'vitest';
import { pageReleases } from '../src/editing/effects/pendingReleases';

// `act` is used: without this React warns at every update.
(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

beforeEach(() => {
  // React's warnings: an update outside of `act`, a missing key, a wrong attribute.
  vi.spyOn(console, 'error').mockImplementation((...logged) => {
    throw new Error(`console.error: ${logged.join(' ')}`);
  });
});

afterEach(() => {
  cleanup();
  // Each test has a page of its own.
  pageReleases.clear();
  document.body.replaceChildren();
});
