import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useClient } from '../../api/context';
import { Problem } from '../../api/problem';
import { queries } from '../../api/queries';
import { ProblemAlert } from '../../ui/Alert';
import { ContentView } from '../../ui/ContentView';
import { CopyButton } from '../../ui/CopyButton';
import { Comparison } from '../../ui/comparison/Comparison';
import { textOf } from '../../ui/comparison/contentText';
import { useLanguage } from '../../ui/language';
import { Loading, NotFound } from '../../ui/Message';
import { Page } from '../../ui/Page';
import { Link } from '../../ui/routing/Link';
import { paths } from '../../ui/routing/paths';
import { TimeAgo } from '../../ui/TimeAgo';

interface VersionPageProps {
  readonly documentId: string;
  readonly version: number;
}

/** One version, to read or to compare with the current one. */
export function VersionPage({ documentId, version }: VersionPageProps) {
  const { t } = useLanguage();
  const client = useClient();
  const found = useQuery(queries.version(client, documentId, version));
  const current = useQuery(queries.document(client, documentId));
  const [isCompared, setIsCompared] = useState(false);
  if (found.isPending || current.isPending) return <Loading />;
  if (found.isError || current.isError) {
    const error = found.error ?? current.error;
    return error instanceof Problem ? (
      <NotFound />
    ) : (
      <ProblemAlert code="no_answer" onRetry={() => found.refetch()} />
    );
  }
  const { content, author_name, created_at } = found.data;
  return (
    <Page
      title={`${current.data.title}: ${t.versionNumber(version)}`}
      lead={
        <>
          {author_name}, <TimeAgo at={created_at} />
        </>
      }
    >
      <div className="actions">
        <Link to={paths.document(documentId)} className="button">
          {t.openDocument}
        </Link>
        <Link to={paths.history(documentId)} className="button">
          {t.history}
        </Link>
        {version !== current.data.version && (
          <button
            type="button"
            className="button"
            aria-pressed={isCompared}
            onClick={() => setIsCompared(!isCompared)}
          >
            {isCompared ? t.hideComparison : t.comparedWith(current.data.version)}
          </button>
        )}
        <CopyButton text={textOf(content)} />
      </div>
      <div className="sheet">
        {isCompared ? (
          <Comparison before={current.data.content} after={content} />
        ) : (
          <ContentView content={content} />
        )}
      </div>
    </Page>
  );
}
