import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { expect, type Page } from '@playwright/test';
import type axe from 'axe-core';

const SOURCE = readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf-8');
const COUNTS = new Set(['serious', 'critical']);
/** The rules about colours. All others have the same result in dark mode. */
const COLOUR_RULES = ['color-contrast', 'link-in-text-block'];

/** Asserts that axe finds no serious violation in the page, or in its part `within`, light and dark. */
export async function expectAccessible(
  page: Page,
  { within = 'html' }: { within?: string } = {},
): Promise<void> {
  await page.emulateMedia({ colorScheme: 'dark' });
  expect(await violationsIn(page, within, { runOnly: COLOUR_RULES }), `${page.url()} in dark`).toEqual([]);
  await page.emulateMedia({ colorScheme: 'light' });
  expect(await violationsIn(page, within), `${page.url()} in light`).toEqual([]);
}

async function violationsIn(page: Page, within: string, options: axe.RunOptions = {}): Promise<string[]> {
  // Not by a script element: the page's content security policy would refuse it.
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(await SOURCE);
  const { violations } = await page.evaluate(
    async ([selected, more]) => {
      const { run } = (window as unknown as { axe: typeof axe }).axe;
      return await run(selected, { resultTypes: ['violations'], ...more });
    },
    [within, options] as const,
  );
  return violations
    .filter(({ impact }) => COUNTS.has(impact ?? ''))
    .flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html} ${node.failureSummary}`));
}
