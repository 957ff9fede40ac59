/** Sessions that their components have left and that are not settled yet, by person and document. */
export type Lingering = Map<string, Promise<unknown>>;

/** Those of this page. */
export const pageLingering: Lingering = new Map();

/** Ids may hold any character: encoded, two pairs never make the same key. */
export function keyOf(userId: string, documentId: string): string {
  return `${encodeURIComponent(userId)}/${encodeURIComponent(documentId)}`;
}

/** Enters a session. It is there until the returned function is called. */
export function linger(lingering: Lingering, key: string): () => void {
  let settle = () => {};
  const left = new Promise<void>((resolve) => {
    settle = resolve;
  });
  const all = Promise.all([lingering.get(key), left]).then(() => {
    if (lingering.get(key) === all) lingering.delete(key);
  });
  lingering.set(key, all);
  return settle;
}
