import { useLanguage } from './language';
import { Page } from './Page';
import { Link } from './routing/Link';
import { paths } from './routing/paths';

export function NotFound() {
  const { t } = useLanguage();
  return (
    <Page title={t.notFound} lead={t.notFoundLead}>
      <p>
        <Link to={paths.documents()}>{t.navDocuments}</Link>
      </p>
    </Page>
  );
}

export function Loading() {
  const { t } = useLanguage();
  return (
    <p className="loading" role="status">
      {t.loading}
    </p>
  );
}
