import type { Draft } from '../../drafts/draft';
import type { Content, LoadedDocument } from '../../protocol/content';
import type { Lock, Person } from '../../protocol/messages.generated';
import type { Role } from '../../protocol/rest';
import type { Notice } from '../terms/notices';
import type { SaveRequest } from '../terms/service';
import { defaultTimes, type Times } from '../terms/times';
import type { Effect } from './effects';

/** This page's share in the lock, from request to release. */
export type Hold = { readonly kind: 'none' } | CallingTabs | Requested | Held | Releasing | Ended;

/** Before the lock moves to this tab: the tab that holds it is asked to save. */
export interface CallingTabs {
  readonly kind: 'calling-tabs';
  readonly request: string;
  /** How many tabs have answered that they are saving. */
  readonly savers: number;
  /** The end of the wait. */
  readonly until: number;
}

/** Requested, and requested again until an answer arrives. */
export interface Requested {
  readonly kind: 'requested';
  readonly how: 'acquire' | 'move' | 'take';
  readonly purpose: Purpose;
  /** Of the request under way. */
  readonly serial: number | null;
}

/** What a requested lock is for. `release`: it is no longer wanted, and released as soon as it is granted. */
export type Purpose =
  | { readonly kind: 'edit' }
  | { readonly kind: 'restore'; readonly draft: Draft }
  | { readonly kind: 'release' };

interface Lease {
  readonly fence: string;
  /** When the next heartbeat is due. */
  readonly beatAt: number;
}

export interface Held extends Lease {
  readonly kind: 'held';
  /** The page was asleep: nothing is saved until the service has confirmed the lock. */
  readonly isUnsure: boolean;
  /** Goes into the editor as soon as the newest text is here. */
  readonly restoring: Draft | null;
}

/** Being released: the host prepares first, then one request saves and releases. */
export interface Releasing extends Lease {
  readonly kind: 'releasing';
  readonly reason: 'released' | 'idle';
  /** The user who takes over and waits for the lock. */
  readonly taker: Person | null;
  /** Requests of the same user's tabs that wait for the text of this one. */
  readonly callers: readonly string[];
  /** The call to the host, and the text's revision at that time; null once the host is ready. */
  readonly preparing: { readonly serial: number; readonly revision: number } | null;
  /** The end of the wait for the host and for an autosave under way. */
  readonly hurryAt: number;
}

/** The lock has ended, and some text must be saved under its fence: as a version or as a draft. */
export interface Ended {
  readonly kind: 'ended';
  readonly fence: string;
  readonly callers: readonly string[];
}

export interface Text {
  /** The version on which the text is based; null before the document is loaded. */
  readonly base: number | null;
  /** The editor's content. */
  readonly current: Content;
  /** Counts the changes; up to `saved` nothing has to be sent: the service has it, or it was put aside. */
  readonly revision: number;
  readonly saved: number;
  /** The newest revision that the service has confirmed or has sent itself. */
  readonly acknowledged: number;
  readonly changedAt: number;
  /** The time of the oldest unsaved change. */
  readonly unsavedSince: number;
  /** The service may have a newer text: it is loaded before anyone types. */
  readonly isStale: boolean;
  /** The content that the editor has to show. */
  readonly loaded: LoadedDocument | null;
  /** A save was requested that does not wait for the autosave. */
  readonly isSaveAsked: boolean;
  readonly saving: Saving | null;
  readonly lastSaved: { readonly version: number; readonly at: number } | null;
}

export interface SentText {
  readonly revision: number;
  readonly request: SaveRequest;
}

/** An unanswered save is sent again unchanged: only then can the service recognize it. */
export type Saving = SentText &
  ({ readonly kind: 'sent'; readonly serial: number } | { readonly kind: 'unanswered' });

export interface Drafts {
  /** Texts that were put aside or found in this browser; newest first. */
  readonly offered: readonly Draft[];
  /** The browser's store must be searched. */
  readonly areDue: boolean;
  /** Whether the browser has stored what it was last given. */
  readonly areKept: boolean;
  /** This page's drafts are named `prefix` and a number that grows with each text put aside. */
  readonly prefix: string;
  readonly number: number;
  /** Drafts that are in the editor now: dropped when it is saved. */
  readonly restored: readonly string[];
}

/** `failures` requests in a row were unanswered; the next attempt is at `retryAt`. */
export type Service =
  | { readonly kind: 'reached' }
  | { readonly kind: 'unreached'; readonly failures: number; readonly retryAt: number };

export type Call = 'beat' | 'look' | 'load' | 'release';

export interface State {
  /** Milliseconds; never decreases. */
  readonly now: number;
  readonly userId: string;
  readonly documentId: string;
  readonly role: Role;
  readonly times: Times;
  /** The times that the host has set. */
  readonly givenTimes: Partial<Times>;
  /** The newest lock state. In a guess, the holder is from an answer without a version: the same version replaces it. */
  readonly known: { readonly lock: Lock; readonly isGuess: boolean } | null;
  readonly hold: Hold;
  /** The fence of this page's latest hold. */
  readonly lastFence: string | null;
  /** Null if the host loads and saves. */
  readonly text: Text | null;
  /** Serial numbers of the requests under way; an answer to any other is late. */
  readonly calls: Readonly<Record<Call, number | null>>;
  readonly serial: number;
  readonly service: Service;
  readonly lookAt: number;
  readonly hasSocket: boolean;
  readonly activityAt: number;
  /** No request before this time: an earlier controller of this page is still saving the same document. */
  readonly waitsUntil: number;
  /** The page is being hidden, perhaps temporarily; or the component was removed, and the page remains. */
  readonly leaving: 'page' | 'component' | null;
  readonly notice: Notice | null;
  readonly drafts: Drafts;
  /** What the last input requires; empty before every step. */
  readonly effects: readonly Effect[];
}

export interface Beginning {
  readonly documentId: string;
  readonly userId: string;
  readonly role: Role;
  readonly now: number;
  readonly times?: Partial<Times>;
  readonly managesText?: boolean;
  readonly draftPrefix: string;
  readonly keepsDrafts?: boolean;
}

export const NOT_HELD: Hold = { kind: 'none' };
export const REACHED: Service = { kind: 'reached' };
export const EDIT: Purpose = { kind: 'edit' };

export function initialState(beginning: Beginning): State {
  const { documentId, userId, role, now, times = {}, managesText = true, draftPrefix } = beginning;
  const { keepsDrafts = true } = beginning;
  return {
    now,
    userId,
    documentId,
    role,
    times: { ...defaultTimes, ...times },
    givenTimes: times,
    known: null,
    hold: NOT_HELD,
    lastFence: null,
    text: managesText ? emptyText(now) : null,
    calls: { beat: null, look: null, load: null, release: null },
    serial: 0,
    service: REACHED,
    lookAt: now,
    hasSocket: false,
    activityAt: now,
    waitsUntil: now,
    leaving: null,
    notice: null,
    drafts: { offered: [], areDue: true, areKept: keepsDrafts, prefix: draftPrefix, number: 0, restored: [] },
    effects: [],
  };
}

function emptyText(now: number): Text {
  return {
    base: null,
    current: '',
    revision: 0,
    saved: 0,
    acknowledged: 0,
    changedAt: now,
    unsavedSince: now,
    isStale: true,
    loaded: null,
    isSaveAsked: false,
    saving: null,
    lastSaved: null,
  };
}

export function emit(state: State, ...effects: readonly Effect[]): State {
  return { ...state, effects: [...state.effects, ...effects] };
}

/** Unchanged if the host manages the text. */
export function withText(state: State, changes: Partial<Text>): State {
  return state.text ? { ...state, text: { ...state.text, ...changes } } : state;
}

/** Unchanged without a lease. */
export function withBeatAt(state: State, beatAt: number): State {
  const { hold } = state;
  return hasLease(hold) ? { ...state, hold: { ...hold, beatAt } } : state;
}

export function hasLease(hold: Hold): hold is Held | Releasing {
  return hold.kind === 'held' || hold.kind === 'releasing';
}

/** The service has confirmed the lock. */
export function confirm(state: State): State {
  const { hold } = state;
  return hold.kind === 'held' ? { ...state, hold: { ...hold, isUnsure: false } } : state;
}

/** The draft that goes into the editor once the lock is held. */
export function wantedDraft(hold: Hold): Draft | null {
  if (hold.kind === 'held') return hold.restoring;
  return hold.kind === 'requested' && hold.purpose.kind === 'restore' ? hold.purpose.draft : null;
}

/** Some text is not acknowledged by the service. */
export function isDirty({ text }: State): boolean {
  return text !== null && text.revision > text.saved;
}

/** Another user holds the lock, or the same user in another tab. */
export function isOthers({ known }: State): boolean {
  return known?.lock.lock_holder != null && !known.lock.lock_holder.tab_is_mine;
}

/** The same user holds the lock in another tab. */
export function isOwnElsewhere(state: State): boolean {
  return isOthers(state) && state.known?.lock.lock_holder?.same_user === true;
}

/** A taker or another tab waits for the release: the text may not change, and waits are short. */
export function isYielding({ hold }: State): boolean {
  return hold.kind === 'releasing' && (hold.taker !== null || hold.callers.length > 0);
}

/** A release is under way, alone or with a save. */
export function isReleasing({ text, calls }: State): boolean {
  return calls.release !== null || text?.saving?.request.release != null;
}

export function isOffline({ service }: State): boolean {
  return service.kind === 'unreached';
}
