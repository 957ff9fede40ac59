import type { Language } from './messages';

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** "5 minutes ago" for the last day, otherwise the date. Instants are Unix seconds. */
export function timeAgo(at: number, language: Language, now: number = Date.now() / 1000): string {
  const age = Math.max(0, now - at);
  if (age >= DAY)
    return new Intl.DateTimeFormat(localeOf(language), { dateStyle: 'medium', timeStyle: 'short' }).format(
      at * 1000,
    );
  const told = new Intl.RelativeTimeFormat(localeOf(language), { numeric: 'auto' });
  if (age < MINUTE) return told.format(0, 'second');
  return age < HOUR
    ? told.format(-Math.floor(age / MINUTE), 'minute')
    : told.format(-Math.floor(age / HOUR), 'hour');
}

/** The time of day, for a recent event. */
export function timeOfDay(at: number, language: Language): string {
  return new Intl.DateTimeFormat(localeOf(language), { timeStyle: 'medium' }).format(at * 1000);
}

export function dateAndTime(at: number, language: Language): string {
  return new Intl.DateTimeFormat(localeOf(language), { dateStyle: 'medium', timeStyle: 'medium' }).format(
    at * 1000,
  );
}

/** A duration such as "40 sec" or "3 min". */
export function duration(seconds: number, language: Language): string {
  const [value, unit] =
    seconds < MINUTE
      ? [seconds, 'second']
      : seconds < HOUR
        ? [seconds / MINUTE, 'minute']
        : [seconds / HOUR, 'hour'];
  return new Intl.NumberFormat(localeOf(language), {
    style: 'unit',
    unit: String(unit),
    unitDisplay: 'short',
  }).format(Math.round(Number(value)));
}

/** The regional form of the language, for instance British dates for British English. */
function localeOf(language: Language): string {
  return navigator.languages.find((tag) => tag.split('-')[0] === language) ?? language;
}
