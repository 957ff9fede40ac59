import { describe, expect, it } from 'vitest';
import { editable, isForeign, newBlocks } from '../src/features/editing/content';

const paragraph = (text: string) => ({ type: 'paragraph', content: [{ type: 'text', text }] });
const doc = (...lines: string[]) => ({ type: 'doc', content: lines.map(paragraph) });

describe('content in the editor', () => {
  it('has a paragraph for each line of a text', () => {
    expect(editable('one\n\ntwo')).toEqual({
      type: 'doc',
      content: [paragraph('one'), { type: 'paragraph' }, paragraph('two')],
    });
  });

  it('is an empty paragraph for an empty text', () => {
    expect(editable('')).toEqual({ type: 'doc', content: [{ type: 'paragraph' }] });
  });

  it('is unchanged if it comes from an editor', () => {
    expect(editable(doc('one'))).toEqual(doc('one'));
  });

  it('is foreign if it comes from a program', () => {
    expect([isForeign('text'), isForeign(doc('a')), isForeign({ amount: 3 })]).toEqual([false, false, true]);
  });
});

describe('the new blocks of a draft', () => {
  it('are those that are not in the document', () => {
    expect(newBlocks(doc('one', 'two, longer', 'three'), doc('one', 'two', 'three'))).toEqual([
      paragraph('two, longer'),
    ]);
  });

  it('are none if the document has all of them', () => {
    expect(newBlocks('one\ntwo', doc('two', 'one', 'more'))).toEqual([]);
  });
});
