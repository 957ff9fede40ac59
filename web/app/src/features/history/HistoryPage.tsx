import { useQuery } from '@tanstack/react-query';
import { useClient } from '../../api/context';
import { Problem } from '../../api/problem';
import { queries } from '../../api/queries';
import { ProblemAlert } from '../../ui/Alert';
import { useLanguage } from '../../ui/language';
import { Loading, NotFound } from '../../ui/Message';
import { Page } from '../../ui/Page';
import { Link } from '../../ui/routing/Link';
import { paths } from '../../ui/routing/paths';
import { DraftList } from './DraftList';
import { HoldList } from './HoldList';
import { VersionList } from './VersionList';

/** The history of a document: rescued drafts, versions and holds. */
export function HistoryPage({ documentId }: { readonly documentId: string }) {
  const { t } = useLanguage();
  const found = useQuery(queries.document(useClient(), documentId));
  if (found.isPending) return <Loading />;
  if (found.isError) {
    const isGone = found.error instanceof Problem && [403, 404].includes(found.error.status);
    return isGone ? <NotFound /> : <ProblemAlert code="no_answer" onRetry={() => found.refetch()} />;
  }
  const { title, role } = found.data;
  return (
    <Page
      title={t.historyOf(title)}
      actions={
        <Link to={paths.document(documentId)} className="button">
          {t.openDocument}
        </Link>
      }
    >
      {role !== 'viewer' && <DraftList documentId={documentId} />}
      <VersionList documentId={documentId} />
      <HoldList documentId={documentId} />
    </Page>
  );
}
