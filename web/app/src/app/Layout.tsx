import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { useClient, useLogin } from '../api/context';
import type { LoginUser } from '../api/login';
import { queries } from '../api/queries';
import { useLockClient } from '../live/context';
import { Avatar } from '../ui/Avatar';
import { useLanguage } from '../ui/language';
import { Link } from '../ui/routing/Link';
import { navigate } from '../ui/routing/location';
import { paths } from '../ui/routing/paths';
import { LanguageSwitch } from './LanguageSwitch';
import './layout.css';

// For React to unmount the old page, which then sends its last request.
const LEAVING_MS = 50;
// Text that is unsaved after this time is stored in this browser.
const PATIENCE_MS = 5_000;

interface LayoutProps {
  readonly user: LoginUser | null;
  readonly children: ReactNode;
}

/** The header and navigation around every page. */
export function Layout({ user, children }: LayoutProps) {
  const { t } = useLanguage();
  return (
    <>
      <a className="skip-link" href="#content">
        {t.skipToContent}
      </a>
      <header className="bar">
        <Link to={paths.documents()} className="brand">
          <img src="/icon.svg" alt="" width="28" height="28" />
          {t.appName}
        </Link>
        {user && <Navigation />}
        <div className="bar-end">
          <LanguageSwitch />
          {user && <Account user={user} />}
        </div>
      </header>
      <main id="content" className="main" tabIndex={-1}>
        {children}
      </main>
    </>
  );
}

function Navigation() {
  const { t } = useLanguage();
  const teams = useQuery(queries.applications(useClient())).data ?? [];
  return (
    <nav aria-label={t.mainNavigation} className="bar-nav">
      <Link to={paths.documents()}>{t.navDocuments}</Link>
      {teams.some((team) => team.role === 'owner') && <Link to={paths.editingNow()}>{t.navEditingNow}</Link>}
    </nav>
  );
}

function Account({ user }: { readonly user: LoginUser }) {
  const { t } = useLanguage();
  const login = useLogin();
  const lockClient = useLockClient();
  async function leave() {
    // Leaving the document saves its text, which needs the login.
    navigate(paths.documents());
    await new Promise((resolve) => setTimeout(resolve, LEAVING_MS));
    await Promise.race([lockClient.settled(), new Promise((resolve) => setTimeout(resolve, PATIENCE_MS))]);
    await login.signOut().catch(() => undefined);
    navigate(paths.signIn());
  }
  return (
    <>
      <span className="visually-hidden">{t.signedInAs(user.name)}</span>
      <span className="account" aria-hidden="true">
        <Avatar name={user.name} />
        {user.name}
      </span>
      <button type="button" className="button button-quiet" onClick={leave}>
        {t.signOut}
      </button>
    </>
  );
}
