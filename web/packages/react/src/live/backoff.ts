const FIRST_MS = 500;
const LONGEST_MS = 20_000;

/**
 * The pause after `failures` failed attempts: between half and all of a time that doubles.
 *
 * The random part keeps pages from reconnecting all at once after an outage.
 */
export function pauseMs(failures: number, random: () => number): number {
  const whole = Math.min(FIRST_MS * 2 ** Math.max(0, failures - 1), LONGEST_MS);
  return whole * (0.5 + random() / 2);
}
