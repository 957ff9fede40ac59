import react from '@vitejs/plugin-react';
import { defineConfig } from 'vitest/config';

const server = process.env.LEASEHOLD_URL ?? 'http://127.0.0.1:8000';

export default defineConfig({
  plugins: [react()],
  resolve: { conditions: ['source', 'module', 'browser', 'development|production'] },
  // The Python server and the wheel take the page from there.
  build: {
    outDir: '../../src/leasehold/server/page',
    emptyOutDir: true,
    target: 'es2022',
    manifest: true,
    // The page's content security policy allows its own files only, and no `data:` or `blob:` scripts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  worker: { format: 'es' },
  server: { proxy: { '/api': server, '/ws': { target: server, ws: true, rewriteWsOrigin: true } } },
  test: {
    environment: 'happy-dom',
    include: ['tests/**/*.test.{ts,tsx}'],
    sequence: { shuffle: true },
    // Every test cleans up after itself; a new environment for each file would take most of the time.
    isolate: false,
    testTimeout: 60_000,
    restoreMocks: true,
  },
});
