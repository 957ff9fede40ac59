import { useQuery } from '@tanstack/react-query';
import { useClient } from '../../api/context';
import { queries } from '../../api/queries';
import type { PastHold } from '../../api/schema.generated';
import { useLanguage } from '../../ui/language';
import { Loading } from '../../ui/Message';
import type { Messages } from '../../ui/messages';
import { TimeAgo } from '../../ui/TimeAgo';
import { duration } from '../../ui/times';

/** The past holds of the lock: user, duration and reason of the end. */
export function HoldList({ documentId }: { readonly documentId: string }) {
  const { t, language } = useLanguage();
  const found = useQuery(queries.holds(useClient(), documentId));
  return (
    <section className="section" aria-labelledby="holds">
      <h2 id="holds">{t.lockHistory}</h2>
      {found.isPending && <Loading />}
      {found.data?.length === 0 && <p className="empty">{t.noHolds}</p>}
      <ol className="rows" aria-labelledby="holds">
        {found.data?.map((hold) => (
          <li key={hold.fence} className="row">
            <div className="row-main">
              <span className="row-title">{hold.user_name}</span>
              <p className="row-facts">
                <TimeAgo at={hold.acquired_at} />
                {hold.ended_at !== null && (
                  <span>{t.lasted(duration(hold.ended_at - hold.acquired_at, language))}</span>
                )}
              </p>
            </div>
            <span className="hint">{endOf(hold, t)}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}

function endOf({ reason, ended_by }: PastHold, t: Messages): string {
  switch (reason) {
    case null:
      return t.stillEditing;
    case 'released':
      return t.reasonReleased;
    case 'idle':
      return t.reasonIdle;
    case 'expired':
      return t.reasonExpired;
    case 'moved':
      return t.reasonMoved;
    case 'taken':
      return t.reasonTaken(ended_by?.user_name ?? '?');
  }
}
