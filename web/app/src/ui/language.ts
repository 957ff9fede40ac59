import { createContext, useContext } from 'react';
import { type Language, languages, type Messages, messages } from './messages';

const KEPT_AS = 'leasehold-language';

interface LanguageChoice {
  readonly language: Language;
  readonly t: Messages;
  readonly setLanguage: (language: Language) => void;
}

export const LanguageContext = createContext<LanguageChoice>({
  language: 'en',
  t: messages.en,
  setLanguage: () => {},
});

/** The messages of the chosen language as `t`, and the choice of another. */
export function useLanguage(): LanguageChoice {
  return useContext(LanguageContext);
}

/** The language chosen before, else the first supported one of the browser's, else English. */
export function preferredLanguage(preferred: readonly string[] = navigator.languages): Language {
  const wanted = [keptLanguage(), ...preferred.map((tag) => tag.split('-')[0])];
  const found = wanted.map((code) => languages.find((each) => each.code === code)?.code);
  return found.find((code) => code !== undefined) ?? 'en';
}

export function keepLanguage(language: Language): void {
  try {
    localStorage.setItem(KEPT_AS, language);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
}

function keptLanguage(): string | null {
  try {
    return localStorage.getItem(KEPT_AS);
  } catch {
    return null;
  }
}
