import { expect, it } from 'vitest';
// @ts-expect-error a script without types
import { sourcesOf, trees, violationsOf } from '../../scripts/layers.mjs';

const { app } = trees;

it('the modules of the page keep to their layers', () => {
  expect(violationsOf(sourcesOf(app.root), app)).toEqual([]);
});

it.each([
  ['features/documents/planted.ts', "import { Services } from '../../app/services';"],
  ['features/history/planted.ts', "import type { x } from '../drafts/DraftPage';"],
  ['features/history/planted.ts', "import { Editor } from '@tiptap/react';"],
  ['live/planted.ts', "export { Login } from '../api/login';"],
  ['ui/planted.ts', "const client = import('../api/client');"],
  ['ui/planted.ts', "type Client = import('../api/client').Client;"],
  ['live/planted.ts', "new URL('../../../packages/react/src/clock/ticker.worker.ts', import.meta.url);"],
  ['live/planted.ts', "import { next } from '@leasehold/react/src/live/transition';"],
])('a violation in %s is found: %s', (file, text) => {
  expect(violationsOf({ ...sourcesOf(app.root), [file]: text }, app)).toEqual([
    expect.stringContaining(file),
  ]);
});

it('a comment and a string that look like imports are none', () => {
  const text = `// import '../api/client'\nexport const text = "import '../api/client'";`;
  expect(violationsOf({ 'ui/planted.ts': text }, app)).toEqual([]);
});
