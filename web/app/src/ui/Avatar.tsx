const HUES = 6;

/** The initial of a name in a constant colour. Decoration: the name itself stands beside it. */
export function Avatar({ name }: { readonly name: string }) {
  const sum = [...name].reduce(
    (total, character) => (total * 31 + (character.codePointAt(0) ?? 0)) % 65_521,
    7,
  );
  const [initial = '?'] = name;
  return (
    <span className={`avatar avatar-${sum % HUES}`} aria-hidden="true">
      {initial.toLocaleUpperCase()}
    </span>
  );
}
