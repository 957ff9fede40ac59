import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildControlPage } from './controlPage';
import { ROOT, type RunningService, type Service, type ServiceTimes, startService } from './service';

/** How long the lock of a closed page lasts. */
export type Holds = 'long' | 'short';

const TIMES: Readonly<Record<Holds, ServiceTimes>> = {
  // Nothing expires during a test, also on a slow machine.
  long: { ttl: 120, heartbeat: 5, idle: 300, saveWithin: 60 },
  // For tests that wait for an expiry. A browser that gets no processor for some seconds still keeps its lock.
  short: { ttl: 10, heartbeat: 2, idle: 300, saveWithin: 3 },
};
const VARIABLE = 'E2E_SERVICES';

/** One of the services that all tests share. Each test has its own documents; the users are shared. */
export function sharedService(holds: Holds): Service {
  const services = process.env[VARIABLE];
  if (services === undefined) throw new Error('The services are started before all tests');
  return JSON.parse(services)[holds];
}

/**
 * Starts the services before the first test. Returns a function that stops them.
 *
 * All files of the tests and their browsers are in one temporary directory, which is removed at the end.
 */
export default async function startServices(): Promise<() => Promise<void>> {
  const scratch = await mkdtemp(join(tmpdir(), 'lh-e2e-'));
  // The processes that run the tests are started later, and inherit both variables.
  process.env.TMPDIR = scratch;
  const starts = await Promise.allSettled([startService(TIMES.long), startWithControlPage(scratch)]);
  const running = starts.filter((start) => start.status === 'fulfilled').map(({ value }) => value);
  const stopAll = async () => {
    await Promise.all(running.map((service) => service.stop()));
    await rm(scratch, { recursive: true, force: true, maxRetries: 20, retryDelay: 250 });
  };
  const failed = starts.find((start) => start.status === 'rejected');
  if (failed) {
    await stopAll();
    throw failed.reason;
  }
  const [long, short] = running;
  process.env[VARIABLE] = JSON.stringify({ long, short });
  return stopAll;
}

/** Serves the product's page and the control page. */
async function startWithControlPage(scratch: string): Promise<RunningService> {
  const pageDir = join(scratch, 'page');
  await cp(join(ROOT, 'src', 'leasehold', 'server', 'page'), pageDir, { recursive: true });
  await buildControlPage(join(pageDir, 'control'));
  return await startService(TIMES.short, { pageDir });
}
