import type { DemoPerson } from '../../api/demo';
import { Avatar } from '../../ui/Avatar';
import { useLanguage } from '../../ui/language';
import './demoTeam.css';

interface DemoTeamProps {
  readonly people: readonly DemoPerson[];
  readonly isBusy: boolean;
  readonly onChoose: (email: string, password: string) => void;
}

/** A login with one click for each member of the demo team. */
export function DemoTeam({ people, isBusy, onChoose }: DemoTeamProps) {
  const { t } = useLanguage();
  const roles = { owner: t.roleOwner, editor: t.roleEditor, viewer: t.roleViewer };
  return (
    <section className="card demo" aria-labelledby="demo-title">
      <h2 id="demo-title">{t.demoTitle}</h2>
      <ul className="people">
        {people.map(({ name, role, email, password }) => (
          <li key={email}>
            <button
              type="button"
              className="person"
              disabled={isBusy}
              onClick={() => onChoose(email, password)}
            >
              <Avatar name={name} />
              <span className="person-name">{name}</span>
              <span className="hint">{roles[role]}</span>
              <span className="visually-hidden">: {t.signInAs(name)}</span>
            </button>
          </li>
        ))}
      </ul>
      <p className="hint">{t.demoHint}</p>
    </section>
  );
}
