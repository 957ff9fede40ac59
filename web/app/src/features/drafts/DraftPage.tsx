import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useClient, useUser } from '../../api/context';
import { codeOf, Problem } from '../../api/problem';
import { queries } from '../../api/queries';
import { Alert, ProblemAlert, problemText } from '../../ui/Alert';
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
import { discardDraft, restoreDraft } from './draftActions';

interface DraftPageProps {
  readonly documentId: string;
  readonly draftId: string;
}

/** A rescued draft, compared with the current document: to restore, copy or discard. */
export function DraftPage({ documentId, draftId }: DraftPageProps) {
  const { t } = useLanguage();
  const client = useClient();
  const user = useUser();
  const cache = useQueryClient();
  const found = useQuery(queries.comparison(client, documentId, draftId));
  const document = useQuery(queries.document(client, documentId));
  const [problem, setProblem] = useState<string | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  if (found.isPending || document.isPending) return <Loading />;
  if (found.isError || document.isError) {
    const error = found.error ?? document.error;
    return error instanceof Problem ? (
      <NotFound />
    ) : (
      <ProblemAlert code="no_answer" onRetry={() => found.refetch()} />
    );
  }
  const { draft, current } = found.data;
  const maySettle = draft.author_id === user.id || document.data.role === 'owner';

  async function settle(work: () => Promise<unknown>) {
    setIsBusy(true);
    setProblem(null);
    try {
      await work();
    } catch (error) {
      setProblem(problemText(t, codeOf(error)));
    }
    await cache.invalidateQueries({ queryKey: ['document', documentId] });
    setIsBusy(false);
  }

  const states = { open: t.statusOpen, restored: t.statusRestored, discarded: t.statusDiscarded };
  return (
    <Page
      title={`${document.data.title}: ${t.draftOf(draft.author_name)}`}
      lead={t[`draftWhy_${draft.reason}`]}
    >
      {problem && <Alert>{problem}</Alert>}
      <p role="status" className="row-facts">
        <span className={draft.status === 'open' ? 'tag tag-open' : 'tag'}>{states[draft.status]}</span>
        <span>{t.draftMadeFrom(draft.base_version)}</span>
        <TimeAgo at={draft.created_at} />
      </p>
      <div className="actions">
        {draft.status === 'open' && (
          <button
            type="button"
            className="button button-primary"
            disabled={isBusy}
            onClick={() => settle(() => restoreDraft(client, documentId, draftId))}
          >
            {t.restore}
          </button>
        )}
        <CopyButton text={textOf(draft.content)} />
        {draft.status === 'open' && maySettle && (
          <button
            type="button"
            className="button"
            disabled={isBusy}
            onClick={() => settle(() => discardDraft(client, documentId, draftId))}
          >
            {t.discard}
          </button>
        )}
        <Link to={paths.document(documentId)} className="button">
          {t.openDocument}
        </Link>
      </div>
      <section className="section" aria-labelledby="compared">
        <h2 id="compared">{t.comparedWith(current.version)}</h2>
        <div className="sheet">
          <Comparison before={current.content} after={draft.content} />
        </div>
      </section>
      <section className="section" aria-labelledby="whole">
        <h2 id="whole">{t.draftText}</h2>
        <div className="sheet">
          <ContentView content={draft.content} />
        </div>
      </section>
    </Page>
  );
}
