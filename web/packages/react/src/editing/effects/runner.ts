import type { Alarm } from '../../clock/alarm';
import type { DraftWriter } from '../../drafts/draftWriter';
import type { Live } from '../../live/live';
import type { Content } from '../../protocol/content';
import type { TabLine, TabMessage, Tabs } from '../../tabs/tabs';
import type { Effect } from '../machine/effects';
import type { Input } from '../machine/inputs';
import type { DocumentService } from '../terms/service';
import { request } from './requests';

/** The outside of a controller. */
export interface Ports {
  readonly service: DocumentService;
  readonly live: Live | null;
  readonly tabs: Tabs | null;
  /** Called before a release. */
  readonly beforeRelease: () => Content | undefined | Promise<Content | undefined> | Promise<void>;
}

interface Context {
  readonly documentId: string;
  readonly userId: string;
  readonly drafts: DraftWriter;
  readonly alarm: Alarm;
  readonly line: TabLine | null;
  readonly take: (input: Input) => void;
}

/** Runs an effect of the machine, and reports the result as an input. */
export function run(effect: Effect, ports: Ports, context: Context): void {
  const { documentId, drafts, take } = context;
  switch (effect.kind) {
    case 'answer-beat':
      ports.live?.heartbeat(documentId, effect.idleFor);
      break;
    case 'prepare':
      void prepare(effect.serial, ports.beforeRelease, take);
      break;
    case 'tell-tabs':
      postToTabs(effect.message, context);
      break;
    case 'set-alarm':
      context.alarm.set(effect.afterMs, () => take({ kind: 'alarm', until: effect.until }));
      break;
    case 'list-drafts':
      void drafts
        .list(context.userId, documentId)
        .then((found) => take({ kind: 'drafts-found', drafts: found }));
      break;
    case 'keep-draft':
      drafts.keep(effect.draft);
      break;
    case 'drop-draft':
      drafts.drop(effect.id);
      break;
    default:
      void request(effect, documentId, ports.service).then(take);
  }
}

function postToTabs(message: TabMessage, { line, take }: Context): void {
  if (line) line.say(message);
  // No other tab can be reached: nothing has to be awaited.
  else if (message.kind === 'wanted') take({ kind: 'tab-message', message: { ...message, kind: 'done' } });
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
  take({ kind: 'host-ready', serial, content });
}
