import { useEffect, useState } from 'react';
import { useLanguage } from './language';
import { dateAndTime, timeAgo } from './times';

const EVERY_MS = 20_000;

/** The age of an event, kept up to date, with the exact time as tooltip. */
export function TimeAgo({ at }: { readonly at: number }) {
  const { language } = useLanguage();
  const [, setRound] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setRound((round) => round + 1), EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <time dateTime={new Date(at * 1000).toISOString()} title={dateAndTime(at, language)}>
      {timeAgo(at, language)}
    </time>
  );
}
