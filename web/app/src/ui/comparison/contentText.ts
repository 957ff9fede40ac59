/** The content of a document: text, or JSON such as an editor's. */
export type Content = string | { readonly [member: string]: unknown };

const BLOCKS_OF_BLOCKS = new Set(['doc', 'bulletList', 'orderedList', 'listItem', 'blockquote']);

/** The text of a content, one line for each paragraph. JSON from a program is formatted as JSON. */
export function textOf(content: Content): string {
  if (typeof content === 'string') return content;
  if (content.type !== 'doc') return JSON.stringify(content, null, 2);
  return linesOf(content, '').join('\n');
}

function linesOf(node: unknown, mark: string): string[] {
  if (!isNode(node)) return [];
  const inside = Array.isArray(node.content) ? node.content : [];
  if (node.type === 'horizontalRule') return ['———'];
  if (!BLOCKS_OF_BLOCKS.has(node.type)) return [mark + inside.map(inlineText).join('')];
  const marks = node.type === 'bulletList' ? '• ' : node.type === 'orderedList' ? '# ' : mark;
  return inside.flatMap((child, place) => {
    const lines = linesOf(child, place === 0 || node.type !== 'listItem' ? marks : '');
    return node.type === 'orderedList' ? numbered(lines, place + 1) : lines;
  });
}

function numbered(lines: string[], number: number): string[] {
  const [first = '', ...rest] = lines;
  return [first.replace(/^# /, `${number}. `), ...rest];
}

function inlineText(node: unknown): string {
  if (!isNode(node)) return '';
  return node.type === 'hardBreak' ? '\n' : typeof node.text === 'string' ? node.text : '';
}

function isNode(value: unknown): value is { type: string; text?: unknown; content?: unknown } {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';
}
