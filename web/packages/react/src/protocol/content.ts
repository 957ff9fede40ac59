/** The content of a document: text, or a JSON object such as TipTap's. */
export type Content = string | { readonly [member: string]: unknown };

/** A document from the service. */
export interface LoadedDocument {
  readonly version: number;
  readonly content: Content;
  /** The service's content, if `content` is a draft in its place: an edit, which may be undone. */
  readonly replaced?: Content;
}

/** Compares two contents, regardless of the order of their members. */
export function isSameContent(one: unknown, other: unknown): boolean {
  if (Object.is(one, other)) return true;
  if (!isContainer(one) || !isContainer(other) || Array.isArray(one) !== Array.isArray(other)) return false;
  const names = Object.keys(one);
  return (
    names.length === Object.keys(other).length &&
    names.every((name) => Object.hasOwn(other, name) && isSameContent(one[name], other[name]))
  );
}

function isContainer(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
