import { existsSync } from 'node:fs';

/** For a browser without a display, as root, that asks nobody for anything. */
export const flags = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
] as const;

/** The system's Chromium; `CHROMIUM` names another one. */
export function chromiumPath(): string {
  const places = [
    process.env.CHROMIUM,
    '/usr/bin/chromium',
    '/usr/bin/chromium-browser',
    '/usr/bin/google-chrome',
  ];
  const found = places.find((place) => place !== undefined && existsSync(place));
  if (!found)
    throw new Error(
      'There is no Chromium. `make system` installs it; CHROMIUM names one that is elsewhere.',
    );
  return found;
}
