import { Editor } from '@tiptap/core';
import StarterKit from '@tiptap/starter-kit';
import { afterEach, describe, expect, it } from 'vitest';
import { showLoaded } from '../src/features/editing/showLoaded';

const open: Editor[] = [];
afterEach(() => {
  for (const editor of open.splice(0)) editor.destroy();
});

function openEditor(): { editor: Editor; updates: string[] } {
  const updates: string[] = [];
  const editor = new Editor({
    element: document.createElement('div'),
    extensions: [StarterKit],
    injectCSS: false,
    onUpdate: ({ editor: changed }) => updates.push(changed.getText()),
  });
  open.push(editor);
  return { editor, updates };
}

function typeAtEnd(editor: Editor, text: string): void {
  editor.commands.insertContentAt(editor.state.doc.content.size - 1, text);
}

function undoEverything(editor: Editor): void {
  for (let times = 0; times < 5; times += 1) editor.commands.undo();
}

describe('a text that was loaded', () => {
  it('is shown without a reported change', () => {
    const { editor, updates } = openEditor();
    showLoaded(editor, { version: 1, content: 'one' });
    expect([editor.getText(), updates]).toEqual(['one', []]);
  });

  it('cannot be undone', () => {
    const { editor, updates } = openEditor();
    showLoaded(editor, { version: 1, content: 'one' });
    undoEverything(editor);
    expect([editor.getText(), updates]).toEqual(['one', []]);
  });

  it('stays when changes to it are undone', () => {
    const { editor, updates } = openEditor();
    showLoaded(editor, { version: 1, content: 'of Ana' });
    showLoaded(editor, { version: 2, content: 'of Ben' });
    typeAtEnd(editor, ' and more');
    expect(editor.getText()).toBe('of Ben and more');
    undoEverything(editor);
    expect([editor.getText(), updates]).toEqual(['of Ben', ['of Ben and more', 'of Ben']]);
  });

  it('takes no undo steps of the earlier text', () => {
    const { editor } = openEditor();
    showLoaded(editor, { version: 1, content: 'Version 1 of Ana' });
    typeAtEnd(editor, ' and more');
    editor.commands.deleteRange({ from: 1, to: 8 });
    showLoaded(editor, { version: 2, content: 'Version 2 of Ben' });
    undoEverything(editor);
    editor.commands.redo();
    expect(editor.getText()).toBe('Version 2 of Ben');
  });

  it('comes back when the draft in its place is undone, as a reported change', () => {
    const { editor, updates } = openEditor();
    showLoaded(editor, { version: 1, content: 'of Ana' });
    showLoaded(editor, { version: 2, content: 'of Ben, once', replaced: 'of Ana, today' });
    expect([editor.getText(), updates]).toEqual(['of Ben, once', []]);
    undoEverything(editor);
    expect([editor.getText(), updates]).toEqual(['of Ana, today', ['of Ana, today']]);
    editor.commands.redo();
    expect(editor.getText()).toBe('of Ben, once');
  });
});
