import { messages as bannerMessages, LockBanner, useDocumentLock } from '@leasehold/react';
import { useState } from 'react';
import { useUser } from '../../api/context';
import type { Document } from '../../api/schema.generated';
import { useLockClient } from '../../live/context';
import { useLanguage } from '../../ui/language';
import { useTitle } from '../../ui/Page';
import { Link } from '../../ui/routing/Link';
import { navigate } from '../../ui/routing/location';
import { paths } from '../../ui/routing/paths';
import { isForeign } from './content';
import { DocumentText } from './DocumentText';
import { DocumentTitle } from './DocumentTitle';
import { LocalDraft } from './LocalDraft';
import { RescuedLink } from './RescuedLink';
import { SaveState } from './SaveState';
import { Toolbar } from './Toolbar';
import { useDocumentEditor } from './useDocumentEditor';
import { useQueryInvalidation } from './useQueryInvalidation';
import './editor.css';

/** One document with its lock: title, banner, local draft and editor. */
export function DocumentEditor({ document }: { readonly document: Document }) {
  const { t, language } = useLanguage();
  const { id, role } = document;
  const { live, transport, ticker } = useLockClient();
  const lock = useDocumentLock(id, { user: useUser(), role, live, transport, ticker });
  const editor = useDocumentEditor(lock, t.documentText);
  const [isCompared, setIsCompared] = useState(false);
  useTitle(document.title);
  useQueryInvalidation(id, lock);
  const shown = lock.loaded?.content ?? document.content;
  const isReadOnly = role === 'viewer' || isForeign(shown);

  return (
    <article className="page page-editor">
      <p className="crumbs">
        <Link to={paths.documents()}>{t.documents}</Link>
      </p>
      <header className="editor-head">
        <DocumentTitle document={document} />
        <div className="editor-facts">
          <SaveState lock={lock} />
          <nav className="actions" aria-label={t.document}>
            {role !== 'viewer' && <RescuedLink documentId={id} />}
            <Link to={paths.history(id)}>{t.history}</Link>
          </nav>
        </div>
      </header>
      <LockBanner
        lock={lock}
        messages={bannerMessages[language]}
        showsDraft={false}
        onView={(version) => navigate(paths.version(id, version))}
        onCompare={(target) => {
          if (target.kind === 'version') navigate(paths.version(id, target.version));
          else if (target.kind === 'rescued') navigate(paths.draft(id, target.draftId));
          else setIsCompared(true);
        }}
      />
      {isForeign(shown) && <p className="hint">{t.foreignContent}</p>}
      {lock.draft && (
        <LocalDraft
          lock={lock}
          draft={lock.draft}
          editor={editor}
          current={shown}
          isCompared={isCompared}
          onCompare={setIsCompared}
        />
      )}
      <div className="sheet sheet-editor">
        {!isReadOnly && <Toolbar editor={editor} lock={lock} />}
        <DocumentText editor={editor} content={shown} lock={lock} />
      </div>
    </article>
  );
}
