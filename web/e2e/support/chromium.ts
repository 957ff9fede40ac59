import { existsSync } from 'node:fs';

// Each window would have a page for the suggestions of its address bar, another for those of a search engine, and a process
// in reserve: two thirds of the processes, and of a page's start half.
const UNUSED = [
  'WebUIOmniboxPopup',
  'WebUIOmniboxAimPopup',
  'WebUIOmniboxFullPopup',
  'SpareRendererForSitePerProcess',
];
// What Playwright switches off itself. Of two such flags the browser reads the last, which is ours.
const BY_PLAYWRIGHT = [
  'AvoidUnnecessaryBeforeUnloadCheckSync',
  'DestroyProfileOnBrowserClose',
  'HttpsUpgrades',
  'HttpsFirstBalancedModeAutoEnable',
  'LensOverlay',
  'MediaRouter',
  'PaintHolding',
  'ThirdPartyStoragePartitioning',
  'AvoidCorsURLLoaderRestartOnRedirect',
  'OptimizationHints',
  'NetworkTimeServiceQuerying',
  'AimEnabled',
  'PreconnectToSearch',
];

/** For a browser without a display, as root, that asks nobody for anything. */
export const flags = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
  `--disable-features=${[...UNUSED, ...BY_PLAYWRIGHT].join()}`,
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
    throw new Error('There is no Chromium. `make system` installs it; CHROMIUM names one that is elsewhere.');
  return found;
}
