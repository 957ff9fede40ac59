import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const VITE = fileURLToPath(new URL('../../node_modules/vite/bin/vite.js', import.meta.url));
const CONFIG = fileURLToPath(new URL('../control/vite.config.ts', import.meta.url));

/** The path of the control page, which a service serves in `control`. */
export const CONTROL_PATH = '/control/index.html';

export async function buildControlPage(directory: string): Promise<void> {
  await promisify(execFile)(process.execPath, [VITE, 'build', '--config', CONFIG, '--outDir', directory]);
}
