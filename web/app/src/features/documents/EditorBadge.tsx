import { useWatchedLock } from '@leasehold/react';
import { useLockClient } from '../../live/context';
import { Avatar } from '../../ui/Avatar';
import { useLanguage } from '../../ui/language';

/** The user who is editing a document, updated live; absent if there is none. */
export function EditorBadge({ documentId }: { readonly documentId: string }) {
  const { t } = useLanguage();
  const { live } = useLockClient();
  const holder = useWatchedLock(documentId, live)?.lock_holder;
  if (!holder) return null;
  const text = holder.tab_is_mine
    ? t.editedByYou
    : holder.same_user
      ? t.editedInOtherTab
      : t.editedBy(holder.user_name);
  return (
    <p className="editor-badge">
      <Avatar name={holder.user_name} />
      <span>{text}</span>
    </p>
  );
}
