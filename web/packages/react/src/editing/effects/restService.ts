import type { Content } from '../../protocol/content';
import { isGrantedLock, isLock, type LockHolder } from '../../protocol/rest';
import { isObject, matchesNamed } from '../../protocol/shapes';
import type { Transport, TransportReply, TransportRequest } from '../../transport/transport';
import type { DocumentService, Refused, Unanswered } from '../terms/service';

/** A take-over waits for the previous editor's save, for earlier take-overs, and for the answer. */
const TAKE_TIMEOUT_MS = 20_000;

/** The service of docs/protocol.md, over `transport`. */
export function restService(transport: Transport): DocumentService {
  async function ask(request: TransportRequest): Promise<TransportReply | Unanswered> {
    try {
      return await transport.send(request);
    } catch {
      // Any error of the transport means no answer; the request may have been executed.
      return { kind: 'unreachable' };
    }
  }

  return {
    async look(documentId) {
      const reply = await ask({ method: 'GET', path: lockPath(documentId) });
      if ('kind' in reply) return reply;
      return isGood(reply) && isLock(reply.body) ? { kind: 'seen', lock: reply.body } : refusal(reply);
    },

    async acquire(documentId, how) {
      const isTake = how === 'take';
      const reply = await ask({
        method: 'POST',
        path: isTake ? `${lockPath(documentId)}/force-take` : lockPath(documentId),
        ...(how === 'move' && { body: { move: true } }),
        ...(isTake && { timeoutMs: TAKE_TIMEOUT_MS }),
      });
      if ('kind' in reply) return reply;
      if (codeOf(reply) === 'lock_busy') return { kind: 'busy', holder: holderOf(reply) };
      if (!isGood(reply) || !isGrantedLock(reply.body)) return refusal(reply);
      const saved = isObject(reply.body) && typeof reply.body.saved === 'boolean' ? reply.body.saved : null;
      return { kind: 'granted', lock: reply.body, saved };
    },

    async beat(documentId, idleForSeconds) {
      const body = { idle_for: Math.min(Math.max(idleForSeconds, 0), 86_400) };
      const reply = await ask({ method: 'POST', path: `${lockPath(documentId)}/heartbeat`, body });
      if ('kind' in reply) return reply;
      if (codeOf(reply) === 'lease_lost') return { kind: 'lost', holder: holderOf(reply) };
      return isGood(reply) && isLock(reply.body) ? { kind: 'extended', lock: reply.body } : refusal(reply);
    },

    async release(documentId, reason, { keepAlive } = { keepAlive: false }) {
      const reply = await ask({
        method: 'DELETE',
        path: `${lockPath(documentId)}?reason=${reason}`,
        keepAlive,
      });
      if ('kind' in reply) return reply;
      return isGood(reply) && isLock(reply.body) ? { kind: 'seen', lock: reply.body } : refusal(reply);
    },

    async load(documentId) {
      const reply = await ask({ method: 'GET', path: documentPath(documentId) });
      if ('kind' in reply) return reply;
      const { body } = reply;
      if (!isGood(reply) || !isObject(body) || !isVersion(body.version) || !isContent(body.content))
        return refusal(reply);
      return { kind: 'loaded', document: { version: body.version, content: body.content } };
    },

    async save(documentId, { content, baseVersion, fence, release }, { keepAlive } = { keepAlive: false }) {
      const body = {
        content,
        base_version: baseVersion,
        fence,
        ...(release && { release: true, reason: release }),
      };
      const reply = await ask({
        method: 'PUT',
        path: `${documentPath(documentId)}/content`,
        body,
        keepAlive,
      });
      if ('kind' in reply) return reply;
      const answer = isObject(reply.body) ? reply.body : {};
      if (!isVersion(answer.version)) return refusal(reply);
      if (codeOf(reply) === 'save_rescued' && typeof answer.draft_id === 'string') {
        return { kind: 'rescued', draftId: answer.draft_id, version: answer.version };
      }
      if (!isGood(reply)) return refusal(reply);
      const lockLost = typeof answer.lock_lost === 'boolean' ? answer.lock_lost : null;
      return { kind: 'saved', version: answer.version, lockLost };
    },
  };
}

function documentPath(documentId: string): string {
  return `/api/documents/${encodeURIComponent(documentId)}`;
}

function lockPath(documentId: string): string {
  return `${documentPath(documentId)}/lock`;
}

function isGood(reply: TransportReply): boolean {
  return reply.status >= 200 && reply.status < 300;
}

function isVersion(value: unknown): value is number {
  return Number.isInteger(value);
}

function isContent(value: unknown): value is Content {
  return typeof value === 'string' || isObject(value);
}

function codeOf(reply: TransportReply): string | null {
  return isObject(reply.body) && typeof reply.body.code === 'string' ? reply.body.code : null;
}

function holderOf(reply: TransportReply): LockHolder | null {
  const holder = isObject(reply.body) ? reply.body.lock_holder : null;
  return matchesNamed(holder, 'LockHolder') ? (holder as LockHolder) : null;
}

/** Worth a retry: a login that the host renews, a timeout, a rate limit. */
const TEMPORARY = new Set([401, 408, 429]);

/** A refusal, if the reply is one. An unreadable or temporary reply leaves the outcome unknown. */
function refusal(reply: TransportReply): Refused | Unanswered {
  const isNo = reply.status >= 400 && reply.status < 500 && !TEMPORARY.has(reply.status);
  if (!isNo) return { kind: 'unreachable' };
  const message = isObject(reply.body) && typeof reply.body.message === 'string' ? reply.body.message : '';
  return { kind: 'refused', code: codeOf(reply) ?? 'invalid_request', message };
}
