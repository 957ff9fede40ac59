import { defineConfig } from 'vitest/config';

/** All workspaces in one run: a start of Vite takes longer than most of the tests. */
const results = process.env.TEST_RESULTS; // `make test` counts the tests from there

export default defineConfig({
  test: {
    projects: ['packages/react', 'app'],
    reporters: results ? ['default', ['junit', { outputFile: `${results}/vitest.xml` }]] : ['default'],
  },
});
