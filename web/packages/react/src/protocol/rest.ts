import type { Lock } from './messages.generated';
import { isObject, matchesNamed } from './shapes';

export type { Lock, LockHolder } from './messages.generated';

/** What a user may do with a document. */
export type Role = 'viewer' | 'editor' | 'owner';

/** A lock held by the caller. Every save carries its `fence`. */
export interface GrantedLock extends Lock {
  readonly fence: string;
  readonly content_version: number;
}

export function isLock(body: unknown): body is Lock {
  return matchesNamed(body, 'Lock');
}

export function isGrantedLock(body: unknown): body is GrantedLock {
  return (
    isLock(body) &&
    isObject(body) &&
    typeof body.fence === 'string' &&
    /^[0-9]+$/.test(body.fence) &&
    Number.isInteger(body.content_version)
  );
}
