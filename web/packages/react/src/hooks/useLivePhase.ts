import { useCallback, useSyncExternalStore } from 'react';
import type { Live, LivePhase } from '../live/live';

/** The phase of the page's socket. */
export function useLivePhase(live: Live): LivePhase {
  const subscribe = useCallback((changed: () => void) => live.subscribe(changed), [live]);
  const read = () => live.phase;
  return useSyncExternalStore(subscribe, read, read);
}
