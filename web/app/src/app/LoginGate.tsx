import { useCallback, useEffect, useState } from 'react';
import { useSessionState } from '../api/context';
import { RegisterPage } from '../features/accounts/RegisterPage';
import { SignInPage } from '../features/accounts/SignInPage';
import { LinesContext } from '../live/context';
import { ProblemAlert } from '../ui/Alert';
import { Loading } from '../ui/Message';
import { navigate, usePath } from '../ui/routing/location';
import { paths } from '../ui/routing/paths';
import { Frame } from './Layout';
import { Pages } from './Pages';
import type { Services } from './services';

/** Lets in whoever is signed in, and everybody else sign in. The address stays: after signing in its page is shown. */
export function Gate({ services }: { readonly services: Services }) {
  const state = useSessionState();
  const path = usePath();
  const [hasFailed, setHasFailed] = useState(false);
  const begin = useCallback(() => {
    setHasFailed(false);
    services.session.begin().catch(() => setHasFailed(true));
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
        <Frame user={null}>
          {hasFailed ? <ProblemAlert code="no_answer" onRetry={begin} /> : <Loading />}
        </Frame>
      );
    case 'out':
      return <Frame user={null}>{path === paths.register() ? <RegisterPage /> : <SignInPage />}</Frame>;
    case 'in':
      return (
        <LinesContext value={services.lines} key={state.user.id}>
          <Frame user={state.user}>
            <Pages />
          </Frame>
        </LinesContext>
      );
  }
}
