import { existsSync } from 'node:fs';

// Otherwise each window has a page for the suggestions of its address bar, another for those of a search engine, and a spare
// process: two thirds of the processes, and half of a page's start.
const UNUSED = [
  'WebUIOmniboxPopup',
  'WebUIOmniboxAimPopup',
  'WebUIOmniboxFullPopup',
  'SpareRendererForSitePerProcess',
];
// The features that Playwright disables. The browser reads only the last such flag, which is this one.
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

/** For a browser without a display, as root, without requests of its own. */
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
