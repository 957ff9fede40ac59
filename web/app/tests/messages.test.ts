import { messages as bannerMessages } from '@leasehold/react';
import { afterEach, describe, expect, it } from 'vitest';
import { problemText } from '../src/ui/Alert';
import { keepLanguage, preferredLanguage } from '../src/ui/language';
import { languages, messages } from '../src/ui/messages';

describe('the messages', () => {
  it('have the same keys in every language', () => {
    const shape = (words: object) =>
      Object.entries(words).map(([key, text]) => [key, typeof text, text.length > 0]);
    for (const { code } of languages) expect(shape(messages[code])).toEqual(shape(messages.en));
  });

  it('are in the same languages as the banner', () => {
    expect(Object.keys(bannerMessages).sort()).toEqual(Object.keys(messages).sort());
  });

  it('contain their parameters', () => {
    for (const { code } of languages) {
      for (const [key, text] of Object.entries(messages[code])) {
        if (typeof text !== 'function') continue;
        const values = Array.from({ length: text.length }, (_, place) => 40 + place);
        const shown = (text as (...given: unknown[]) => string)(...values);
        for (const value of values) expect(shown, `${code}.${key}`).toContain(String(value));
      }
    }
  });

  it('have a text for every problem', () => {
    expect(problemText(messages.en, 'lock_busy')).toBe(messages.en.problem_lock_busy);
    expect(problemText(messages.en, 'something_new')).toBe(messages.en.problem_other);
    expect(problemText(messages.en, '__proto__')).toBe(messages.en.problem_other);
  });
});

describe('the language', () => {
  afterEach(() => localStorage.clear());

  it('is the first supported one of the browser’s', () => {
    expect(preferredLanguage(['fr-FR', 'de-AT', 'en'])).toBe('de');
    expect(preferredLanguage(['fr'])).toBe('en');
    expect(preferredLanguage([])).toBe('en');
  });

  it('is the one chosen before', () => {
    keepLanguage('de');
    expect(preferredLanguage(['en'])).toBe('de');
  });

  it('ignores an invalid stored value', () => {
    localStorage.setItem('leasehold-language', 'toString');
    expect(preferredLanguage(['de'])).toBe('de');
  });
});
