import type { Draft, DraftStore } from './draft';

const DATABASE = 'leasehold-drafts';
const DRAFTS = 'drafts';
const BY_DOCUMENT = 'by-document';

/** Drafts in IndexedDB: they survive a reload and a crash, and stay in this browser. */
export function indexedDrafts(): DraftStore {
  let opening: Promise<IDBDatabase> | null = null;

  function open(): Promise<IDBDatabase> {
    opening ??= openDatabase().catch((error: unknown) => {
      opening = null; // private windows and full disks may think better of it later
      throw error;
    });
    return opening;
  }

  async function attempt<Result>(
    act: (drafts: IDBObjectStore) => IDBRequest<Result>,
    mode: IDBTransactionMode,
  ) {
    try {
      const transaction = (await open()).transaction(DRAFTS, mode);
      const request = act(transaction.objectStore(DRAFTS));
      await ended(transaction);
      return request.result;
    } catch {
      return null;
    }
  }

  return {
    async put(draft) {
      await attempt((drafts) => drafts.put(draft), 'readwrite');
    },
    async remove(id) {
      await attempt((drafts) => drafts.delete(id), 'readwrite');
    },
    async list(userId, documentId) {
      const found = await attempt<Draft[]>(
        (drafts) => drafts.index(BY_DOCUMENT).getAll([userId, documentId]),
        'readonly',
      );
      return (found ?? []).sort((one, other) => other.changedAt - one.changedAt);
    },
  };
}

function openDatabase(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => {
      const drafts = request.result.createObjectStore(DRAFTS, { keyPath: 'id' });
      drafts.createIndex(BY_DOCUMENT, ['userId', 'documentId']);
    };
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
    request.onblocked = () => reject(new Error('another tab has an older version open'));
  });
}

function ended(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onerror = () => reject(transaction.error);
    transaction.onabort = () => reject(transaction.error);
  });
}
