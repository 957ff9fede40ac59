import { useQuery } from '@tanstack/react-query';
import { useClient } from '../../api/context';
import { Problem } from '../../api/problem';
import { queries } from '../../api/queries';
import { ProblemAlert } from '../../ui/Alert';
import { Loading, NotFound } from '../../ui/Message';
import { DocumentEditor } from './DocumentEditor';

/** Loads a document and shows its editor. */
export function DocumentPage({ documentId }: { readonly documentId: string }) {
  const found = useQuery(queries.document(useClient(), documentId));
  if (found.data) return <DocumentEditor document={found.data} />;
  if (found.isPending) return <Loading />;
  const isGone = found.error instanceof Problem && [403, 404, 422].includes(found.error.status);
  return isGone ? <NotFound /> : <ProblemAlert code="no_answer" onRetry={() => found.refetch()} />;
}
