import type { Draft } from '../../drafts/draft';
import type { LiveEvent } from '../../live/live';
import type { Content } from '../../protocol/content';
import type { Role } from '../../protocol/rest';
import type { TabMessage } from '../../tabs/tabs';
import type { AcquireAnswer, BeatAnswer, LoadAnswer, LookAnswer, SaveAnswer } from '../terms/service';

/** What can happen to a session: the clock, the person, the page, the service. */
export type Input =
  | { readonly kind: 'tick' }
  | { readonly kind: 'touched' }
  | { readonly kind: 'typed'; readonly content: Content }
  | { readonly kind: 'edit-asked'; readonly how: 'acquire' | 'take' }
  /** To go on here with what is being edited at another tab; `request` is random. */
  | { readonly kind: 'continue-asked'; readonly request: string }
  | { readonly kind: 'tab-said'; readonly message: TabMessage }
  /** The alarm that was set for `until`. */
  | { readonly kind: 'rang'; readonly until: number }
  | { readonly kind: 'stop-asked' }
  | { readonly kind: 'save-asked' }
  | { readonly kind: 'retry-asked' }
  | { readonly kind: 'reload-asked' }
  | { readonly kind: 'role-changed'; readonly role: Role }
  | { readonly kind: 'notice-dismissed' }
  | { readonly kind: 'drafts-found'; readonly drafts: readonly Draft[] }
  | { readonly kind: 'draft-wanted'; readonly id: string }
  | { readonly kind: 'draft-discarded'; readonly id: string }
  /** Whether this browser keeps what it is given. */
  | { readonly kind: 'drafts-kept'; readonly areKept: boolean }
  /** The host is ready for the release; `content` is what it wants saved with it. */
  | { readonly kind: 'prepared'; readonly serial: number; readonly content: Content | undefined }
  /** An earlier session of this page still saves the same document; or does so no more. */
  | { readonly kind: 'held-up' }
  | { readonly kind: 'let-go' }
  /** The page can be seen again, or has come back from where browsers keep pages. */
  | { readonly kind: 'shown' }
  /** The page goes away: there is time for one request. */
  | { readonly kind: 'page-hiding'; readonly content: Content | undefined }
  /** The component has gone; the page goes on. */
  | { readonly kind: 'closed' }
  | { readonly kind: 'reopened' }
  | { readonly kind: 'live'; readonly event: LiveEvent }
  | { readonly kind: 'acquire-answered'; readonly serial: number; readonly answer: AcquireAnswer }
  | { readonly kind: 'beat-answered'; readonly serial: number; readonly answer: BeatAnswer }
  | { readonly kind: 'look-answered'; readonly serial: number; readonly answer: LookAnswer }
  | { readonly kind: 'release-answered'; readonly serial: number; readonly answer: LookAnswer }
  | { readonly kind: 'load-answered'; readonly serial: number; readonly answer: LoadAnswer }
  | { readonly kind: 'save-answered'; readonly serial: number; readonly answer: SaveAnswer };
