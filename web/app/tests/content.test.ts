import { describe, expect, it } from 'vitest';
import { editable, isForeign, newBlocks } from '../src/features/editing/content';

const paragraph = (text: string) => ({ type: 'paragraph', content: [{ type: 'text', text }] });
const doc = (...lines: string[]) => ({ type: 'doc', content: lines.map(paragraph) });

describe('content in the editor', () => {
  it('is a paragraph for each line of a text', () => {
    expect(editable('one\n\ntwo')).toEqual({
      type: 'doc',
      content: [paragraph('one'), { type: 'paragraph' }, paragraph('two')],
    });
  });

  it('is an empty paragraph where nothing was written yet', () => {
    expect(editable('')).toEqual({ type: 'doc', content: [{ type: 'paragraph' }] });
  });

  it('is left as it is if an editor has made it', () => {
    expect(editable(doc('one'))).toEqual(doc('one'));
  });

  it('is foreign if a program has made it', () => {
    expect([isForeign('text'), isForeign(doc('a')), isForeign({ amount: 3 })]).toEqual([false, false, true]);
  });
});

describe('what is new in a draft', () => {
  it('is each block that the document has not', () => {
    expect(newBlocks(doc('one', 'two, longer', 'three'), doc('one', 'two', 'three'))).toEqual([
      paragraph('two, longer'),
    ]);
  });

  it('is nothing if the document has all of it', () => {
    expect(newBlocks('one\ntwo', doc('two', 'one', 'more'))).toEqual([]);
  });
});
