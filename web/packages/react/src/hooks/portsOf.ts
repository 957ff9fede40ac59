import { restService } from '../editing/effects/restService';
import type { Ports } from '../editing/effects/runner';
import type { Live } from '../live/live';
import type { Tabs } from '../tabs/tabs';
import type { DocumentLockOptions } from './options';

/** The ports of a controller. They read the component's latest options, which may change at every render. */
export function portsOf(
  latest: { readonly current: DocumentLockOptions },
  live: Live | null,
  tabs: Tabs | null,
): Ports {
  const rest = restService({ send: (request) => latest.current.transport.send(request) });
  const own = () => ({ ...rest, ...latest.current.service });
  return {
    live,
    tabs,
    beforeRelease: () => latest.current.onBeforeRelease?.(),
    service: {
      look: (...call) => own().look(...call),
      acquire: (...call) => own().acquire(...call),
      beat: (...call) => own().beat(...call),
      release: (...call) => own().release(...call),
      load: (...call) => own().load(...call),
      save: (...call) => own().save(...call),
    },
  };
}
