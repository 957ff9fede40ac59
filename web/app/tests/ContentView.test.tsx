import { cleanup, render } from '@testing-library/react';
import { afterEach, expect, it } from 'vitest';
import { ContentView } from '../src/ui/ContentView';

afterEach(cleanup);

function shown(...content: readonly unknown[]): string {
  return render(<ContentView content={{ type: 'doc', content }} />).container.innerHTML;
}

const text = (marks: unknown) => ({ type: 'paragraph', content: [{ type: 'text', text: 'word', marks }] });

it('shows the marks that it knows', () => {
  expect(shown(text([{ type: 'bold' }, { type: 'italic' }]))).toContain('<strong><em>word</em></strong>');
});

it.each(['constructor', 'toString', '__proto__', 'hasOwnProperty', 'blink', 5, null, {}])(
  'shows the text under a mark of the type %s without it',
  (type) => {
    expect(shown(text([{ type }]))).toContain('<p>word</p>');
  },
);

it.each([
  ['no list of marks', text({ length: 1 })],
  ['marks that are no objects', text([null, 'bold', 5])],
  ['a text that is no string', { type: 'paragraph', content: [{ type: 'text', text: { toString: 1 } }] }],
  ['no list of children', { type: 'paragraph', content: 'children' }],
  ['children that are no objects', { type: 'bulletList', content: [null, 'x', 5] }],
  ['a node that is null', null],
  ['attributes that are null', { type: 'heading', attrs: null, content: [] }],
])('shows the rest of a content with %s', (_, strange) => {
  expect(shown(strange, { type: 'paragraph', content: [{ type: 'text', text: 'the rest' }] })).toContain(
    'the rest',
  );
});
