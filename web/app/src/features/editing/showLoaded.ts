import type { Content, LoadedDocument } from '@leasehold/react';
import type { Editor } from '@tiptap/core';
import { EditorState } from '@tiptap/pm/state';
import { editable, isForeign } from './content';

/**
 * Shows a loaded text without reporting a change.
 *
 * Only edits in this editor can be undone: never the load, which would empty the document, nor the text of others. A draft
 * in place of the document's text is such an edit.
 */
export function showLoaded(editor: Editor, { content, replaced }: LoadedDocument): void {
  const isEdit = replaced !== undefined && !isForeign(replaced);
  put(editor, isEdit ? replaced : content);
  // A new state has a new history. Undo steps of the earlier text would be applied to this one.
  const { doc, plugins, selection } = editor.state;
  editor.view.updateState(EditorState.create({ doc, plugins, selection }));
  if (isEdit) put(editor, content);
}

function put(editor: Editor, content: Content): void {
  editor.commands.setContent(editable(content), { emitUpdate: false });
}
