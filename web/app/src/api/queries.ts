import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import type { Client } from './client';

const PAGE = 50;

/** The queries of the page, with their cache keys. */
export const queries = {
  documents: (client: Client, applicationId: string | null = null) =>
    infiniteQueryOptions({
      queryKey: ['documents', applicationId],
      initialPageParam: 0,
      queryFn: ({ pageParam }) =>
        client.call('GET /api/documents', {
          query: { limit: PAGE, offset: pageParam, application_id: applicationId },
        }),
      getNextPageParam: (page) => page.next_offset,
    }),

  applications: (client: Client) =>
    queryOptions({
      queryKey: ['applications'],
      queryFn: async () => (await client.call('GET /api/applications', { query: { limit: 200 } })).items,
      staleTime: 60_000,
    }),

  projects: (client: Client) =>
    queryOptions({
      queryKey: ['projects'],
      queryFn: async () => (await client.call('GET /api/projects', { query: { limit: 200 } })).items,
      staleTime: 60_000,
    }),

  document: (client: Client, id: string) =>
    queryOptions({
      queryKey: ['document', id],
      queryFn: () => client.call('GET /api/documents/{document_id}', { path: { document_id: id } }),
    }),

  versions: (client: Client, id: string) =>
    infiniteQueryOptions({
      queryKey: ['document', id, 'versions'],
      initialPageParam: 0,
      queryFn: ({ pageParam }) =>
        client.call('GET /api/documents/{document_id}/versions', {
          path: { document_id: id },
          query: { limit: PAGE, offset: pageParam },
        }),
      getNextPageParam: (page) => page.next_offset,
    }),

  version: (client: Client, id: string, version: number) =>
    queryOptions({
      queryKey: ['document', id, 'version', version],
      queryFn: () =>
        client.call('GET /api/documents/{document_id}/versions/{version}', {
          path: { document_id: id, version },
        }),
      staleTime: Number.POSITIVE_INFINITY,
    }),

  holds: (client: Client, id: string) =>
    queryOptions({
      queryKey: ['document', id, 'holds'],
      queryFn: async () =>
        (await client.call('GET /api/documents/{document_id}/lock/history', { path: { document_id: id } }))
          .holds,
    }),

  drafts: (client: Client, id: string) =>
    queryOptions({
      queryKey: ['document', id, 'drafts'],
      queryFn: async () =>
        (
          await client.call('GET /api/documents/{document_id}/drafts', {
            path: { document_id: id },
            query: { limit: PAGE },
          })
        ).items,
    }),

  comparison: (client: Client, id: string, draftId: string) =>
    queryOptions({
      queryKey: ['document', id, 'draft', draftId],
      queryFn: () =>
        client.call('GET /api/documents/{document_id}/drafts/{draft_id}/compare', {
          path: { document_id: id, draft_id: draftId },
        }),
    }),

  locks: (client: Client) =>
    queryOptions({
      queryKey: ['locks'],
      queryFn: async () => {
        const first = await client.call('GET /api/locks', { query: { limit: 200 } });
        return first.items;
      },
    }),
};
