import type { LoginNews, LoginPorts } from './login';

const NAME = 'leasehold-session';

/** The ports of a login in a browser. */
export function browserPorts(hear: (news: LoginNews) => void): LoginPorts {
  const channel = 'BroadcastChannel' in globalThis ? new BroadcastChannel(NAME) : null;
  channel?.addEventListener('message', (event: MessageEvent<LoginNews>) => hear(event.data));
  return {
    csrfToken: () => cookie('leasehold_csrf'),
    // Without browser locks, the server's tolerance for used tokens is enough.
    alone: (work) => (navigator.locks ? navigator.locks.request(NAME, work) : work()),
    tell: (news) => channel?.postMessage(news),
    startOver: () => window.location.reload(),
    now: () => Date.now(),
    pause: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  };
}

function cookie(name: string): string | null {
  const found = document.cookie.split('; ').find((each) => each.startsWith(`${name}=`));
  return found === undefined ? null : decodeURIComponent(found.slice(name.length + 1));
}
