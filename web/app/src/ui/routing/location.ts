import { useSyncExternalStore } from 'react';

const CHANGED = 'leasehold:navigated';

/** Navigates to another address of this page. */
export function navigate(path: string, { replace = false }: { replace?: boolean } = {}): void {
  if (path === currentPath()) return;
  if (replace) history.replaceState(null, '', path);
  else history.pushState(null, '', path);
  window.dispatchEvent(new Event(CHANGED));
  if (!replace) window.scrollTo(0, 0);
}

/** The current path and query. */
export function currentPath(): string {
  return window.location.pathname + window.location.search;
}

export function usePath(): string {
  return useSyncExternalStore(subscribe, () => window.location.pathname);
}

function subscribe(changed: () => void): () => void {
  window.addEventListener('popstate', changed);
  window.addEventListener(CHANGED, changed);
  return () => {
    window.removeEventListener('popstate', changed);
    window.removeEventListener(CHANGED, changed);
  };
}
