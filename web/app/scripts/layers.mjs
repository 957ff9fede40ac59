// Imports point downward only: app → features → live | api | ui. One feature knows no other, and only `features/editing`
// knows TipTap. Fails with the lines that say otherwise.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { complaintAbout } from './layerRules.mjs';

const root = fileURLToPath(new URL('../src', import.meta.url));
const complaints = readdirSync(root, { recursive: true })
  .map(String)
  .filter((name) => /\.tsx?$/.test(name))
  .flatMap((name) =>
    importsOf(readFileSync(join(root, name), 'utf8')).flatMap((imported) => {
      const target = imported.startsWith('.')
        ? relative(root, resolve(dirname(join(root, name)), imported))
        : imported;
      const complaint = complaintAbout(name, target);
      return complaint ? [`src/${name}: ${imported}: ${complaint}`] : [];
    }),
  );

if (complaints.length > 0) {
  process.stderr.write(`${complaints.join('\n')}\n`);
  process.exit(1);
}

function importsOf(source) {
  const found = source.matchAll(/(?:from\s+|import\s+|import\()'([^']+)'/g);
  return [...found].map(([, name]) => name);
}
