/** What a document holds: text, or a JSON object such as TipTap's. */
export type Content = string | { readonly [member: string]: unknown };

/** A document as the service has it. */
export interface LoadedDocument {
  readonly version: number;
  readonly content: Content;
  /** What the service has at that version, if `content` is a draft in its place: an edit, which may be undone. */
  readonly replaced?: Content;
}

/** Whether two contents are the same, whatever the order of their members. */
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
