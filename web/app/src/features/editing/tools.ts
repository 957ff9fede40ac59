import type { ChainedCommands, Editor } from '@tiptap/react';

interface Tool {
  readonly name: 'bold' | 'italic' | 'heading' | 'bulletList' | 'orderedList' | 'quote' | 'undo' | 'redo';
  /** The icon: an SVG path in a square of 20. */
  readonly drawing: string;
  readonly use: (chain: ChainedCommands) => ChainedCommands;
  /** For tools that are on or off. */
  readonly isActive?: (editor: Editor) => boolean;
}

export const tools: readonly Tool[] = [
  {
    name: 'bold',
    drawing: 'M6 4h5a3 3 0 0 1 0 6H6zM6 10h6a3 3 0 0 1 0 6H6z',
    use: (chain) => chain.toggleBold(),
    isActive: (editor) => editor.isActive('bold'),
  },
  {
    name: 'italic',
    drawing: 'M9 4h6M5 16h6M12 4 8 16',
    use: (chain) => chain.toggleItalic(),
    isActive: (editor) => editor.isActive('italic'),
  },
  {
    name: 'heading',
    drawing: 'M5 4v12M15 4v12M5 10h10',
    use: (chain) => chain.toggleHeading({ level: 2 }),
    isActive: (editor) => editor.isActive('heading'),
  },
  {
    name: 'bulletList',
    drawing: 'M8 5h9M8 10h9M8 15h9M3.5 5h.01M3.5 10h.01M3.5 15h.01',
    use: (chain) => chain.toggleBulletList(),
    isActive: (editor) => editor.isActive('bulletList'),
  },
  {
    name: 'orderedList',
    drawing: 'M9 5h8M9 10h8M9 15h8M3 4l1.5-1v4M3 12.5c1-1 2.5-.5 2 .8L3 16h2.6',
    use: (chain) => chain.toggleOrderedList(),
    isActive: (editor) => editor.isActive('orderedList'),
  },
  {
    name: 'quote',
    drawing: 'M4 5v10M8 7h8M8 10h8M8 13h5',
    use: (chain) => chain.toggleBlockquote(),
    isActive: (editor) => editor.isActive('blockquote'),
  },
  { name: 'undo', drawing: 'M7 4 3 8l4 4M3 8h8a5 4 0 0 1 0 8H8', use: (chain) => chain.undo() },
  { name: 'redo', drawing: 'm13 4 4 4-4 4M17 8H9a5 4 0 0 0 0 8h3', use: (chain) => chain.redo() },
];
