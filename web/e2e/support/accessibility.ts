import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { expect, type Page } from '@playwright/test';
import type axe from 'axe-core';

const SOURCE = readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf-8');
const COUNTS = new Set(['serious', 'critical']);

/** axe finds nothing serious in the page, or in the part of it that `within` selects, light and dark. */
export async function expectAccessible(
  page: Page,
  { within = 'html' }: { within?: string } = {},
): Promise<void> {
  for (const colorScheme of ['dark', 'light'] as const) {
    await page.emulateMedia({ colorScheme });
    expect(await violationsIn(page, within), `${page.url()} in ${colorScheme}`).toEqual([]);
  }
}

async function violationsIn(page: Page, within: string): Promise<string[]> {
  // Not by a script element: the page's policy would refuse it.
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(await SOURCE);
  const { violations } = await page.evaluate(async (selected) => {
    const { run } = (window as unknown as { axe: typeof axe }).axe;
    return await run(selected, { resultTypes: ['violations'] });
  }, within);
  return violations
    .filter(({ impact }) => COUNTS.has(impact ?? ''))
    .flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html} ${node.failureSummary}`));
}
