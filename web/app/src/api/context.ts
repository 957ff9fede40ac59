import { createContext, useContext, useSyncExternalStore } from 'react';
import type { Client } from './client';
import type { Login, LoginState, LoginUser } from './login';

interface Api {
  readonly login: Login;
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

export function useLogin(): Login {
  return useApi().login;
}

export function useLoginState(): LoginState {
  const { login } = useApi();
  return useSyncExternalStore(login.subscribe, () => login.state);
}

/** The signed-in user. Only for components that require a login. */
export function useUser(): LoginUser {
  const state = useLoginState();
  if (state.phase !== 'in') throw new Error('not signed in');
  return state.user;
}
