import type { Content, DocumentLock } from '@leasehold/react';
import { type Editor, EditorContent } from '@tiptap/react';
import { ContentView } from '../../ui/ContentView';
import { isForeign } from './content';

interface DocumentTextProps {
  readonly editor: Editor | null;
  readonly content: Content;
  readonly lock: DocumentLock;
}

/** The text. Any activity in it restarts the idle time. */
export function DocumentText({ editor, content, lock }: DocumentTextProps) {
  if (isForeign(content) || !editor) return <ContentView content={content} />;
  const { noteActivity } = lock;
  return (
    <EditorContent
      editor={editor}
      onKeyDown={noteActivity}
      onPointerDown={noteActivity}
      onPointerMove={noteActivity}
      onWheel={noteActivity}
    />
  );
}
