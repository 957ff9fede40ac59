import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
export const BIN = join(ROOT, '.venv', 'bin');

// Only a hang takes longer, also on a busy machine.
const LIMIT_MS = 120_000;

/** Seconds. */
export interface ServiceTimes {
  readonly ttl: number;
  readonly heartbeat: number;
  readonly idle: number;
  /** The time in which a holder can save before a take-over. */
  readonly saveWithin: number;
}

export interface Service {
  readonly address: string;
  readonly database: string;
  /** The file with its stderr. */
  readonly log: string;
  readonly times: ServiceTimes;
}

export interface RunningService extends Service {
  /** Ends the server and its store, and removes their data. */
  stop(): Promise<void>;
}

/**
 * Starts the real server with its demo team, on a free loopback port and with its own data. Resolves once it answers.
 *
 * `pageDir` is a built page that replaces the product's.
 */
export async function startService(
  times: ServiceTimes,
  { pageDir }: { pageDir?: string } = {},
): Promise<RunningService> {
  const directory = await mkdtemp(join(tmpdir(), 'service-'));
  const log = join(directory, 'stderr.log');
  const logFile = await open(log, 'w');
  const server = spawn(
    join(BIN, 'leasehold'),
    ['serve', '--demo', '--json', '--port', '0', '--data-dir', directory],
    { env: { ...process.env, ...settings(times, pageDir) }, stdio: ['ignore', 'pipe', logFile.fd] },
  );
  await logFile.close();
  const killWithUs = () => server.kill('SIGTERM');
  process.once('exit', killWithUs);
  const stop = async () => {
    await end(server);
    process.off('exit', killWithUs);
    await storeEnded(directory);
    await rm(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 250 });
  };
  try {
    const address = await addressOf(server);
    return { address, database: join(directory, 'documents.sqlite'), log, times, stop };
  } catch (error) {
    const logged = await readFile(log, 'utf-8');
    await stop();
    throw new Error(`The server did not start: ${logged}`, { cause: error });
  }
}

function settings(
  { ttl, heartbeat, idle, saveWithin }: ServiceTimes,
  pageDir?: string,
): Record<string, string> {
  return {
    LEASEHOLD_DOCUMENT_TTL: String(ttl),
    LEASEHOLD_DOCUMENT_HEARTBEAT: String(heartbeat),
    LEASEHOLD_DOCUMENT_IDLE: String(idle),
    LEASEHOLD_DOCUMENT_SAVE_WITHIN: String(saveWithin),
    // A store that gets no processor for some seconds has not failed.
    LEASEHOLD_TIMEOUT: '30',
    // All logins come from one address.
    LEASEHOLD_RATE_SIGN_IN: 'off',
    LEASEHOLD_ARGON2_TIME_COST: '1',
    LEASEHOLD_ARGON2_MEMORY_KIB: '64',
    LEASEHOLD_LOG_LEVEL: 'warning',
    ...(pageDir !== undefined && { LEASEHOLD_PAGE_DIR: pageDir }),
  };
}

async function addressOf(server: ChildProcess): Promise<string> {
  if (!server.stdout) throw new Error('Its stdout is not read');
  const limit = setTimeout(() => server.kill('SIGKILL'), LIMIT_MS);
  try {
    for await (const line of createInterface({ input: server.stdout })) return JSON.parse(line).address;
  } finally {
    clearTimeout(limit);
  }
  throw new Error('It ended before it had an address');
}

async function end(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return;
  const limit = setTimeout(() => server.kill('SIGKILL'), LIMIT_MS);
  server.kill('SIGTERM');
  await once(server, 'exit');
  clearTimeout(limit);
}

/** The embedded store outlives its last client by some seconds, and removes its socket at its end. */
async function storeEnded(directory: string): Promise<void> {
  const until = Date.now() + LIMIT_MS;
  while (existsSync(join(directory, 'server.sock')) && Date.now() < until) await sleep(100);
}
