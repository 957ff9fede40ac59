// Imports point downward: a module knows its own folder and the layers below it, and no sibling of its layer. `npm run check`
// runs this for the page, the package and the control page of the e2e tests.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { parseSync, Visitor } from 'vite';

const WEB = join(import.meta.dirname, '..');
const PACKAGE = JSON.parse(readFileSync(join(WEB, 'packages/react/package.json'), 'utf8'));

/** Layers from top to bottom; `*` is any one folder. `only`: packages that no other folders may import. */
export const trees = {
  app: {
    root: join(WEB, 'app/src'),
    layers: [['app'], ['features/*'], ['live', 'api', 'ui']],
    only: [{ packages: /^(@tiptap\/|prosemirror)/, folders: ['features/editing'] }],
  },
  react: {
    root: join(WEB, 'packages/react/src'),
    layers: [
      ['.'],
      ['hooks', 'banner'],
      ['editing'],
      ['editing/view', 'editing/effects'],
      ['editing/machine'],
      ['editing/terms'],
      ['live', 'drafts', 'tabs', 'clock', 'transport'],
      ['protocol'],
    ],
    only: [{ packages: /^react/, folders: ['hooks', 'banner'] }],
  },
  control: { root: join(WEB, 'e2e/control'), layers: [['.']], only: [] },
};

/** The text of every module under `root`, by its path there. */
export function sourcesOf(root) {
  const names = readdirSync(root, { recursive: true }).filter((name) => /\.tsx?$/.test(name));
  return Object.fromEntries(names.map((name) => [name, readFileSync(join(root, name), 'utf8')]));
}

/** One line for each import that breaks a rule of `tree`. */
export function violationsOf(sources, tree) {
  return Object.entries(sources).flatMap(([file, text]) =>
    importsOf(file, text).flatMap((specifier) => {
      const reason = reasonAgainst(file, specifier, tree);
      return reason ? [`${file}: '${specifier}': ${reason}`] : [];
    }),
  );
}

function reasonAgainst(file, specifier, { layers, only }) {
  const from = placeOf(dirname(file), layers);
  if (!from) return 'the folder is in no layer';
  if (!specifier.startsWith('.')) return reasonAgainstPackage(from.folder, specifier, only);
  const target = normalize(join(dirname(file), specifier));
  if (target.startsWith('..')) return 'leaves the tree: a package is imported by its exports';
  const to = placeOf(dirname(target), layers);
  if (!to) return 'the folder is in no layer';
  if (from.folder === to.folder || from.level < to.level) return null;
  return from.level === to.level ? 'a sibling of the same layer' : 'a layer above';
}

function reasonAgainstPackage(folder, specifier, only) {
  const name = specifier.replace(/\?.*/, '');
  if (name.startsWith(PACKAGE.name) && !(name.replace(PACKAGE.name, '.') in PACKAGE.exports))
    return `not among the exports of ${PACKAGE.name}`;
  const rule = only.find(({ packages, folders }) => packages.test(name) && !folders.includes(folder));
  return rule ? `only ${rule.folders.join(' and ')} may import it` : null;
}

/** The innermost folder that `layers` names, and its level. */
function placeOf(directory, layers) {
  const parts = directory.split('/');
  const found = layers.flatMap((folders, level) =>
    folders
      .map((folder) => folder.split('/'))
      .filter((names) => names.every((name, at) => (name === '*' ? parts[at] : name === parts[at])))
      .map(({ length }) => ({ level, folder: parts.slice(0, length).join('/') })),
  );
  return found.sort((one, other) => other.folder.length - one.folder.length)[0] ?? null;
}

/** Every module that `text` names: imports and re-exports, of types too, `import()` and `new URL(…, import.meta.url)`. */
function importsOf(file, text) {
  const { program, errors } = parseSync(file, text);
  if (errors.length > 0) throw new Error(`${file}: ${errors[0].message}`);
  const found = [];
  const add = ({ source }) => source && found.push(source.value);
  new Visitor({
    ImportDeclaration: add,
    ExportNamedDeclaration: add,
    ExportAllDeclaration: add,
    ImportExpression: add,
    TSImportType: add,
    NewExpression({ callee, arguments: [address, base] }) {
      const isModule = callee.name === 'URL' && base?.object?.type === 'MetaProperty';
      if (isModule && typeof address.value === 'string') found.push(address.value);
    },
  }).visit(program);
  return found;
}

if (process.argv[1] === import.meta.filename) {
  const violations = Object.values(trees).flatMap((tree) => violationsOf(sourcesOf(tree.root), tree));
  if (violations.length > 0) {
    process.stderr.write(`${violations.join('\n')}\n`);
    process.exit(1);
  }
}
