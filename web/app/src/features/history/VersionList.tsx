import { useInfiniteQuery } from '@tanstack/react-query';
import { useClient } from '../../api/context';
import { queries } from '../../api/queries';
import { useLanguage } from '../../ui/language';
import { Loading } from '../../ui/Message';
import { Link } from '../../ui/routing/Link';
import { paths } from '../../ui/routing/paths';
import { TimeAgo } from '../../ui/TimeAgo';

export function VersionList({ documentId }: { readonly documentId: string }) {
  const { t } = useLanguage();
  const found = useInfiniteQuery(queries.versions(useClient(), documentId));
  const versions = found.data?.pages.flatMap((page) => page.items);
  return (
    <section className="section" aria-labelledby="versions">
      <h2 id="versions">{t.versions}</h2>
      {found.isPending && <Loading />}
      {versions?.length === 0 && <p className="empty">{t.noVersions}</p>}
      <ol className="rows" aria-labelledby="versions">
        {versions?.map((version, place) => (
          <li key={version.version} className="row">
            <div className="row-main">
              <Link to={paths.version(documentId, version.version)} className="row-title">
                {t.versionNumber(version.version)}
              </Link>
              <p className="row-facts">
                <span>{version.author_name}</span>
                <TimeAgo at={version.created_at} />
              </p>
            </div>
            {place === 0 && <span className="tag">{t.current}</span>}
          </li>
        ))}
      </ol>
      {found.hasNextPage && (
        <button
          type="button"
          className="button"
          onClick={() => found.fetchNextPage()}
          disabled={found.isFetching}
        >
          {t.showMore}
        </button>
      )}
    </section>
  );
}
