import type { DocumentLock } from '@leasehold/react';
import { type Editor, useEditor } from '@tiptap/react';
import StarterKit from '@tiptap/starter-kit';
import { useEffect, useMemo } from 'react';
import { isForeign } from './content';
import { showLoaded } from './showLoaded';

const extensions = [StarterKit.configure({ link: { openOnClick: false } })];

/** The editor of a document: shows the lock's loaded text, and reports changes to the lock. */
export function useDocumentEditor(lock: DocumentLock, label: string): Editor | null {
  const { loaded, isEditable, noteChange } = lock;
  const mayType = isEditable && loaded !== null && !isForeign(loaded.content);
  const editorProps = useMemo(() => ({ attributes: attributesOf(label, mayType) }), [label, mayType]);
  const editor = useEditor({
    extensions,
    editable: false,
    // Its styles are in `prose.css`: the page's content security policy refuses styles from scripts.
    injectCSS: false,
    editorProps,
    onUpdate: ({ editor: changed }) => noteChange(changed.getJSON()),
  });

  useEffect(() => {
    // Without the second argument the editor would report a change of the text, which would be saved.
    editor?.setEditable(mayType, false);
  }, [editor, mayType]);

  useEffect(() => {
    if (!editor || !loaded || isForeign(loaded.content)) return;
    showLoaded(editor, loaded);
  }, [editor, loaded]);

  return editor;
}

function attributesOf(label: string, mayType: boolean): Record<string, string> {
  return {
    class: 'prose',
    role: 'textbox',
    'aria-multiline': 'true',
    'aria-label': label,
    'aria-readonly': String(!mayType),
    // A tab stop also while it is read-only: for reading, selecting and copying.
    tabindex: '0',
  };
}
