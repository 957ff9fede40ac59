import { useEffect, useState } from 'react';
import type { Live } from '../live/live';
import type { Lock } from '../protocol/messages.generated';

/** The newest state of a document's lock, without editing; null while it is not known. */
export function useWatchedLock(documentId: string, live: Live | null): Lock | null {
  const [lock, setLock] = useState<Lock | null>(null);
  useEffect(() => {
    const unwatch = live?.watch(documentId, (event) => {
      if (event.kind === 'joined' || event.kind === 'changed') setLock(event.lock);
      else if (event.kind === 'down' || event.kind === 'refused') setLock(null);
    });
    return () => {
      unwatch?.();
      setLock(null);
    };
  }, [documentId, live]);
  return lock;
}
