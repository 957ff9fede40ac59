import { messages as bannerMessages } from '@leasehold/react';
import { afterEach, describe, expect, it } from 'vitest';
import { problemText } from '../src/ui/Alert';
import { keepLanguage, preferredLanguage } from '../src/ui/language';
import { languages, messages } from '../src/ui/messages';

describe('the messages', () => {
  it('say the same things in every language', () => {
    const shape = (words: object) =>
      Object.entries(words).map(([key, text]) => [key, typeof text, text.length > 0]);
    for (const { code } of languages) expect(shape(messages[code])).toEqual(shape(messages.en));
  });

  it('are spoken by the banner, too', () => {
    expect(Object.keys(bannerMessages).sort()).toEqual(Object.keys(messages).sort());
  });

  it('put in what they are given', () => {
    for (const { code } of languages) {
      for (const [key, text] of Object.entries(messages[code])) {
        if (typeof text !== 'function') continue;
        const values = Array.from({ length: text.length }, (_, place) => 40 + place);
        const said = (text as (...given: unknown[]) => string)(...values);
        for (const value of values) expect(said, `${code}.${key}`).toContain(String(value));
      }
    }
  });

  it('have a word for every problem', () => {
    expect(problemText(messages.en, 'lock_busy')).toBe(messages.en.problem_lock_busy);
    expect(problemText(messages.en, 'something_new')).toBe(messages.en.problem_other);
    expect(problemText(messages.en, '__proto__')).toBe(messages.en.problem_other);
  });
});

describe('the language', () => {
  afterEach(() => localStorage.clear());

  it('is the first of the reader’s that we speak', () => {
    expect(preferredLanguage(['fr-FR', 'de-AT', 'en'])).toBe('de');
    expect(preferredLanguage(['fr'])).toBe('en');
    expect(preferredLanguage([])).toBe('en');
  });

  it('is the one that was chosen before', () => {
    keepLanguage('de');
    expect(preferredLanguage(['en'])).toBe('de');
  });

  it('does not trust what it finds', () => {
    localStorage.setItem('leasehold-language', 'toString');
    expect(preferredLanguage(['de'])).toBe('de');
  });
});
