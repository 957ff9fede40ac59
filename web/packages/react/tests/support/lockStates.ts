import type { Lock, LockHolder, ServerMessage, Welcome } from '../../src/protocol/messages.generated';

export const welcome: Welcome = {
  user_id: 'ana',
  user_name: 'Ana',
  expires_at: null,
  ttl: 45,
  heartbeat: 10,
  idle: 30,
};

export function holder(name: string, more: Partial<LockHolder> = {}): LockHolder {
  return {
    user_id: name.toLowerCase(),
    user_name: name,
    acquired_at: 1_790_000_000,
    same_user: false,
    tab_is_mine: false,
    idle_since: null,
    ...more,
  };
}

export function lockState(fence: string, step = 0, who: LockHolder | null = holder('Bob')): Lock {
  return {
    document_id: 'd',
    locked: who !== null,
    lock_holder: who,
    version: { fence, step },
    expires_in: who && 45,
    taking: null,
  };
}

export function changed(
  lock: Lock,
  type: 'document_locked' | 'document_unlocked' = 'document_locked',
): ServerMessage {
  return {
    type,
    data: { document_id: 'd', lock_holder: lock.lock_holder, triggered_by: null, timestamp: 0, lock },
  };
}

export function joined(lock: Lock): ServerMessage {
  return { type: 'joined', data: { document_id: 'd', role: 'editor', lock } };
}
