/** The values of a form's fields, by name. */
export function textsOf(form: HTMLFormElement): Readonly<Record<string, string>> {
  return Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)]));
}
