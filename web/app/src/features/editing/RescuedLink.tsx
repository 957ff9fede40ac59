import { useQuery } from '@tanstack/react-query';
import { useClient } from '../../api/context';
import { queries } from '../../api/queries';
import { useLanguage } from '../../ui/language';
import { Link } from '../../ui/routing/Link';
import { paths } from '../../ui/routing/paths';

// A draft is rescued when a late save arrives, and there is no event for that.
const ASK_EVERY_MS = 10_000;

/** A link to the open rescued drafts; absent if there are none. */
export function RescuedLink({ documentId }: { readonly documentId: string }) {
  const { t } = useLanguage();
  const found = useQuery({ ...queries.drafts(useClient(), documentId), refetchInterval: ASK_EVERY_MS });
  const open = found.data?.filter((draft) => draft.status === 'open') ?? [];
  const [only] = open;
  if (!only) return null;
  const to = open.length === 1 ? paths.draft(documentId, only.id) : paths.history(documentId);
  return (
    <Link to={to} className="tag tag-open">
      {t.rescuedDrafts} ({open.length})
    </Link>
  );
}
