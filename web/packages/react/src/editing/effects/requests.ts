import type { Effect } from '../machine/effects';
import type { Input } from '../machine/inputs';
import type { DocumentService, Unanswered } from '../terms/service';

export type Request = Exclude<Extract<Effect, { serial: number }>, { kind: 'prepare' }>;

/** Sends a request to the service; resolves with the answer as an input. Never rejects. */
export async function request(effect: Request, documentId: string, service: DocumentService): Promise<Input> {
  const { serial } = effect;
  switch (effect.kind) {
    case 'acquire':
      return {
        kind: 'acquire-answered',
        serial,
        answer: await settled(service.acquire(documentId, effect.how)),
      };
    case 'beat':
      return {
        kind: 'beat-answered',
        serial,
        answer: await settled(service.beat(documentId, effect.idleFor)),
      };
    case 'look':
      return { kind: 'look-answered', serial, answer: await settled(service.look(documentId)) };
    case 'load':
      return { kind: 'load-answered', serial, answer: await settled(service.load(documentId)) };
    case 'release': {
      const { reason, keepAlive } = effect;
      const answering = service.release(documentId, reason, { keepAlive });
      return { kind: 'release-answered', serial, answer: await settled(answering) };
    }
    case 'save': {
      const answering = service.save(documentId, effect.request, { keepAlive: effect.keepAlive });
      return { kind: 'save-answered', serial, answer: await settled(answering) };
    }
  }
}

/** A service of the host may reject: that counts as no answer. */
function settled<Answer>(answering: Promise<Answer>): Promise<Answer | Unanswered> {
  return answering.catch((): Unanswered => ({ kind: 'unreachable' }));
}
