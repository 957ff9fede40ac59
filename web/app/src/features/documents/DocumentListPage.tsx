import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useClient } from '../../api/context';
import { codeOf } from '../../api/problem';
import { queries } from '../../api/queries';
import { ProblemAlert } from '../../ui/Alert';
import { useLanguage } from '../../ui/language';
import { Loading } from '../../ui/Message';
import { Page } from '../../ui/Page';
import { Link } from '../../ui/routing/Link';
import { paths } from '../../ui/routing/paths';
import { DocumentRow } from './DocumentRow';
import { TeamFilter } from './TeamFilter';

export function DocumentListPage() {
  const { t } = useLanguage();
  const client = useClient();
  const [teamId, setTeamId] = useState<string | null>(null);
  const teams = useQuery(queries.applications(client));
  const found = useInfiniteQuery(queries.documents(client, teamId));
  const documents = found.data?.pages.flatMap((page) => page.items);
  const teamNames = new Map(teams.data?.map((team) => [team.id, team.name]));
  const projects = useQuery(queries.projects(client));
  const teamOfProject = new Map(projects.data?.map((project) => [project.id, project]));

  function placeOf(applicationId: string | null, projectId: string | null): string {
    const project = projectId === null ? undefined : teamOfProject.get(projectId);
    const team = teamNames.get(project?.application_id ?? applicationId ?? '');
    return [team, project?.name].filter(Boolean).join(' / ');
  }

  return (
    <Page
      title={t.documents}
      actions={
        <Link to={paths.newDocument()} className="button button-primary">
          {t.newDocument}
        </Link>
      }
    >
      {teams.data && teams.data.length > 1 && (
        <TeamFilter teams={teams.data} chosen={teamId} onChoose={setTeamId} />
      )}
      {found.isPending && <Loading />}
      {found.isError && <ProblemAlert code={codeOf(found.error)} onRetry={() => found.refetch()} />}
      {documents?.length === 0 && <p className="empty">{t.noDocuments}</p>}
      {documents && documents.length > 0 && (
        <ul className="rows" aria-label={t.documents}>
          {documents.map((document) => (
            <DocumentRow
              key={document.id}
              document={document}
              place={
                document.is_personal ? t.personal : placeOf(document.application_id, document.project_id)
              }
            />
          ))}
        </ul>
      )}
      {found.hasNextPage && (
        <button
          type="button"
          className="button"
          onClick={() => found.fetchNextPage()}
          disabled={found.isFetching}
        >
          {t.showMore}
        </button>
      )}
    </Page>
  );
}
