import { useEffect, useInsertionEffect, useMemo, useRef, useSyncExternalStore } from 'react';
import { workerTicker } from '../clock/workerTicker';
import { indexedDrafts } from '../drafts/indexedDrafts';
import { actionsOf } from '../editing/actions';
import { DocumentSession } from '../editing/documentController';
import type { DocumentLock } from '../editing/view/documentLock';
import { newId } from '../protocol/tab';
import { broadcastTabs } from '../tabs/broadcastTabs';
import type { DocumentLockOptions } from './options';
import { portsOf } from './portsOf';

const browserDrafts = indexedDrafts();
const browserTabs = broadcastTabs();
const backgroundTicker = workerTicker();

/**
 * The lock of a document, and the saving that goes with it, for as long as the component is there.
 *
 * The lock is given back, with what is not saved, when the component or the page goes away. Another `documentId`,
 * user or `live` begins anew; every other option counts from the next time that it is needed.
 */
export function useDocumentLock(documentId: string, options: DocumentLockOptions): DocumentLock {
  const { user, role, live = null } = options;
  const latest = useRef(options);
  useInsertionEffect(() => {
    latest.current = options;
  });

  // biome-ignore lint/correctness/useExhaustiveDependencies: the other options are read when they are needed, from `latest`
  const { session, actions } = useMemo(() => begin(documentId, options, latest), [documentId, user.id, live]);

  useEffect(() => session.attach(), [session]);
  useEffect(() => session.setRole(role), [session, role]);

  const state = useSyncExternalStore(session.subscribe, session.getState, session.getState);
  return useMemo(() => ({ ...state, ...actions }), [state, actions]);
}

function begin(
  documentId: string,
  options: DocumentLockOptions,
  latest: { readonly current: DocumentLockOptions },
) {
  const {
    drafts = browserDrafts,
    tabs = browserTabs,
    ticker = backgroundTicker,
    times = {},
    managesText = true,
    live = null,
  } = options;
  const session = new DocumentSession({
    documentId,
    userId: options.user.id,
    role: options.role,
    times,
    managesText,
    draftPrefix: newId(),
    drafts,
    ticker,
    ports: portsOf(latest, live, tabs),
  });
  return { session, actions: actionsOf(session, () => live?.reconnect()) };
}
