import type { Draft, DraftStore } from './draft';

const DATABASE = 'leasehold-drafts';
const DRAFTS = 'drafts';
const BY_DOCUMENT = 'by-document';

/** Drafts in IndexedDB: they survive a reload and a crash, and stay in this browser. */
export function indexedDrafts(): DraftStore {
  let opening: Promise<IDBDatabase> | null = null;

  function forget(): void {
    opening = null;
  }

  function open(): Promise<IDBDatabase> {
    opening ??= openDatabase(forget).catch((error: unknown) => {
      forget(); // a private window or a full disk may allow it later
      throw error;
    });
    return opening;
  }

  async function act<Result>(
    ask: (drafts: IDBObjectStore) => IDBRequest<Result>,
    mode: IDBTransactionMode,
  ): Promise<Result> {
    const transaction = (await open()).transaction(DRAFTS, mode);
    const request = ask(transaction.objectStore(DRAFTS));
    await ended(transaction);
    return request.result;
  }

  async function attempt<Result>(
    ask: (drafts: IDBObjectStore) => IDBRequest<Result>,
    mode: IDBTransactionMode,
  ): Promise<Result | null> {
    try {
      return await act(ask, mode).catch((error: unknown) => {
        if (!isClosed(error)) throw error;
        forget();
        return act(ask, mode);
      });
    } catch {
      return null;
    }
  }

  return {
    async put(draft) {
      return (await attempt((drafts) => drafts.put(draft), 'readwrite')) !== null;
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

/** The browser has closed the connection, and its event has not arrived yet, or never does. */
function isClosed(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'InvalidStateError';
}

function openDatabase(onClosed: () => void): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => {
      const drafts = request.result.createObjectStore(DRAFTS, { keyPath: 'id' });
      drafts.createIndex(BY_DOCUMENT, ['userId', 'documentId']);
    };
    request.onsuccess = () => {
      const database = request.result;
      // After "Clear browsing data", or a disk failure.
      database.onclose = onClosed;
      // A tab with a newer page waits for this connection.
      database.onversionchange = () => {
        database.close();
        onClosed();
      };
      resolve(database);
    };
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
