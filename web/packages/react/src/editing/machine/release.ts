import { type Content, isSameContent } from '../../protocol/content';
import type { Person } from '../../protocol/messages.generated';
import type { LossReason, Notice, TextOutcome } from '../terms/notices';
import { type Ending, emit, isDirty, isYielding, type Session } from './state';
import { change } from './text';

/** How long a taker's save waits for the host and for an autosave under way. The service waits for about 3 s. */
const HURRY_MS = 1_000;
/** How long any other release waits for the host. */
const PREPARE_MS = 10_000;

/** Give the lock back: the host first, then a save and the release in one. */
export function end(session: Session, reason: Ending['reason'], taker: Person | null = null): Session {
  const { hold, now, text, times } = session;
  if (hold.kind !== 'held') return session;
  const serial = session.serial + 1;
  const ending: Ending = {
    kind: 'ending',
    fence: hold.fence,
    reason,
    taker,
    preparing: { serial, revision: text.revision },
    isPrepared: false,
    hurryAt: now + (taker ? HURRY_MS : PREPARE_MS),
  };
  // A heartbeat that arrives after the release would be told that the lock is lost. It is kept alive only if the release
  // takes long; a hold outlasts two heartbeats.
  const beatAt = Math.max(session.beatAt, now + 1000 * times.heartbeat);
  return emit({ ...session, serial, hold: ending, isUnsure: false, beatAt }, { kind: 'prepare', serial });
}

/** Somebody wants to stop editing. */
export function stop(session: Session): Session {
  const { hold } = session;
  if (hold.kind === 'calling') return { ...session, hold: { kind: 'none' } };
  if (hold.kind === 'asking') return { ...session, hold: { ...hold, isUnwanted: true } };
  return end(session, 'released');
}

/** The host is ready, perhaps with a newer text. What was typed since it was asked is newer still. */
export function prepared(session: Session, serial: number, content: Content | undefined): Session {
  const { hold, text, managesText } = session;
  if (hold.kind !== 'ending' || hold.isPrepared || hold.preparing.serial !== serial) return session;
  const ready = { ...session, hold: { ...hold, isPrepared: true } };
  if (!managesText || content === undefined || text.revision > hold.preparing.revision) return ready;
  return isSameContent(content, text.current) ? ready : change(ready, content);
}

/** Somebody wants the lock that is being given back anyway: `taker`, or the same person at another tab. */
export function hurry(session: Session, taker: Person | null): Session {
  const { hold, now } = session;
  if (hold.kind !== 'ending' || hold.taker) return session;
  return { ...session, hold: { ...hold, taker, hurryAt: Math.min(hold.hurryAt, now + HURRY_MS) } };
}

/** It has been given back. `outcome` is what became of the text, for whoever was taken over. */
export function ended(session: Session, outcome: TextOutcome): Session {
  const { hold } = session;
  if (hold.kind !== 'ending') return session;
  const { taker, reason, fence } = hold;
  const notice: Notice = taker
    ? { kind: 'taken', by: taker, outcome }
    : isYielding(session)
      ? { kind: 'lost', why: 'moved', outcome }
      : { kind: reason };
  const given = { ...session, notice, isUnsure: false, beatAt: Number.POSITIVE_INFINITY };
  // Typed after the save for whoever waits had gone: the service decides whether it is too late for a version.
  if (isYielding(session) && isDirty(given)) return { ...given, hold: { kind: 'over', fence } };
  return { ...given, hold: { kind: 'none' } };
}

export type Loss =
  | { readonly kind: 'taken'; readonly by: Person | null }
  | { readonly kind: 'lost'; readonly why: LossReason };

/** The lock is gone, unasked. Text that is not saved goes to the service under the old fence, which decides. */
export function lose(session: Session, loss: Loss): Session {
  const { hold, text } = session;
  if (hold.kind !== 'held' && hold.kind !== 'ending') return session;
  const lost = { ...session, isUnsure: false, beatAt: Number.POSITIVE_INFINITY };
  if (isDirty(session) || session.saving) {
    return {
      ...lost,
      hold: { kind: 'over', fence: hold.fence },
      notice: { ...loss, outcome: { kind: 'saving' } },
    };
  }
  return {
    ...lost,
    hold: { kind: 'none' },
    text: { ...text, isStale: session.managesText },
    notice: { ...loss, outcome: { kind: 'nothing-unsaved' } },
  };
}

/** What became of the text after the lock was lost. */
export function resolveLoss(session: Session, outcome: TextOutcome): Session {
  const { notice } = session;
  if (notice?.kind !== 'taken' && notice?.kind !== 'lost') return session;
  return { ...session, notice: { ...notice, outcome } };
}
