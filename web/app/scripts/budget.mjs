// Measures the JavaScript of the editor's first load, gzipped: the files of index.html and of the editor's part.
// Fails above the limit.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const LIMIT_KB = 350;
const page = new URL('../../../src/leasehold/server/page/', import.meta.url);
const manifest = JSON.parse(readFileSync(new URL('.vite/manifest.json', page), 'utf8'));
const editor = Object.keys(manifest).find((name) => name.endsWith('features/editing/DocumentPage.tsx'));
if (!manifest['index.html']?.isEntry || !editor)
  throw new Error(`no entry or no editor in ${fileURLToPath(page)}`);

const files = [...filesOf('index.html'), ...filesOf(editor)].filter((name) => name.endsWith('.js'));
const sizes = [...new Set(files)].map((name) => [
  name,
  gzipSync(readFileSync(new URL(name, page))).length / 1000,
]);
const total = sizes.reduce((sum, [, size]) => sum + size, 0);

for (const [name, size] of sizes) process.stdout.write(`${size.toFixed(1).padStart(8)} KB  ${name}\n`);
process.stdout.write(
  `${total.toFixed(1).padStart(8)} KB  gzipped JavaScript for the first load of the editor, of ${LIMIT_KB}\n`,
);
if (total > LIMIT_KB) process.exit(1);

/** The files of a part and of its static imports. */
function filesOf(name, seen = new Set()) {
  if (seen.has(name)) return [];
  seen.add(name);
  const { file, imports = [] } = manifest[name];
  return [file, ...imports.flatMap((each) => filesOf(each, seen))];
}
