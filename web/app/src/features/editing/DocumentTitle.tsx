import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useId, useState } from 'react';
import { useClient } from '../../api/context';
import { codeOf } from '../../api/problem';
import type { Document } from '../../api/schema.generated';
import { ProblemAlert } from '../../ui/Alert';
import { useLanguage } from '../../ui/language';

/** The title. Editors may change it without the lock, because it is not part of the text. */
export function DocumentTitle({ document }: { readonly document: Document }) {
  const { t } = useLanguage();
  const client = useClient();
  const cache = useQueryClient();
  const field = useId();
  const [asked, setAsked] = useState<string | null>(null);
  const renaming = useMutation({
    mutationFn: (title: string) =>
      client.call('PATCH /api/documents/{document_id}', {
        path: { document_id: document.id },
        body: { title },
      }),
    onSuccess: async (renamed) => {
      cache.setQueryData(['document', document.id], renamed);
      await cache.invalidateQueries({ queryKey: ['documents'] });
      setAsked(null);
    },
  });

  function submit(event: FormEvent) {
    event.preventDefault();
    if (asked !== null) renaming.mutate(asked);
  }

  if (asked === null) {
    return (
      <div className="editor-title">
        <h1>{document.title}</h1>
        {document.role !== 'viewer' && (
          <button type="button" className="button button-quiet" onClick={() => setAsked(document.title)}>
            {t.rename}
          </button>
        )}
      </div>
    );
  }
  return (
    <form className="editor-title" onSubmit={submit} aria-label={t.renameDocument}>
      <h1 className="visually-hidden">{document.title}</h1>
      <label htmlFor={field} className="visually-hidden">
        {t.title}
      </label>
      <input
        id={field}
        className="title-input"
        value={asked}
        // biome-ignore lint/a11y/noAutofocus: it replaces the button that was just pressed
        autoFocus
        required
        maxLength={200}
        onChange={(event) => setAsked(event.target.value)}
        onKeyDown={(event) => event.key === 'Escape' && setAsked(null)}
      />
      <button type="submit" className="button button-primary" disabled={renaming.isPending}>
        {t.save}
      </button>
      <button type="button" className="button" onClick={() => setAsked(null)}>
        {t.cancel}
      </button>
      {renaming.isError && <ProblemAlert code={codeOf(renaming.error)} />}
    </form>
  );
}
