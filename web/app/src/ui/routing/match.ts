/** The parameters of a pattern such as `/documents/:id`. */
export type ParametersOf<Pattern extends string> = Pattern extends `${string}:${infer Name}/${infer Rest}`
  ? { readonly [Key in Name]: string } & ParametersOf<Rest>
  : Pattern extends `${string}:${infer Name}`
    ? { readonly [Key in Name]: string }
    : object;

/** The decoded parameters; null if the path does not match. A trailing slash is ignored. */
export function match<Pattern extends string>(pattern: Pattern, path: string): ParametersOf<Pattern> | null {
  const expected = partsOf(pattern);
  const given = partsOf(path);
  if (expected.length !== given.length) return null;
  const found: Record<string, string> = {};
  for (const [place, part] of expected.entries()) {
    const value = decoded(given[place] ?? '');
    if (value === null) return null;
    if (part.startsWith(':')) found[part.slice(1)] = value;
    else if (part !== value) return null;
  }
  return found as ParametersOf<Pattern>;
}

function partsOf(path: string): string[] {
  return path.split('/').filter((part) => part !== '');
}

function decoded(part: string): string | null {
  try {
    return decodeURIComponent(part);
  } catch {
    return null; // a lone percent sign
  }
}
