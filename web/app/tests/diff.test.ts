import { describe, expect, it } from 'vitest';
import { textOf } from '../src/ui/comparison/contentText';
import { type Change, diffWords, wordsOf } from '../src/ui/comparison/diff';

function sides(changes: readonly Change[]): [string, string] {
  const textWithout = (kind: string) =>
    changes
      .filter((change) => change.kind !== kind)
      .map((change) => change.text)
      .join('');
  return [textWithout('added'), textWithout('removed')];
}

describe('a diff of words', () => {
  it('shows the changed words and keeps the others together', () => {
    expect(diffWords('The quick fox jumps.', 'The slow fox jumps high.')).toEqual([
      { kind: 'same', text: 'The ' },
      { kind: 'removed', text: 'quick' },
      { kind: 'added', text: 'slow' },
      { kind: 'same', text: ' fox jumps' },
      { kind: 'added', text: ' high' },
      { kind: 'same', text: '.' },
    ]);
  });

  it.each([
    ['', ''],
    ['', 'new'],
    ['old', ''],
    ['same', 'same'],
    ['a b c', 'c b a'],
    ['Äpfel, Öl\n\nund mehr', 'Äpfel\nund Öl 🍏'],
    ['one\ntwo\nthree', 'zero\none\nthree\nfour'],
  ])('has all of %j and all of %j in it', (before, after) => {
    expect(sides(diffWords(before, after))).toEqual([before, after]);
  });

  it('contains all of both for random texts', () => {
    let seed = 7;
    const random = (below: number) => {
      seed = (seed * 48271) % 2147483647;
      return seed % below;
    };
    const words = ['a', 'b', 'c', ' ', ' ', '\n', 'é', '.'];
    const text = () => Array.from({ length: random(30) }, () => words[random(words.length)]).join('');
    for (let round = 0; round < 500; round += 1) {
      const [before, after] = [text(), text()];
      expect(sides(diffWords(before, after))).toEqual([before, after]);
    }
  });

  it('marks whole sentences where possible', () => {
    expect(diffWords('Ben. A line.', 'A line. Two. Three.')).toEqual([
      { kind: 'removed', text: 'Ben. ' },
      { kind: 'same', text: 'A line.' },
      { kind: 'added', text: ' Two. Three.' },
    ]);
  });

  it('is as short as possible', () => {
    const changes = diffWords('a b c d e f', 'a b x d e f');
    expect(changes.filter((change) => change.kind !== 'same')).toHaveLength(2);
  });

  it('omits details of texts that have only spaces in common', () => {
    const before = Array.from({ length: 20_000 }, (_, place) => `old${place}`).join(' ');
    const after = Array.from({ length: 20_000 }, (_, place) => `new${place}`).join(' ');
    // The spaces between the words are equal, and matching them would take minutes.
    expect(diffWords(before, after)).toEqual([
      { kind: 'removed', text: before },
      { kind: 'added', text: after },
    ]);
  });

  it('splits a text into words that join to the text', () => {
    const text = "It's 5 o'clock — really?\n\tYes, “naïve”.";
    expect(wordsOf(text).join('')).toBe(text);
  });
});

describe('the text of content', () => {
  it('is the text itself', () => {
    expect(textOf('as it\nis')).toBe('as it\nis');
  });

  it('has a line for each paragraph and each item of a list', () => {
    const words = (text: string) => ({ type: 'paragraph', content: [{ type: 'text', text }] });
    const item = (text: string) => ({ type: 'listItem', content: [words(text)] });
    const content = {
      type: 'doc',
      content: [
        { type: 'heading', attrs: { level: 2 }, content: [{ type: 'text', text: 'Title' }] },
        words('One'),
        { type: 'bulletList', content: [item('apples'), item('pears')] },
        { type: 'orderedList', content: [item('first'), item('second')] },
        { type: 'paragraph' },
        {
          type: 'paragraph',
          content: [{ type: 'text', text: 'a' }, { type: 'hardBreak' }, { type: 'text', text: 'b' }],
        },
      ],
    };
    expect(textOf(content)).toBe('Title\nOne\n• apples\n• pears\n1. first\n2. second\n\na\nb');
  });

  it('is JSON for content of a program', () => {
    expect(textOf({ amount: 3 })).toBe('{\n  "amount": 3\n}');
  });
});
