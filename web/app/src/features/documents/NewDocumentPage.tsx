import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { useClient } from '../../api/context';
import { codeOf } from '../../api/problem';
import { queries } from '../../api/queries';
import type { NewDocument } from '../../api/schema.generated';
import { ProblemAlert } from '../../ui/Alert';
import { Field } from '../../ui/Field';
import { useLanguage } from '../../ui/language';
import { Page } from '../../ui/Page';
import { Link } from '../../ui/routing/Link';
import { navigate } from '../../ui/routing/location';
import { paths } from '../../ui/routing/paths';

export function NewDocumentPage() {
  const { t } = useLanguage();
  const client = useClient();
  const cache = useQueryClient();
  const teams = (useQuery(queries.applications(client)).data ?? []).filter((team) => team.role !== 'viewer');
  const projects = useQuery(queries.projects(client)).data ?? [];
  const [title, setTitle] = useState('');
  const [place, setPlace] = useState('');
  const creating = useMutation({
    mutationFn: (asked: NewDocument) => client.call('POST /api/documents', { body: asked }),
    onSuccess: async (document) => {
      await cache.invalidateQueries({ queryKey: ['documents'] });
      navigate(paths.document(document.id));
    },
  });

  function submit(event: FormEvent) {
    event.preventDefault();
    const [kind, id] = place.split(' ');
    const scope =
      kind === 'team' ? { application_id: id ?? null } : kind === 'project' ? { project_id: id ?? null } : {};
    creating.mutate({ title, ...scope });
  }

  return (
    <Page title={t.newDocument}>
      {creating.isError && <ProblemAlert code={codeOf(creating.error)} />}
      <form className="card form" onSubmit={submit}>
        <Field
          label={t.title}
          value={title}
          onChange={(event) => setTitle(event.target.value)}
          required
          maxLength={200}
        />
        <div className="field">
          <label htmlFor="place">{t.where}</label>
          <select
            id="place"
            aria-describedby="place-hint"
            value={place}
            onChange={(event) => setPlace(event.target.value)}
          >
            <option value="">{t.personal}</option>
            {teams.map((team) => (
              <optgroup key={team.id} label={team.name}>
                <option value={`team ${team.id}`}>{team.name}</option>
                {projects
                  .filter((project) => project.application_id === team.id)
                  .map((project) => (
                    <option key={project.id} value={`project ${project.id}`}>
                      {team.name} / {project.name}
                    </option>
                  ))}
              </optgroup>
            ))}
          </select>
          <p id="place-hint" className="hint">
            {t.whereHint}
          </p>
        </div>
        <div className="actions">
          <button type="submit" className="button button-primary" disabled={creating.isPending}>
            {t.create}
          </button>
          <Link to={paths.documents()} className="button">
            {t.cancel}
          </Link>
        </div>
      </form>
    </Page>
  );
}
