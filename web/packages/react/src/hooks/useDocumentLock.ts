import { useEffect, useInsertionEffect, useMemo, useRef, useSyncExternalStore } from 'react';
import { workerTicker } from '../clock/workerTicker';
import { indexedDrafts } from '../drafts/indexedDrafts';
import { actionsOf } from '../editing/actions';
import { DocumentController } from '../editing/documentController';
import type { DocumentLock } from '../editing/view/documentLock';
import { newId } from '../protocol/tab';
import { broadcastTabs } from '../tabs/broadcastTabs';
import type { DocumentLockOptions } from './options';
import { portsOf } from './portsOf';

const browserDrafts = indexedDrafts();
const browserTabs = broadcastTabs();
const backgroundTicker = workerTicker();

/**
 * The lock of a document, with saving, while the component is mounted.
 *
 * The lock is released, with the unsaved text, when the component or the page goes away. Another `documentId`, user or `live`
 * starts anew; any other option applies from its next use.
 */
export function useDocumentLock(documentId: string, options: DocumentLockOptions): DocumentLock {
  const { user, role, live = null } = options;
  const latest = useRef(options);
  useInsertionEffect(() => {
    latest.current = options;
  });

  // biome-ignore lint/correctness/useExhaustiveDependencies: the other options are read from `latest` at their use
  const { controller, actions } = useMemo(
    () => create(documentId, options, latest),
    [documentId, user.id, live],
  );

  useEffect(() => controller.attach(), [controller]);
  useEffect(() => controller.setRole(role), [controller, role]);

  const state = useSyncExternalStore(controller.subscribe, controller.getState, controller.getState);
  return useMemo(() => ({ ...state, ...actions }), [state, actions]);
}

function create(
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
  const controller = new DocumentController({
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
  return { controller, actions: actionsOf(controller, () => live?.reconnect()) };
}
