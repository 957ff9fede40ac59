import type { Content, LoadedDocument } from '@leasehold/react';
import type { Editor } from '@tiptap/core';
import { EditorState } from '@tiptap/pm/state';
import { editable, isForeign } from './content';

/**
 * Shows a text that was loaded, and tells nobody of a change.
 *
 * Only what somebody has done at this desk can be undone: never the loading, which would empty the document, nor what others wrote.
 * A draft that was put in place of the document's text is such a deed.
 */
export function showLoaded(editor: Editor, { content, replaced }: LoadedDocument): void {
  const isEdit = replaced !== undefined && !isForeign(replaced);
  put(editor, isEdit ? replaced : content);
  // A new state has a new history. Undo steps of the text before would be applied to this one.
  const { doc, plugins, selection } = editor.state;
  editor.view.updateState(EditorState.create({ doc, plugins, selection }));
  if (isEdit) put(editor, content);
}

function put(editor: Editor, content: Content): void {
  editor.commands.setContent(editable(content), { emitUpdate: false });
}
