import type { Application } from '../../api/schema.generated';
import { useLanguage } from '../../ui/language';

interface TeamFilterProps {
  readonly teams: readonly Application[];
  readonly chosen: string | null;
  readonly onChoose: (teamId: string | null) => void;
}

/** All documents, or those of one team. */
export function TeamFilter({ teams, chosen, onChoose }: TeamFilterProps) {
  const { t } = useLanguage();
  return (
    <div className="field field-inline">
      <label htmlFor="team-filter">{t.team}</label>
      <select
        id="team-filter"
        value={chosen ?? ''}
        onChange={(event) => onChoose(event.target.value || null)}
      >
        <option value="">{t.allTeams}</option>
        {teams.map((team) => (
          <option key={team.id} value={team.id}>
            {team.name}
          </option>
        ))}
      </select>
    </div>
  );
}
