import type { Ticker } from '../clock/ticker';
import type { DraftStore } from '../drafts/draft';
import type { DocumentService } from '../editing/terms/service';
import type { Times } from '../editing/terms/times';
import type { Live } from '../live/live';
import type { Content } from '../protocol/content';
import type { Role } from '../protocol/rest';
import type { Tabs } from '../tabs/tabs';
import type { Transport } from '../transport/transport';

export interface DocumentLockOptions {
  readonly user: { readonly id: string; readonly name: string };
  /** As the host knows it. What the service says on joining goes before it. */
  readonly role: Role;
  readonly transport: Transport;
  /** Without it, changes are found by asking every 30 s. */
  readonly live?: Live | null;
  /**
   * Called once before each release that this page brings about. What it returns is saved with the release.
   * A host that saves for itself does so here. When the page goes away, only what it returns at once counts.
   */
  readonly onBeforeRelease?: () => BeforeRelease;
  /** Other ways to load and to save than `GET /api/documents/{id}` and `PUT …/content`. */
  readonly service?: Partial<DocumentService>;
  /** False for a host that loads and saves by itself, in `onBeforeRelease`: then only the lock is looked after here. */
  readonly managesText?: boolean;
  /** Where unsaved text is kept: IndexedDB unless told otherwise; null keeps nothing. */
  readonly drafts?: DraftStore | null;
  /** How tabs of this browser ask each other to save: a BroadcastChannel unless told otherwise; null asks nobody. */
  readonly tabs?: Tabs | null;
  readonly times?: Partial<Times>;
  /** What the time is told by: a Worker unless told otherwise. */
  readonly ticker?: Ticker;
}

export type BeforeRelease = Content | undefined | Promise<Content | undefined> | Promise<void>;
