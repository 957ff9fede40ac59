/** Events of the page as a whole. */
export interface PageEvents {
  /** The page is going away, perhaps permanently. */
  readonly onHide: () => void;
  /** The page is visible again, was resumed, or was restored from the browser's cache. */
  readonly onShow: () => void;
  /** The network has come back or gone. */
  readonly onNetwork: () => void;
}

/** Listens until the returned function is called. A hidden page is no event: it releases nothing. */
export function watchPage({ onHide, onShow, onNetwork }: PageEvents): () => void {
  if (typeof window === 'undefined') return () => undefined;
  const gone = new AbortController();
  const { signal } = gone;
  const onVisibility = () => {
    if (document.visibilityState === 'visible') onShow();
  };
  window.addEventListener('pagehide', onHide, { signal });
  window.addEventListener('pageshow', (event) => event.persisted && onShow(), { signal });
  document.addEventListener('visibilitychange', onVisibility, { signal });
  document.addEventListener('resume', onShow, { signal });
  window.addEventListener('online', onNetwork, { signal });
  window.addEventListener('offline', onNetwork, { signal });
  return () => gone.abort();
}
