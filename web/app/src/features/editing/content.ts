import type { Content } from '@leasehold/react';
import type { JSONContent } from '@tiptap/core';

/** True for content of a program that is not text: it can be read, but not edited here. */
export function isForeign(content: Content): boolean {
  return typeof content !== 'string' && content.type !== 'doc';
}

/** Content for the editor. Each line of a plain text becomes a paragraph. */
export function editable(content: Content): JSONContent {
  if (typeof content !== 'string') return content as JSONContent;
  const lines = content === '' ? [] : content.split('\n');
  const paragraphs = lines.map((line) => ({
    type: 'paragraph',
    ...(line !== '' && { content: [{ type: 'text', text: line }] }),
  }));
  return { type: 'doc', content: paragraphs.length > 0 ? paragraphs : [{ type: 'paragraph' }] };
}

/** The blocks of `draft` that are not in `current`. */
export function newBlocks(draft: Content, current: Content): readonly JSONContent[] {
  const spelled = (block: JSONContent) => JSON.stringify(block);
  const known = new Set(editable(current).content?.map(spelled));
  return editable(draft).content?.filter((block) => !known.has(spelled(block))) ?? [];
}
