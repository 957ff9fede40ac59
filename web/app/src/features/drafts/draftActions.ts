import type { Client } from '../../api/client';

/**
 * Makes a draft the newest version, under a lock of its own.
 *
 * Rejects with `lock_busy` if the document is being edited, and with `save_rescued` if another save was faster: then it is
 * still a draft. The lock is released in any case, unless the server is unreachable: then it expires.
 */
export async function restoreDraft(client: Client, documentId: string, draftId: string): Promise<number> {
  const path = { document_id: documentId };
  const granted = await client.call('POST /api/documents/{document_id}/lock', { path, body: null });
  try {
    const restored = await client.call('POST /api/documents/{document_id}/drafts/{draft_id}/restore', {
      path: { ...path, draft_id: draftId },
      body: { base_version: granted.content_version, fence: granted.fence },
    });
    return restored.version;
  } finally {
    await client.call('DELETE /api/documents/{document_id}/lock', { path }).catch(() => undefined);
  }
}

/** Closes a draft; the server keeps it. */
export async function discardDraft(client: Client, documentId: string, draftId: string): Promise<void> {
  await client.call('POST /api/documents/{document_id}/drafts/{draft_id}/discard', {
    path: { document_id: documentId, draft_id: draftId },
  });
}
