import { connectLive, fetchTransport, pageTicker, useDocumentLock, workerTicker } from '@leasehold/react';
import TickerWorker from '@leasehold/react/ticker.worker?worker';
import { createRoot } from 'react-dom/client';

/**
 * A page with only a lock, on which each way of keeping it can be disabled: `?ticker=page` uses the page's own timers,
 * `?socket=no` opens no socket for the service's requests. The document is in the hash.
 */
const asked = new URLSearchParams(location.search);
const body = JSON.stringify({ email: 'ana@demo.example', password: 'demo-ana' });
const headers = { 'Content-Type': 'application/json' };
const user = await (await fetch('/api/auth/login', { method: 'POST', headers, body })).json();

const transport = fetchTransport({ token: () => user.access_token });
const live =
  asked.get('socket') === 'no'
    ? null
    : connectLive({ url: '/ws', credentials: async () => ({ token: user.access_token }) });
const ticker = asked.get('ticker') === 'page' ? pageTicker() : workerTicker(() => new TickerWorker());
const times = { ttl: Number(asked.get('ttl')), heartbeat: Number(asked.get('heartbeat')), idle: 600 };

function OnlyTheLock() {
  const lock = useDocumentLock(location.hash.slice(1), {
    user: { id: user.id, name: user.display_name },
    role: 'editor',
    transport,
    live,
    ticker,
    times,
    drafts: null,
  });
  return (
    <>
      <p role="status">{lock.status}</p>
      <button type="button" onClick={() => void lock.acquireLock()}>
        Edit
      </button>
    </>
  );
}

const root = document.getElementById('root');
if (root) createRoot(root).render(<OnlyTheLock />);
