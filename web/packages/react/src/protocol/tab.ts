/**
 * The random id of this tab, made in memory when the page loads, and secret.
 *
 * Never in sessionStorage: a duplicated tab copies that, and two tabs would be one holder.
 */
export const pageTab: string = newId();

/** A random name of 128 bits. */
export function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) =>
    byte.toString(16).padStart(2, '0'),
  ).join('');
}
