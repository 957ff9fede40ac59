import type { DocumentLock } from '@leasehold/react';
import { type Editor, useEditor } from '@tiptap/react';
import StarterKit from '@tiptap/starter-kit';
import { useEffect, useMemo } from 'react';
import { isForeign } from './content';
import { showLoaded } from './showLoaded';

const extensions = [StarterKit.configure({ link: { openOnClick: false } })];

/** The editor of a document: it shows what the lock has loaded, and tells the lock what is typed. */
export function useDocumentEditor(lock: DocumentLock, label: string): Editor | null {
  const { loaded, isEditable, noteChange } = lock;
  const mayType = isEditable && loaded !== null && !isForeign(loaded.content);
  const editorProps = useMemo(() => ({ attributes: attributesOf(label, mayType) }), [label, mayType]);
  const editor = useEditor({
    extensions,
    editable: false,
    // Its styles are in a file of our own: the page's policy allows no style that a script writes.
    injectCSS: false,
    editorProps,
    onUpdate: ({ editor: changed }) => noteChange(changed.getJSON()),
  });

  useEffect(() => {
    // Without the second argument the editor would report the change as one of the text, and the text be saved.
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
    // A tab stop also while it cannot be edited: reading, selecting and copying are for everybody.
    tabindex: '0',
  };
}
