import type { LockVersion } from './messages.generated';

/** The step of a lock of which no hold is known. Its fence is the time of the reading: newer at every one. */
export const NO_HOLD = -1;

/** True if `version` is of a later state than `known`. Fences are compared as numbers of any length, then steps. */
export function isNewer(version: LockVersion, known: LockVersion): boolean {
  const order = compareFences(version.fence, known.fence);
  return order > 0 || (order === 0 && version.step > known.step);
}

/** Negative, zero or positive, as for `sort`. A fence may exceed a JavaScript number. */
export function compareFences(one: string, other: string): number {
  const difference = BigInt(one) - BigInt(other);
  return difference < 0n ? -1 : Number(difference > 0n);
}
