import type { Content, DocumentLock, Draft } from '@leasehold/react';
import type { Editor } from '@tiptap/react';
import { useState } from 'react';
import { Alert } from '../../ui/Alert';
import { CopyButton } from '../../ui/CopyButton';
import { Comparison } from '../../ui/comparison/Comparison';
import { textOf } from '../../ui/comparison/contentText';
import { useLanguage } from '../../ui/language';
import { timeAgo } from '../../ui/times';
import { newBlocks } from './content';

interface LocalDraftProps {
  readonly lock: DocumentLock;
  readonly draft: Draft;
  readonly editor: Editor | null;
  /** The document. */
  readonly current: Content;
  readonly isCompared: boolean;
  readonly onCompare: (isCompared: boolean) => void;
}

/** A draft that is only in this browser. It stays until the user decides. */
export function LocalDraft(props: LocalDraftProps) {
  // A confirmation for one draft must not apply to the next.
  return <Offer key={props.draft.id} {...props} />;
}

function Offer({ lock, draft, editor, current, isCompared, onCompare }: LocalDraftProps) {
  const { t, language } = useLanguage();
  const [isRefused, setIsRefused] = useState(false);
  const [isLeaving, setIsLeaving] = useState(false);

  async function replace() {
    setIsRefused(!(await lock.restoreDraft(draft.id)));
  }

  async function insert() {
    const isMine = lock.isLockedByMe || (await lock.acquireLock());
    setIsRefused(!isMine);
    if (!isMine || !editor) return;
    editor.commands.insertContentAt(editor.state.doc.content.size, [
      ...newBlocks(draft.content, editor.getJSON()),
    ]);
    // Until then the draft is the only safe copy.
    if (await lock.save()) lock.discardDraft(draft.id);
  }

  return (
    <section className="card draft" aria-labelledby="local-draft">
      <h2 id="local-draft">{t.draftOffered}</h2>
      <p className="hint">
        {(lock.keepsDrafts ? t.draftOfferedLead : t.draftHereLead)(timeAgo(draft.changedAt / 1000, language))}
      </p>
      {isRefused && <Alert>{t.notTaken}</Alert>}
      {isCompared && <Comparison before={current} after={draft.content} />}
      <div className="actions">
        <button
          type="button"
          className="button"
          aria-expanded={isCompared}
          onClick={() => onCompare(!isCompared)}
        >
          {isCompared ? t.hideComparison : t.compare}
        </button>
        <button type="button" className="button" onClick={insert}>
          {t.insert}
        </button>
        <button type="button" className="button" onClick={replace} disabled={lock.hasUnsavedText}>
          {t.useMine}
        </button>
        <CopyButton text={textOf(draft.content)} />
        {isLeaving ? (
          <>
            <button
              type="button"
              className="button button-danger"
              onClick={() => lock.discardDraft(draft.id)}
            >
              {t.discardForGood}
            </button>
            <button type="button" className="button" onClick={() => setIsLeaving(false)}>
              {t.cancel}
            </button>
            <span className="hint" role="status">
              {t.discardAsk}
            </span>
          </>
        ) : (
          <button type="button" className="button" onClick={() => setIsLeaving(true)}>
            {t.discard}
          </button>
        )}
      </div>
    </section>
  );
}
