import { type FormEvent, useState } from 'react';
import { useLogin } from '../../api/context';
import { codeOf } from '../../api/problem';
import { ProblemAlert } from '../../ui/Alert';
import { Field } from '../../ui/Field';
import { useLanguage } from '../../ui/language';
import { Page } from '../../ui/Page';
import { Link } from '../../ui/routing/Link';
import { paths } from '../../ui/routing/paths';
import { textsOf } from './forms';

export function RegisterPage() {
  const { t } = useLanguage();
  const login = useLogin();
  const [problem, setProblem] = useState<string | null>(null);
  const [isBusy, setIsBusy] = useState(false);

  async function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const { email = '', password = '', name = '' } = textsOf(event.currentTarget);
    setIsBusy(true);
    setProblem(null);
    try {
      await login.register({ email, password, display_name: name });
    } catch (error) {
      setProblem(codeOf(error));
      setIsBusy(false);
    }
  }

  return (
    <Page title={t.register} lead={t.registerLead}>
      {problem && <ProblemAlert code={problem} />}
      <form className="card form" onSubmit={submit}>
        <Field label={t.displayName} name="name" autoComplete="name" required maxLength={80} />
        <Field label={t.email} name="email" type="email" autoComplete="username" required maxLength={254} />
        <Field
          label={t.password}
          hint={t.passwordHint}
          name="password"
          type="password"
          autoComplete="new-password"
          required
          minLength={8}
          maxLength={256}
        />
        <button type="submit" className="button button-primary" disabled={isBusy}>
          {t.register}
        </button>
      </form>
      <p>
        <Link to={paths.signIn()}>{t.haveAccount}</Link>
      </p>
    </Page>
  );
}
