import { useMemo } from 'react';
import { useLanguage } from '../language';
import { type Content, textOf } from './contentText';
import { type Change, diffWords } from './diff';
import './comparison.css';

interface ComparisonProps {
  /** The document. */
  readonly before: Content;
  /** The other text. */
  readonly after: Content;
}

/** Two contents in one text: struck out if only in the first, underlined if only in the second. */
export function Comparison({ before, after }: ComparisonProps) {
  const { t } = useLanguage();
  const changes = useMemo(() => diffWords(textOf(before), textOf(after)), [before, after]);
  if (changes.every((change) => change.kind === 'same')) return <p className="hint">{t.sameText}</p>;
  return (
    <section className="comparison" aria-label={t.comparison}>
      <p className="hint comparison-key">
        <span className="change-removed">{t.onlyInDocument}</span>{' '}
        <span className="change-added">{t.onlyInYours}</span>
      </p>
      <div className="comparison-text">
        {changes.map((change, place) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the list is made anew as a whole, and has nothing else to go by
          <Stretch key={place} change={change} />
        ))}
      </div>
    </section>
  );
}

function Stretch({ change }: { readonly change: Change }) {
  const { t } = useLanguage();
  if (change.kind === 'same') return change.text;
  const isAdded = change.kind === 'added';
  const Element = isAdded ? 'ins' : 'del';
  return (
    <Element className={isAdded ? 'change-added' : 'change-removed'}>
      <span className="visually-hidden"> [{isAdded ? t.addedStart : t.removedStart} </span>
      {change.text}
      <span className="visually-hidden"> {t.changeEnd}] </span>
    </Element>
  );
}
