import { expect, it } from 'vitest';
// @ts-expect-error a script without types
import { sourcesOf, trees, violationsOf } from '../../../scripts/layers.mjs';

const { react } = trees;

it('the modules of the package keep to their layers', () => {
  expect(violationsOf(sourcesOf(react.root), react)).toEqual([]);
});

it.each([
  ['editing/machine/planted.ts', "import { restService } from '../effects/restService';"],
  ['editing/view/planted.ts', "import type { Ports } from '../effects/runner';"],
  ['editing/terms/planted.ts', "import type { State } from '../machine/state';"],
  ['editing/machine/planted.ts', "import { useState } from 'react';"],
  ['live/planted.ts', "export type { Draft } from '../drafts/draft';"],
  ['protocol/planted.ts', "import { fetchTransport } from '../transport/fetchTransport';"],
  ['unheard/planted.ts', "import { isLock } from '../protocol/rest';"],
])('a violation in %s is found: %s', (file, text) => {
  expect(violationsOf({ ...sourcesOf(react.root), [file]: text }, react)).toEqual([
    expect.stringContaining(file),
  ]);
});
