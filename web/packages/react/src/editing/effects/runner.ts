import type { Alarm } from '../../clock/alarm';
import type { DraftKeeper } from '../../drafts/draftWriter';
import type { Live } from '../../live/live';
import type { Content } from '../../protocol/content';
import type { TabLine, TabMessage, Tabs } from '../../tabs/tabs';
import type { Effect } from '../machine/effects';
import type { Input } from '../machine/inputs';
import type { DocumentService } from '../terms/service';
import { request } from './requests';

/** The world outside a session. */
export interface Ports {
  readonly service: DocumentService;
  readonly live: Live | null;
  readonly tabs: Tabs | null;
  /** What the host does before a release. */
  readonly beforeRelease: () => Content | undefined | Promise<Content | undefined> | Promise<void>;
}

interface Inside {
  readonly documentId: string;
  readonly userId: string;
  readonly keeper: DraftKeeper;
  readonly alarm: Alarm;
  readonly line: TabLine | null;
  readonly take: (input: Input) => void;
}

/** Does what a session wants done, and reports what came of it. */
export function perform(effect: Effect, ports: Ports, inside: Inside): void {
  const { documentId, keeper, take } = inside;
  switch (effect.kind) {
    case 'answer-beat':
      ports.live?.heartbeat(documentId, effect.idleFor);
      break;
    case 'prepare':
      void prepare(effect.serial, ports.beforeRelease, take);
      break;
    case 'tell-tabs':
      tell(effect.message, inside);
      break;
    case 'set-alarm':
      inside.alarm.set(effect.afterMs, () => take({ kind: 'rang', until: effect.until }));
      break;
    case 'list-drafts':
      void keeper.list(inside.userId, documentId).then((drafts) => take({ kind: 'drafts-found', drafts }));
      break;
    case 'keep-draft':
      keeper.keep(effect.draft);
      break;
    case 'drop-draft':
      keeper.drop(effect.id);
      break;
    default:
      void request(effect, documentId, ports.service).then(take);
  }
}

function tell(message: TabMessage, { line, take }: Inside): void {
  if (line) line.say(message);
  // No other tab can be asked: there is nothing to wait for.
  else if (message.kind === 'wanted') take({ kind: 'tab-said', message: { ...message, kind: 'done' } });
}

async function prepare(
  serial: number,
  beforeRelease: Ports['beforeRelease'],
  take: (input: Input) => void,
): Promise<void> {
  let content: Content | undefined;
  try {
    const given = beforeRelease();
    content = given instanceof Promise ? ((await given) ?? undefined) : given;
  } catch {
    // A host that fails must not keep the lock from others.
  }
  take({ kind: 'prepared', serial, content });
}
