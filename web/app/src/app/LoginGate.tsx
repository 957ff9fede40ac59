import { useCallback, useEffect, useState } from 'react';
import { useLoginState } from '../api/context';
import { RegisterPage } from '../features/accounts/RegisterPage';
import { SignInPage } from '../features/accounts/SignInPage';
import { LockClientContext } from '../live/context';
import { ProblemAlert } from '../ui/Alert';
import { Loading } from '../ui/Message';
import { navigate, usePath } from '../ui/routing/location';
import { paths } from '../ui/routing/paths';
import { Layout } from './Layout';
import { Pages } from './Pages';
import type { Services } from './services';

/** Shows the pages to signed-in users, and the login to others. The address stays: its page follows the login. */
export function LoginGate({ services }: { readonly services: Services }) {
  const state = useLoginState();
  const path = usePath();
  const [hasFailed, setHasFailed] = useState(false);
  const begin = useCallback(() => {
    setHasFailed(false);
    services.login.begin().catch(() => setHasFailed(true));
  }, [services]);
  useEffect(begin, [begin]);
  const isAtTheDoor =
    state.phase === 'in' && (['/', paths.signIn(), paths.register()] as string[]).includes(path);
  useEffect(() => {
    if (isAtTheDoor) navigate(paths.documents(), { replace: true });
  }, [isAtTheDoor]);

  switch (state.phase) {
    case 'unknown':
      return (
        <Layout user={null}>
          {hasFailed ? <ProblemAlert code="no_answer" onRetry={begin} /> : <Loading />}
        </Layout>
      );
    case 'out':
      return <Layout user={null}>{path === paths.register() ? <RegisterPage /> : <SignInPage />}</Layout>;
    case 'in':
      return (
        <LockClientContext value={services.lockClient} key={state.user.id}>
          <Layout user={state.user}>
            <Pages />
          </Layout>
        </LockClientContext>
      );
  }
}
