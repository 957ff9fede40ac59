import type { DocumentLock } from '@leasehold/react';
import { useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';

/** Has everything about a document read anew that a save, a loss or another editor may have changed. */
export function useQueryInvalidation(documentId: string, lock: DocumentLock): void {
  const cache = useQueryClient();
  const { version, notice, isLockedByOther } = lock;
  // biome-ignore lint/correctness/useExhaustiveDependencies: these are what it goes by
  useEffect(() => {
    void cache.invalidateQueries({ queryKey: ['document', documentId] });
  }, [cache, documentId, version, notice, isLockedByOther]);
}
