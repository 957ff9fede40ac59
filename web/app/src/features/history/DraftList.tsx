import { useQuery } from '@tanstack/react-query';
import { useClient } from '../../api/context';
import { queries } from '../../api/queries';
import { useLanguage } from '../../ui/language';
import { Link } from '../../ui/routing/Link';
import { paths } from '../../ui/routing/paths';
import { TimeAgo } from '../../ui/TimeAgo';

/** The drafts of saves that arrived too late to become a version. */
export function DraftList({ documentId }: { readonly documentId: string }) {
  const { t } = useLanguage();
  const found = useQuery(queries.drafts(useClient(), documentId));
  const words = { open: t.statusOpen, restored: t.statusRestored, discarded: t.statusDiscarded };
  return (
    <section className="section" aria-labelledby="drafts">
      <h2 id="drafts">{t.rescuedDrafts}</h2>
      <p className="hint">{t.rescuedLead}</p>
      {found.data?.length === 0 && <p className="empty">{t.noDrafts}</p>}
      <ul className="rows" aria-labelledby="drafts">
        {found.data?.map((draft) => (
          <li key={draft.id} className="row">
            <div className="row-main">
              <Link to={paths.draft(documentId, draft.id)} className="row-title">
                {t.draftOf(draft.author_name)}
              </Link>
              <p className="row-facts">
                <TimeAgo at={draft.created_at} />
                <span>{t.draftMadeFrom(draft.base_version)}</span>
              </p>
            </div>
            <span className={draft.status === 'open' ? 'tag tag-open' : 'tag'}>{words[draft.status]}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
