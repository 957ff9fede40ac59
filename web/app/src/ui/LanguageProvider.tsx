import { type ReactNode, useEffect, useMemo, useState } from 'react';
import { keepLanguage, LanguageContext, preferredLanguage } from './language';
import { messages } from './messages';

/** Provides the language, which the user may change. */
export function LanguageProvider({ children }: { readonly children: ReactNode }) {
  const [language, setChosen] = useState(preferredLanguage);
  useEffect(() => {
    document.documentElement.lang = language;
  }, [language]);
  const choice = useMemo(
    () => ({
      language,
      t: messages[language],
      setLanguage: (chosen: typeof language) => {
        keepLanguage(chosen);
        setChosen(chosen);
      },
    }),
    [language],
  );
  return <LanguageContext value={choice}>{children}</LanguageContext>;
}
