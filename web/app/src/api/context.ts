import { createContext, useContext, useSyncExternalStore } from 'react';
import type { Client } from './client';
import type { Session, SessionState, SessionUser } from './login';

interface Api {
  readonly session: Session;
  readonly client: Client;
}

export const ApiContext = createContext<Api | null>(null);

function useApi(): Api {
  const api = useContext(ApiContext);
  if (api === null) throw new Error('outside of ApiContext');
  return api;
}

export function useClient(): Client {
  return useApi().client;
}

export function useSession(): Session {
  return useApi().session;
}

export function useSessionState(): SessionState {
  const { session } = useApi();
  return useSyncExternalStore(session.subscribe, () => session.state);
}

/** Whoever is signed in; for what is shown to nobody else. */
export function useUser(): SessionUser {
  const state = useSessionState();
  if (state.phase !== 'in') throw new Error('nobody is signed in');
  return state.user;
}
