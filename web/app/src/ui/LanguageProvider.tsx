import { type ReactNode, useEffect, useMemo, useState } from 'react';
import { keepLanguage, preferredLanguage, SpeechContext } from './language';
import { messages } from './messages';

/** Gives everything inside one language, which the reader may change. */
export function Speaking({ children }: { readonly children: ReactNode }) {
  const [language, setLanguage] = useState(preferredLanguage);
  useEffect(() => {
    document.documentElement.lang = language;
  }, [language]);
  const speech = useMemo(
    () => ({
      language,
      t: messages[language],
      speak: (chosen: typeof language) => {
        keepLanguage(chosen);
        setLanguage(chosen);
      },
    }),
    [language],
  );
  return <SpeechContext value={speech}>{children}</SpeechContext>;
}
