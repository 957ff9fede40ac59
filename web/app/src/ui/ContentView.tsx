import type { ReactNode } from 'react';
import { type Content, textOf } from './comparison/contentText';

/** Content to read, without an editor. Unknown nodes are shown as paragraphs. */
export function ContentView({ content }: { readonly content: Content }) {
  if (typeof content === 'string' || content.type !== 'doc') {
    return <pre className="prose prose-plain">{textOf(content)}</pre>;
  }
  return <div className="prose">{childrenOf(content)}</div>;
}

interface Node {
  readonly type?: unknown;
  readonly text?: unknown;
  readonly attrs?: { readonly [name: string]: unknown };
  readonly marks?: readonly Node[];
  readonly content?: readonly Node[];
}

function childrenOf(node: Node): ReactNode {
  // biome-ignore lint/suspicious/noArrayIndexKey: what is shown never changes its order
  return node.content?.map((child, place) => <Shown key={place} node={child} />);
}

function Shown({ node }: { readonly node: Node }): ReactNode {
  switch (node.type) {
    case 'text':
      return marked(String(node.text ?? ''), node.marks ?? []);
    case 'hardBreak':
      return <br />;
    case 'horizontalRule':
      return <hr />;
    case 'heading':
      // One level down: the page already has an h1.
      return node.attrs?.level === 1 ? <h2>{childrenOf(node)}</h2> : <h3>{childrenOf(node)}</h3>;
    case 'bulletList':
      return <ul>{childrenOf(node)}</ul>;
    case 'orderedList':
      return <ol>{childrenOf(node)}</ol>;
    case 'listItem':
      return <li>{childrenOf(node)}</li>;
    case 'blockquote':
      return <blockquote>{childrenOf(node)}</blockquote>;
    case 'codeBlock':
      return (
        <pre>
          <code>{childrenOf(node)}</code>
        </pre>
      );
    default:
      return <p>{childrenOf(node)}</p>;
  }
}

const ELEMENTS = { bold: 'strong', italic: 'em', strike: 's', code: 'code', underline: 'u' } as const;

function marked(text: string, [mark, ...rest]: readonly Node[]): ReactNode {
  if (mark === undefined) return text;
  const Element = ELEMENTS[mark.type as keyof typeof ELEMENTS];
  const inside = marked(text, rest);
  return Element ? <Element>{inside}</Element> : inside;
}
