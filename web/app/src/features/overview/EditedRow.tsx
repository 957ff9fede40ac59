import type { EditedDocument } from '../../api/schema.generated';
import { Avatar } from '../../ui/Avatar';
import { useLanguage } from '../../ui/language';
import { Link } from '../../ui/routing/Link';
import { paths } from '../../ui/routing/paths';
import { timeOfDay } from '../../ui/times';

export function EditedRow({ edited }: { readonly edited: EditedDocument }) {
  const { t, language } = useLanguage();
  const holder = edited.lock.lock_holder;
  if (holder === null) return null;
  // A short pause is not idleness.
  const idleSince = holder.idle_since ?? Number.POSITIVE_INFINITY;
  const isIdle = Date.now() / 1000 - idleSince > 15;
  return (
    <li className="row">
      <div className="row-main">
        <Link to={paths.document(edited.document_id)} className="row-title">
          {edited.title}
        </Link>
        <p className="row-facts">
          <span>{edited.application_name}</span>
          <span>{t.since(timeOfDay(holder.acquired_at, language))}</span>
          {isIdle && <span>{t.idleSince(timeOfDay(idleSince, language))}</span>}
        </p>
      </div>
      <p className="editor-badge">
        <Avatar name={holder.user_name} />
        <span>{t.editedBy(holder.user_name)}</span>
      </p>
    </li>
  );
}
