import type { Draft } from '../../drafts/draft';
import type { LiveEvent } from '../../live/live';
import type { Content } from '../../protocol/content';
import type { Role } from '../../protocol/rest';
import type { TabMessage } from '../../tabs/tabs';
import type { AcquireAnswer, BeatAnswer, LoadAnswer, LookAnswer, SaveAnswer } from '../terms/service';

/** The inputs of the machine: from the clock, the user, the page and the service. */
export type Input =
  | { readonly kind: 'tick' }
  | { readonly kind: 'activity' }
  | { readonly kind: 'typed'; readonly content: Content }
  | { readonly kind: 'edit-requested'; readonly how: 'acquire' | 'take' }
  /** Continue here with the editing of another tab; `request` is random. */
  | { readonly kind: 'continue-requested'; readonly request: string }
  | { readonly kind: 'tab-message'; readonly message: TabMessage }
  /** The alarm that was set for `until`. */
  | { readonly kind: 'alarm'; readonly until: number }
  | { readonly kind: 'stop-requested' }
  | { readonly kind: 'save-requested' }
  | { readonly kind: 'retry-requested' }
  | { readonly kind: 'reload-requested' }
  | { readonly kind: 'role-changed'; readonly role: Role }
  | { readonly kind: 'notice-dismissed' }
  | { readonly kind: 'drafts-found'; readonly drafts: readonly Draft[] }
  | { readonly kind: 'restore-requested'; readonly id: string }
  | { readonly kind: 'draft-discarded'; readonly id: string }
  /** `areKept`: the browser has stored the latest drafts. */
  | { readonly kind: 'drafts-kept'; readonly areKept: boolean }
  /** The host is ready for the release; `content` is saved with it. */
  | { readonly kind: 'host-ready'; readonly serial: number; readonly content: Content | undefined }
  /** An earlier controller of this page is still saving the same document, or has ended. */
  | { readonly kind: 'earlier-save-started' }
  | { readonly kind: 'earlier-save-ended' }
  /** The page is visible again, or was restored from the browser's cache. */
  | { readonly kind: 'page-shown' }
  /** The page is going away: there is time for one request. */
  | { readonly kind: 'page-hiding'; readonly content: Content | undefined }
  /** The component was removed; the page remains. */
  | { readonly kind: 'component-removed' }
  | { readonly kind: 'component-returned' }
  | { readonly kind: 'live'; readonly event: LiveEvent }
  | { readonly kind: 'acquire-answered'; readonly serial: number; readonly answer: AcquireAnswer }
  | { readonly kind: 'beat-answered'; readonly serial: number; readonly answer: BeatAnswer }
  | { readonly kind: 'look-answered'; readonly serial: number; readonly answer: LookAnswer }
  | { readonly kind: 'release-answered'; readonly serial: number; readonly answer: LookAnswer }
  | { readonly kind: 'load-answered'; readonly serial: number; readonly answer: LoadAnswer }
  | { readonly kind: 'save-answered'; readonly serial: number; readonly answer: SaveAnswer };
