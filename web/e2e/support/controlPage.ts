import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const VITE = fileURLToPath(new URL('../../node_modules/vite/bin/vite.js', import.meta.url));
const CONFIG = fileURLToPath(new URL('../control/vite.config.ts', import.meta.url));
const VARIABLE = 'E2E_CONTROL_PAGE';

/** Where the page of `control` is, for a service to serve. */
export function controlPage(): string {
  const directory = process.env[VARIABLE];
  if (directory === undefined) throw new Error('The page of `control` is built before all tests');
  return directory;
}

/** Builds that page before the first test, since building takes the time of a whole hold. Returns what removes it again. */
export default async function buildControlPage(): Promise<() => Promise<void>> {
  const directory = await mkdtemp(join(tmpdir(), 'lh-control-'));
  await promisify(execFile)(process.execPath, [VITE, 'build', '--config', CONFIG, '--outDir', directory]);
  // The processes that run the tests are started later, and inherit it.
  process.env[VARIABLE] = directory;
  return () => rm(directory, { recursive: true, force: true });
}
