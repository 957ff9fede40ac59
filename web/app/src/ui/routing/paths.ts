/** The addresses of the page. The server knows their first segments (`web_page.py`). */
export const paths = {
  documents: () => '/documents',
  newDocument: () => '/documents/new',
  document: (id: string) => `/documents/${encodeURIComponent(id)}`,
  history: (id: string) => `/documents/${encodeURIComponent(id)}/history`,
  version: (id: string, version: number) => `/documents/${encodeURIComponent(id)}/versions/${version}`,
  draft: (id: string, draftId: string) =>
    `/documents/${encodeURIComponent(id)}/drafts/${encodeURIComponent(draftId)}`,
  editingNow: () => '/editing-now',
  signIn: () => '/sign-in',
  register: () => '/register',
} as const;
