import { Component, type ReactNode } from 'react';
import { useLanguage } from '../ui/language';
import { Page } from '../ui/Page';

interface ErrorBoundaryProps {
  readonly children: ReactNode;
}

/** Catches unexpected errors, also a missing part of the page that a newer build has replaced on the server. */
export class ErrorBoundary extends Component<ErrorBoundaryProps, { hasFailed: boolean }> {
  override state = { hasFailed: false };

  static getDerivedStateFromError() {
    return { hasFailed: true };
  }

  override render() {
    return this.state.hasFailed ? <Failed /> : this.props.children;
  }
}

function Failed() {
  const { t } = useLanguage();
  return (
    <main className="main" role="alert">
      <Page title={t.somethingBroke} lead={t.somethingBrokeLead}>
        <button type="button" className="button button-primary" onClick={() => window.location.reload()}>
          {t.reload}
        </button>
      </Page>
    </main>
  );
}
