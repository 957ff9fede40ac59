import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
export const BIN = join(ROOT, '.venv', 'bin');

/** Seconds. */
export interface ServiceTimes {
  readonly ttl: number;
  readonly heartbeat: number;
  readonly idle: number;
  /** For whoever is taken over, to save. */
  readonly saveWithin?: number;
}

export interface Service {
  readonly address: string;
  readonly database: string;
  readonly times: ServiceTimes;
  stop(): Promise<void>;
}

/**
 * The real server with its demo team, on a free port of loopback and with data of its own. It answers when this returns.
 *
 * `pageDir` is a built page that stands in for the product's.
 */
export async function startService(
  times: ServiceTimes,
  { pageDir }: { pageDir?: string } = {},
): Promise<Service> {
  const directory = await mkdtemp(join(tmpdir(), 'lh-e2e-'));
  const server = spawn(
    join(BIN, 'leasehold'),
    ['serve', '--demo', '--json', '--port', '0', '--data-dir', directory],
    { env: { ...process.env, ...settings(times, pageDir) }, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  const said: string[] = [];
  server.stderr.on('data', (chunk) => said.push(String(chunk)));
  const address = await addressOf(server, said);
  return {
    address,
    database: join(directory, 'documents.sqlite'),
    times,
    async stop() {
      if (server.exitCode === null && server.kill('SIGTERM')) await once(server, 'exit');
      // The embedded store outlives its last client by two seconds, and may still be writing.
      await rm(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 250 });
    },
  };
}

function settings(
  { ttl, heartbeat, idle, saveWithin }: ServiceTimes,
  pageDir?: string,
): Record<string, string> {
  return {
    LEASEHOLD_DOCUMENT_TTL: String(ttl),
    LEASEHOLD_DOCUMENT_HEARTBEAT: String(heartbeat),
    LEASEHOLD_DOCUMENT_IDLE: String(idle),
    ...(saveWithin !== undefined && { LEASEHOLD_DOCUMENT_SAVE_WITHIN: String(saveWithin) }),
    // One address signs in for everybody, over and over.
    LEASEHOLD_RATE_SIGN_IN: 'off',
    LEASEHOLD_ARGON2_TIME_COST: '1',
    LEASEHOLD_ARGON2_MEMORY_KIB: '64',
    LEASEHOLD_LOG_LEVEL: 'warning',
    ...(pageDir !== undefined && { LEASEHOLD_PAGE_DIR: pageDir }),
  };
}

async function addressOf(
  server: ChildProcess & { stdout: NodeJS.ReadableStream },
  said: string[],
): Promise<string> {
  for await (const line of createInterface({ input: server.stdout })) return JSON.parse(line).address;
  throw new Error(`The server did not start: ${said.join('')}`);
}
