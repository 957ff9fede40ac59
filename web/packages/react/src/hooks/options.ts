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
  /** The role known to the host. The service's answer to the join replaces it. */
  readonly role: Role;
  readonly transport: Transport;
  /** Without it, the lock is requested every 30 s. */
  readonly live?: Live | null;
  /**
   * Called once before each release by this page. The returned content is saved with the release. A host that saves by itself
   * does so here. When the page goes away, only a content that is returned synchronously counts.
   */
  readonly onBeforeRelease?: () => BeforeRelease;
  /** Replaces single requests, for instance `GET /api/documents/{id}` and `PUT …/content`. */
  readonly service?: Partial<DocumentService>;
  /** False for a host that loads and saves by itself, in `onBeforeRelease`: then only the lock is managed here. */
  readonly managesText?: boolean;
  /** The store of unsaved text; IndexedDB by default, null for none. */
  readonly drafts?: DraftStore | null;
  /** The connection between the tabs of this browser; a BroadcastChannel by default, null for none. */
  readonly tabs?: Tabs | null;
  readonly times?: Partial<Times>;
  /** The clock; a Worker by default. */
  readonly ticker?: Ticker;
}

export type BeforeRelease = Content | undefined | Promise<Content | undefined> | Promise<void>;
