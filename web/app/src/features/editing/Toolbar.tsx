import type { DocumentLock } from '@leasehold/react';
import { type Editor, useEditorState } from '@tiptap/react';
import { useLanguage } from '../../ui/language';
import { tools } from './tools';

interface ToolbarProps {
  readonly editor: Editor | null;
  readonly lock: DocumentLock;
}

/** The formatting tools. In a free document they take the lock, as typing does. */
export function Toolbar({ editor, lock }: ToolbarProps) {
  const { t } = useLanguage();
  const active = useEditorState({
    editor,
    selector: ({ editor: current }) => tools.map((tool) => (current ? tool.isActive?.(current) : undefined)),
  });
  if (!editor) return null;
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is for forms
    <div role="group" aria-label={t.toolbar} className="toolbar">
      {tools.map((tool, place) => (
        <button
          key={tool.name}
          type="button"
          className="tool"
          aria-label={t[tool.name]}
          title={t[tool.name]}
          aria-pressed={active?.[place]}
          disabled={!lock.isEditable}
          // Keeps the selection.
          onMouseDown={(event) => event.preventDefault()}
          onClick={() => tool.use(editor.chain().focus()).run()}
        >
          <svg viewBox="0 0 20 20" aria-hidden="true">
            <path d={tool.drawing} />
          </svg>
        </button>
      ))}
      {lock.isLockedByMe && (
        <button
          type="button"
          className="button button-quiet toolbar-end"
          disabled={!lock.hasUnsavedText || lock.isSaving}
          onClick={() => lock.save()}
        >
          {t.saveNow}
        </button>
      )}
    </div>
  );
}
