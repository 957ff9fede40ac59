import type { Person } from '../../protocol/messages.generated';
import type { LossReason, TextOutcome } from '../terms/notices';
import { callersOf, letGo } from './release';
import { hasLease, isDirty, type State, withText } from './state';

export type Loss =
  | { readonly kind: 'taken'; readonly by: Person | null }
  | { readonly kind: 'lost'; readonly why: LossReason };

/** The lock has ended without a release. Unsaved text is sent under the old fence, and the service decides. */
export function lose(state: State, loss: Loss): State {
  const { hold } = state;
  if (!hasLease(hold)) return state;
  if (isDirty(state) || state.text?.saving) {
    return {
      ...state,
      hold: { kind: 'ended', fence: hold.fence, callers: callersOf(state) },
      notice: { ...loss, outcome: { kind: 'saving' } },
    };
  }
  const notice = { ...loss, outcome: { kind: 'nothing-unsaved' } } as const;
  return letGo({ ...withText(state, { isStale: true }), notice });
}

/** Adds the outcome of the text to the notice of a loss. */
export function resolveLoss(state: State, outcome: TextOutcome): State {
  const { notice } = state;
  if (notice?.kind !== 'taken' && notice?.kind !== 'lost') return state;
  return { ...state, notice: { ...notice, outcome } };
}
