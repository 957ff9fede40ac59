import { useLanguage } from '../ui/language';
import { type Language, languages } from '../ui/messages';

export function LanguageSwitch() {
  const { t, language, setLanguage } = useLanguage();
  return (
    <label className="language">
      <span className="visually-hidden">{t.language}</span>
      <select value={language} onChange={(event) => setLanguage(event.target.value as Language)}>
        {languages.map(({ code, name }) => (
          <option key={code} value={code} lang={code}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}
