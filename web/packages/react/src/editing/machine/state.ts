import type { Draft } from '../../drafts/draft';
import type { Content, LoadedDocument } from '../../protocol/content';
import type { Lock, Person } from '../../protocol/messages.generated';
import type { Role } from '../../protocol/rest';
import type { Notice } from '../terms/notices';
import { defaultTimes, type Times } from '../terms/times';
import type { Effect } from './effects';

/** What this page has of the lock. */
export type Hold =
  | { readonly kind: 'none' }
  | Calling
  /** Asked for, and asked for again until there is an answer. `isUnwanted`: to be given back at once. */
  | { readonly kind: 'asking'; readonly how: 'acquire' | 'move' | 'take'; readonly isUnwanted: boolean }
  | { readonly kind: 'held'; readonly fence: string }
  | Ending
  /** The lock has ended, and there is text that has to be saved under its fence: as a version or as a draft. */
  | { readonly kind: 'over'; readonly fence: string };

/** Before the lock is moved here: the tab that holds it is asked to save. */
export interface Calling {
  readonly kind: 'calling';
  readonly request: string;
  /** How many tabs have heard it, and are saving. */
  readonly savers: number;
  /** From then on nothing is waited for. */
  readonly until: number;
}

/** Being given back: first prepared by the host, then saved and released in one request. */
export interface Ending {
  readonly kind: 'ending';
  readonly fence: string;
  readonly reason: 'released' | 'idle';
  /** Who takes over, and is waiting for it. */
  readonly taker: Person | null;
  /** What the host was asked with, and how far the text was then. */
  readonly preparing: { readonly serial: number; readonly revision: number };
  readonly isPrepared: boolean;
  /** From then on nothing is waited for: neither the host nor an autosave that is under way. */
  readonly hurryAt: number;
}

export interface Text {
  /** The version that the text was made from; null before the document is loaded. */
  readonly base: number | null;
  /** As the editor has it. */
  readonly current: Content;
  /** Counts the changes; up to `saved` there is nothing to be sent: the service has it, or it was put aside. */
  readonly revision: number;
  readonly saved: number;
  /** The newest that the service has said it has, or has sent itself. */
  readonly acknowledged: number;
  readonly changedAt: number;
  /** When the oldest change that is not saved was made. */
  readonly unsavedSince: number;
  /** The service may have a newer one: load it before anybody types. */
  readonly isStale: boolean;
  /** What the editor has to show. */
  readonly loaded: LoadedDocument | null;
}

/** A save that is under way. If no answer came it is sent again as it was: only then does the service know it. */
export interface Saving {
  readonly serial: number;
  readonly revision: number;
  readonly content: Content;
  readonly baseVersion: number;
  readonly fence: string;
  readonly release: 'released' | 'idle' | null;
  readonly isUnknown: boolean;
}

export type Call = 'acquire' | 'beat' | 'look' | 'load' | 'release';

export interface Session {
  /** Milliseconds; never goes back. */
  readonly now: number;
  readonly times: Times;
  /** Those that the host has set. */
  readonly givenTimes: Partial<Times>;
  readonly userId: string;
  readonly documentId: string;
  readonly role: Role;
  /** Whether texts are loaded and saved here, or by the host. */
  readonly managesText: boolean;
  /** The newest state that was told. */
  readonly lock: Lock | null;
  /** A holder was put into it from an answer without a version: the same version, told again, goes before it. */
  readonly isLockGuessed: boolean;
  readonly hold: Hold;
  /** The fence of the last hold of this page. */
  readonly lastFence: string | null;
  readonly text: Text;
  readonly saving: Saving | null;
  /** Requests of other tabs of this person that this one has heard: they wait until its text is saved. */
  readonly callers: readonly string[];
  /** Asked for by somebody who does not want to wait for the autosave. */
  readonly isSaveAsked: boolean;
  readonly lastSaved: { readonly version: number; readonly at: number } | null;
  /** Serial numbers of the requests under way; an answer to any other is late. */
  readonly calls: Readonly<Record<Call, number | null>>;
  readonly serial: number;
  /** Requests in a row without an answer, and when to try again. */
  readonly failures: number;
  readonly retryAt: number;
  readonly beatAt: number;
  readonly lookAt: number;
  readonly hasSocket: boolean;
  /** The page was asleep: nothing is saved before the service has said whether the lock is still there. */
  readonly isUnsure: boolean;
  readonly activityAt: number;
  /** Until then nothing is asked for: an earlier session of this page still saves the same document. */
  readonly waitsUntil: number;
  /** The page is going away, perhaps to come back; or the component has gone, and the page goes on. */
  readonly leaving: 'page' | 'component' | null;
  readonly notice: Notice | null;
  /** Texts that were put aside, and those found in this browser; newest first. */
  readonly drafts: readonly Draft[];
  /** This browser has to be asked for drafts. */
  readonly areDraftsDue: boolean;
  /** Whether this browser has kept what it was last given. */
  readonly keepsDrafts: boolean;
  /** Names this page's drafts: `draftPrefix` and a number that grows when one is put aside. */
  readonly draftPrefix: string;
  readonly draftNumber: number;
  /** Wanted in the editor as soon as the lock is here; only as long as the lock is asked for, or held. */
  readonly restoring: Draft | null;
  /** Drafts that are in the editor now: dropped when it is saved. */
  readonly restored: readonly string[];
  /** What has to be done now; emptied at every step. */
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

export function beginSession(beginning: Beginning): Session {
  const { documentId, userId, role, now, times = {}, managesText = true, draftPrefix } = beginning;
  const { keepsDrafts = true } = beginning;
  return {
    now,
    times: { ...defaultTimes, ...times },
    givenTimes: times,
    userId,
    documentId,
    role,
    managesText,
    lock: null,
    isLockGuessed: false,
    hold: { kind: 'none' },
    lastFence: null,
    text: {
      base: null,
      current: '',
      revision: 0,
      saved: 0,
      acknowledged: 0,
      changedAt: now,
      unsavedSince: now,
      isStale: managesText,
      loaded: null,
    },
    saving: null,
    callers: [],
    isSaveAsked: false,
    lastSaved: null,
    calls: { acquire: null, beat: null, look: null, load: null, release: null },
    serial: 0,
    failures: 0,
    retryAt: now,
    beatAt: Number.POSITIVE_INFINITY,
    lookAt: now,
    hasSocket: false,
    isUnsure: false,
    activityAt: now,
    waitsUntil: now,
    leaving: null,
    notice: null,
    drafts: [],
    areDraftsDue: true,
    keepsDrafts,
    draftPrefix,
    draftNumber: 0,
    restoring: null,
    restored: [],
    effects: [],
  };
}

/** Whether there is text that the service has not acknowledged. */
export function isDirty({ text }: Session): boolean {
  return text.revision > text.saved;
}

/** Somebody else has the lock, or the same person at another tab. */
export function isOthers({ lock }: Session): boolean {
  return lock?.lock_holder != null && !lock.lock_holder.tab_is_mine;
}

/** The same person has the lock at another tab. */
export function isOwnElsewhere(session: Session): boolean {
  return isOthers(session) && session.lock?.lock_holder?.same_user === true;
}

/** Somebody is waiting for the lock that is being given back: nothing more may be typed, and nothing takes long. */
export function isYielding({ hold, callers }: Session): boolean {
  return hold.kind === 'ending' && (hold.taker !== null || callers.length > 0);
}

/** A release is on its way, alone or with a save. */
export function isReleasing({ saving, calls }: Session): boolean {
  return calls.release !== null || saving?.release != null;
}

export function emit(session: Session, ...effects: readonly Effect[]): Session {
  return { ...session, effects: [...session.effects, ...effects] };
}
