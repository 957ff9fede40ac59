import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { expect, type Page } from '@playwright/test';
import { expectAccessible } from './accessibility';
import { DocumentPage } from './documentPage';

const FOLDER = new URL('../screens/', import.meta.url);

interface ScreenOptions {
  /** The whole page, instead of what fits the window. */
  readonly whole?: boolean;
  /** A second picture, `…-dark`. */
  readonly dark?: boolean;
}

/**
 * Saves a screenshot of the page under `name`; on a document's page axe also checks the banner.
 *
 * Times and countdowns are replaced by fixed ones, so that a screenshot changes only with the page. If the state of the banner
 * changes during the screenshot, it is not saved, and the test fails.
 */
export async function screen(
  shown: DocumentPage | Page,
  name: string,
  { whole = false, dark = false }: ScreenOptions = {},
): Promise<void> {
  const page = shown instanceof DocumentPage ? shown.page : shown;
  // No element is hovered.
  await page.mouse.move(1, 1);
  await keep(page, name, whole);
  if (dark) {
    await page.emulateMedia({ colorScheme: 'dark' });
    await keep(page, `${name}-dark`, whole);
    await page.emulateMedia({ colorScheme: 'light' });
  }
  if (shown instanceof DocumentPage) await expectAccessible(page, { within: '.leasehold-banner' });
}

async function keep(page: Page, name: string, whole: boolean): Promise<void> {
  const status = await page.evaluate(statusOfBanner);
  let picture: Buffer;
  do {
    await page.evaluate(stillLife);
    picture = await page.screenshot({ fullPage: whole, animations: 'disabled', caret: 'hide' });
    // Repeated if the page has written a time during the screenshot.
  } while ((await page.evaluate(stillLife)) > 0);
  await page.evaluate(restoreTimes);
  expect(await page.evaluate(statusOfBanner), `the state that ${name} shows`).toBe(status);
  const path = fileURLToPath(new URL(`${name}.png`, FOLDER));
  const before = await readFile(path).catch(() => null);
  if (!before?.equals(picture)) await writeFile(path, picture);
}

function statusOfBanner(): string | null {
  return document.querySelector<HTMLElement>('.leasehold-banner')?.dataset.status ?? null;
}

/** Shows fixed times. Returns the number of other times. */
function stillLife(): number {
  scrollTo(0, 0);
  const view = window as unknown as { fixed?: Map<Text, { was: string; is: string }> };
  view.fixed ??= new Map();
  let found = 0;
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode() as Text | null; node; node = texts.nextNode() as Text | null) {
    const was = node.data;
    const is = was
      .replace(/\d\d:\d\d:\d\d/g, '10:31:07')
      .replace(/(?<!:)\b\d\d:\d\d\b(?!:)/g, '10:30')
      .replace(/^\d s$/, '4 s');
    if (is === was) continue;
    view.fixed.set(node, { was, is });
    node.data = is;
    found += 1;
  }
  return found;
}

function restoreTimes(): void {
  const view = window as unknown as { fixed?: Map<Text, { was: string; is: string }> };
  // A text that the page has changed since then is newer.
  for (const [node, { was, is }] of view.fixed ?? []) if (node.data === is) node.data = was;
  delete view.fixed;
}
