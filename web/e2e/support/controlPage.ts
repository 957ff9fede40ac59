import { execFile } from 'node:child_process';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const VITE = fileURLToPath(new URL('../../node_modules/vite/bin/vite.js', import.meta.url));
const CONFIG = fileURLToPath(new URL('../control/vite.config.ts', import.meta.url));

/** Builds the page of `control`, for a service to serve. Returns where it is; whoever asked removes it. */
export async function buildControlPage(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'lh-control-'));
  await promisify(execFile)(process.execPath, [VITE, 'build', '--config', CONFIG, '--outDir', directory]);
  return directory;
}
