import { type ReactNode, useEffect, useRef } from 'react';
import { useLanguage } from './language';

interface PageProps {
  readonly title: string;
  readonly lead?: ReactNode;
  /** Beside the heading. */
  readonly actions?: ReactNode;
  readonly children?: ReactNode;
}

let isFirst = true;

/** One page: sets the title of the browser's tab, and moves the focus to the heading after a navigation. */
export function Page({ title, lead, actions, children }: PageProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  useTitle(title);
  useEffect(() => {
    // Not after the first load: the browser sets the focus itself.
    if (!isFirst) heading.current?.focus({ preventScroll: true });
    isFirst = false;
  }, []);
  return (
    <div className="page">
      <header className="page-head">
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        {actions && <div className="actions">{actions}</div>}
      </header>
      {lead && <p className="lead">{lead}</p>}
      {children}
    </div>
  );
}

export function useTitle(title: string): void {
  const { t } = useLanguage();
  useEffect(() => {
    document.title = `${title} · ${t.appName}`;
  }, [title, t]);
}
