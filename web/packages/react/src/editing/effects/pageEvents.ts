/** What happens to a page as a whole. */
export interface PageEvents {
  /** It goes away, perhaps for good. */
  readonly onHide: () => void;
  /** It can be seen again, was thawed, or came back from the browser's cache. */
  readonly onShow: () => void;
  /** The network is there again, or gone. */
  readonly onNetwork: () => void;
}

/** Listens until the returned function is called. Becoming hidden is not listened for: it ends nothing. */
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
