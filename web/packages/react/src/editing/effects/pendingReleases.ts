/** Controllers whose components were removed and that are not settled yet, by user and document. */
export type PendingReleases = Map<string, Promise<unknown>>;

/** Those of this page. */
export const pageReleases: PendingReleases = new Map();

/** Ids may hold any character: encoded, two pairs never make the same key. */
export function keyOf(userId: string, documentId: string): string {
  return `${encodeURIComponent(userId)}/${encodeURIComponent(documentId)}`;
}

/** Adds a release, until the returned function is called. */
export function addRelease(releases: PendingReleases, key: string): () => void {
  let settle = () => {};
  const left = new Promise<void>((resolve) => {
    settle = resolve;
  });
  const all = Promise.all([releases.get(key), left]).then(() => {
    if (releases.get(key) === all) releases.delete(key);
  });
  releases.set(key, all);
  return settle;
}
