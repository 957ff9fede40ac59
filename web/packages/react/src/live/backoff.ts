const FIRST_MS = 500;
const LONGEST_MS = 20_000;

/**
 * The pause before the next attempt, after so many have failed: between half and all of a time that doubles.
 *
 * The random part keeps the pages of a team from coming back all at once when the service does.
 */
export function pauseMs(failures: number, random: () => number): number {
  const whole = Math.min(FIRST_MS * 2 ** Math.max(0, failures - 1), LONGEST_MS);
  return whole * (0.5 + random() / 2);
}
