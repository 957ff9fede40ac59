import { defineConfig } from 'vitest/config';

/** All workspaces in one run: a start of Vite takes longer than most of the tests. */
export default defineConfig({ test: { projects: ['packages/react', 'app'] } });
