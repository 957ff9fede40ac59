import { type FormEvent, useState } from 'react';
import { useLogin } from '../../api/context';
import { demoPeople } from '../../api/demo';
import { codeOf } from '../../api/problem';
import { ProblemAlert } from '../../ui/Alert';
import { Field } from '../../ui/Field';
import { useLanguage } from '../../ui/language';
import { Page } from '../../ui/Page';
import { Link } from '../../ui/routing/Link';
import { paths } from '../../ui/routing/paths';
import { DemoTeam } from './DemoTeam';
import { textsOf } from './forms';

export function SignInPage() {
  const { t } = useLanguage();
  const login = useLogin();
  const [problem, setProblem] = useState<string | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const people = demoPeople();

  async function signIn(email: string, password: string) {
    setIsBusy(true);
    setProblem(null);
    try {
      await login.signIn({ email, password });
    } catch (error) {
      setProblem(codeOf(error));
      setIsBusy(false);
    }
  }

  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const { email = '', password = '' } = textsOf(event.currentTarget);
    void signIn(email, password);
  }

  return (
    <Page title={t.signIn} lead={t.signInLead}>
      {problem && <ProblemAlert code={problem} />}
      {people.length > 0 && <DemoTeam people={people} isBusy={isBusy} onChoose={signIn} />}
      <form className="card form" onSubmit={submit}>
        <Field label={t.email} name="email" type="email" autoComplete="username" required />
        <Field
          label={t.password}
          name="password"
          type="password"
          autoComplete="current-password"
          required
          minLength={8}
        />
        <button type="submit" className="button button-primary" disabled={isBusy}>
          {t.signIn}
        </button>
      </form>
      <p>
        <Link to={paths.register()}>{t.noAccount}</Link>
      </p>
    </Page>
  );
}
