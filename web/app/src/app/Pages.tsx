import { lazy, Suspense } from 'react';
import { DocumentListPage } from '../features/documents/DocumentListPage';
import { NewDocumentPage } from '../features/documents/NewDocumentPage';
import { Loading, NotFound } from '../ui/Message';
import { usePath } from '../ui/routing/location';
import { match } from '../ui/routing/match';

// Loaded on demand: the editor is most of the page, and the list does not need it.
const DocumentPage = lazy(() =>
  import('../features/editing/DocumentPage').then((it) => ({ default: it.DocumentPage })),
);
const HistoryPage = lazy(() =>
  import('../features/history/HistoryPage').then((it) => ({ default: it.HistoryPage })),
);
const VersionPage = lazy(() =>
  import('../features/history/VersionPage').then((it) => ({ default: it.VersionPage })),
);
const DraftPage = lazy(() =>
  import('../features/drafts/DraftPage').then((it) => ({ default: it.DraftPage })),
);
const EditingNowPage = lazy(() =>
  import('../features/overview/EditingNowPage').then((it) => ({ default: it.EditingNowPage })),
);

/** The page at the current address. */
export function Pages() {
  const path = usePath();
  return <Suspense fallback={<Loading />}>{pageOf(path)}</Suspense>;
}

function pageOf(path: string) {
  if (path === '/documents') return <DocumentListPage />;
  if (path === '/documents/new') return <NewDocumentPage />;
  if (path === '/editing-now') return <EditingNowPage />;
  const document = match('/documents/:id', path);
  if (document) return <DocumentPage key={document.id} documentId={document.id} />;
  const history = match('/documents/:id/history', path);
  if (history) return <HistoryPage documentId={history.id} />;
  const version = match('/documents/:id/versions/:version', path);
  if (version && /^\d+$/.test(version.version)) {
    return <VersionPage documentId={version.id} version={Number(version.version)} />;
  }
  const draft = match('/documents/:id/drafts/:draftId', path);
  if (draft) return <DraftPage documentId={draft.id} draftId={draft.draftId} />;
  return <NotFound />;
}
