import type { DocumentLock } from '@leasehold/react';
import { useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';

/** Invalidates the queries of a document after a save, a loss or a change of the editor. */
export function useQueryInvalidation(documentId: string, lock: DocumentLock): void {
  const cache = useQueryClient();
  const { version, notice, isLockedByOther } = lock;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a change of any of these invalidates the queries
  useEffect(() => {
    void cache.invalidateQueries({ queryKey: ['document', documentId] });
  }, [cache, documentId, version, notice, isLockedByOther]);
}
