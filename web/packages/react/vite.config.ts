import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  build: {
    lib: {
      entry: {
        index: fileURLToPath(new URL('src/index.ts', import.meta.url)),
        'ticker.worker': fileURLToPath(new URL('src/clock/ticker.worker.ts', import.meta.url)),
      },
      formats: ['es'],
    },
    rolldownOptions: { external: [/^react($|\/)/] },
    minify: false,
    sourcemap: true,
  },
  test: {
    environment: 'happy-dom',
    include: ['tests/**/*.test.{ts,tsx}'],
    setupFiles: ['tests/setup.ts'],
    sequence: { shuffle: true },
    // Every test cleans up after itself; a new environment for each file would take most of the time.
    isolate: false,
    testTimeout: 60_000,
    restoreMocks: true,
  },
});
