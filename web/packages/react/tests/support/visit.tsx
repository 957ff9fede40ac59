import { act, renderHook } from '@testing-library/react';
import { StrictMode } from 'react';
import { vi } from 'vitest';
import {
  connectLive,
  type DocumentLock,
  type DocumentLockOptions,
  pageTicker,
  useDocumentLock,
} from '../../src';
import { MemoryDrafts } from './memoryDrafts';
import type { ModelServer, Visitor } from './modelServer';

export const ana: Visitor = { id: 'ana', name: 'Ana', tab: 'ana-1', role: 'editor' };
export const bob: Visitor = { id: 'bob', name: 'Bob', tab: 'bob-1', role: 'editor' };
export const olga: Visitor = { id: 'olga', name: 'Olga', tab: 'olga-1', role: 'owner' };
export const vera: Visitor = { id: 'vera', name: 'Vera', tab: 'vera-1', role: 'viewer' };

/** A page that shows the document. */
export interface Visit {
  readonly lock: DocumentLock;
  readonly drafts: MemoryDrafts;
  type(text: string): Promise<void>;
  leave(): Promise<void>;
}

interface Visiting extends Partial<DocumentLockOptions> {
  readonly drafts?: MemoryDrafts;
  readonly isStrict?: boolean;
  readonly isWithoutSocket?: boolean;
}

export async function visit(server: ModelServer, who: Visitor, visiting: Visiting = {}): Promise<Visit> {
  const { isStrict = false, isWithoutSocket = false, drafts = new MemoryDrafts(), ...more } = visiting;
  const live = isWithoutSocket
    ? null
    : connectLive({
        url: 'ws://model/ws',
        tab: who.tab,
        credentials: async () => ({ token: who.id }),
        openSocket: () => server.openSocket(who),
        random: () => 0,
      });
  const options: DocumentLockOptions = {
    user: who,
    role: who.role,
    transport: server.transport(who),
    live,
    drafts,
    // By default each page is in a browser of its own.
    tabs: null,
    ticker: pageTicker(),
    ...more,
  };
  const shown = renderHook(() => useDocumentLock('d', options), isStrict ? { wrapper: StrictMode } : {});
  await pass(0);
  return {
    get lock() {
      return shown.result.current;
    },
    drafts,
    async type(text) {
      await act(async () => shown.result.current.noteChange(text));
      await pass(0);
    },
    async leave() {
      shown.unmount();
      await pass(0);
    },
  };
}

/** Advances the time by `seconds`, with all timers. */
export async function pass(seconds: number): Promise<void> {
  await act(async () => {
    await vi.advanceTimersByTimeAsync(seconds * 1000);
  });
}

/** Advances the time by `seconds` without timers: the machine is asleep. */
export async function sleep(seconds: number): Promise<void> {
  vi.setSystemTime(Date.now() + seconds * 1000);
  await pass(0);
}

/** A promise that is resolved from outside. */
export function moment(): { readonly comes: Promise<void>; come(): void } {
  let come = () => {};
  const comes = new Promise<void>((resolve) => {
    come = resolve;
  });
  return { comes, come: () => come() };
}

export function useFakeTime(): void {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date', 'performance'],
  });
}
