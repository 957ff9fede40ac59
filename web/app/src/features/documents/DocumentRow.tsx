import { useRef } from 'react';
import type { DocumentSummary } from '../../api/schema.generated';
import { useLanguage } from '../../ui/language';
import { Link } from '../../ui/routing/Link';
import { paths } from '../../ui/routing/paths';
import { TimeAgo } from '../../ui/TimeAgo';
import { useIsVisible } from '../../ui/useIsVisible';
import { EditorBadge } from './EditorBadge';

interface DocumentRowProps {
  readonly document: DocumentSummary;
  /** The team and project. */
  readonly place: string;
}

export function DocumentRow({ document, place }: DocumentRowProps) {
  const { t } = useLanguage();
  const row = useRef<HTMLLIElement>(null);
  // A socket may watch a hundred documents, and a list may have more.
  const isVisible = useIsVisible(row);
  return (
    <li className="row" ref={row}>
      <div className="row-main">
        <Link to={paths.document(document.id)} className="row-title">
          {document.title}
        </Link>
        <p className="row-facts">
          <span>{place}</span>
          <span>
            {document.version === 0 ? (
              t.neverSaved
            ) : (
              <>
                {document.updated_by_name}, <TimeAgo at={document.updated_at} />
              </>
            )}
          </span>
        </p>
      </div>
      {isVisible && <EditorBadge documentId={document.id} />}
    </li>
  );
}
