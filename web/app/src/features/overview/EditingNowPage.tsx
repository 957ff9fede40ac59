import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useMemo } from 'react';
import { useClient } from '../../api/context';
import { codeOf } from '../../api/problem';
import { queries } from '../../api/queries';
import { useLockClient } from '../../live/context';
import { ProblemAlert } from '../../ui/Alert';
import { useLanguage } from '../../ui/language';
import { Loading } from '../../ui/Message';
import { Page } from '../../ui/Page';
import { EditedRow } from './EditedRow';

// Below the limit of a socket; the rest is found by polling.
const MOST_WATCHED = 80;
const ASK_EVERY_MS = 15_000;

/** For owners: the documents of their teams that are being edited, updated live. */
export function EditingNowPage() {
  const { t } = useLanguage();
  const client = useClient();
  const found = useQuery({ ...queries.locks(client), refetchInterval: ASK_EVERY_MS });
  useRefetchWhenLocksChange();
  return (
    <Page title={t.editingNow} lead={t.editingNowLead}>
      {found.isPending && <Loading />}
      {found.isError && <ProblemAlert code={codeOf(found.error)} onRetry={() => found.refetch()} />}
      {found.data?.length === 0 && <p className="empty">{t.nobodyEdits}</p>}
      {found.data && found.data.length > 0 && (
        <ul className="rows" aria-label={t.editingNow}>
          {found.data.map((edited) => (
            <EditedRow key={edited.document_id} edited={edited} />
          ))}
        </ul>
      )}
    </Page>
  );
}

function useRefetchWhenLocksChange(): void {
  const { live } = useLockClient();
  const cache = useQueryClient();
  const documents = useInfiniteQuery(queries.documents(useClient())).data?.pages;
  const watched = useMemo(() => {
    const all = documents?.flatMap((page) => page.items) ?? [];
    const owned = all.filter((document) => document.role === 'owner' && !document.is_personal);
    return owned.slice(0, MOST_WATCHED).map((document) => document.id);
  }, [documents]);
  useEffect(() => {
    const stops = watched.map((id) =>
      live.watch(id, (event) => {
        if (event.kind === 'changed') void cache.invalidateQueries({ queryKey: ['locks'] });
      }),
    );
    return () => {
      for (const stop of stops) stop();
    };
  }, [watched, live, cache]);
}
