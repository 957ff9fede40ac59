import type { ReactNode } from 'react';
import { type Content, textOf } from './comparison/contentText';

/**
 * Content to read, without an editor. Unknown nodes are shown as paragraphs, unknown marks not at all: any editor of the
 * document may have written anything into it.
 */
export function ContentView({ content }: { readonly content: Content }) {
  if (typeof content === 'string' || content.type !== 'doc') {
    return <pre className="prose prose-plain">{textOf(content)}</pre>;
  }
  return <div className="prose">{childrenOf(content)}</div>;
}

/** As it is meant to be; each member may be anything. */
interface Node {
  readonly type?: unknown;
  readonly text?: unknown;
  readonly attrs?: unknown;
  readonly marks?: unknown;
  readonly content?: unknown;
}

function nodesIn(value: unknown): readonly Node[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'object' && each !== null) : [];
}

function childrenOf(node: Node): ReactNode {
  // biome-ignore lint/suspicious/noArrayIndexKey: what is shown never changes its order
  return nodesIn(node.content).map((child, place) => <Shown key={place} node={child} />);
}

function Shown({ node }: { readonly node: Node }): ReactNode {
  switch (node.type) {
    case 'text':
      return marked(typeof node.text === 'string' ? node.text : '', nodesIn(node.marks));
    case 'hardBreak':
      return <br />;
    case 'horizontalRule':
      return <hr />;
    case 'heading':
      // One level down: the page already has an h1.
      return levelOf(node) === 1 ? <h2>{childrenOf(node)}</h2> : <h3>{childrenOf(node)}</h3>;
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

function levelOf({ attrs }: Node): unknown {
  return typeof attrs === 'object' && attrs !== null && 'level' in attrs ? attrs.level : null;
}

// A map: an object would also find "constructor" and other members that every object has.
const ELEMENTS: ReadonlyMap<unknown, 'strong' | 'em' | 's' | 'code' | 'u'> = new Map([
  ['bold', 'strong'],
  ['italic', 'em'],
  ['strike', 's'],
  ['code', 'code'],
  ['underline', 'u'],
]);

function marked(text: string, [mark, ...rest]: readonly Node[]): ReactNode {
  if (mark === undefined) return text;
  const Element = ELEMENTS.get(mark.type);
  const inside = marked(text, rest);
  return Element ? <Element>{inside}</Element> : inside;
}
