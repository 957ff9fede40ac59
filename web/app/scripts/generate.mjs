// Writes the types of the REST interface from the server's OpenAPI document: `npm run generate`.
// `--check` writes nothing and fails if the file is stale.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { typesOf } from './openapiTypes.mjs';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const target = fileURLToPath(new URL('../src/api/schema.generated.ts', import.meta.url));
const python = process.env.PYTHON ?? '.venv/bin/python';

const printed = execFileSync(python, ['-m', 'leasehold.server.app.openapi'], {
  cwd: root,
  maxBuffer: 2 ** 26,
});
const types = typesOf(JSON.parse(printed.toString()));

if (process.argv.includes('--check')) {
  if (readFileSync(target, 'utf8') !== types) {
    process.stderr.write('src/api/schema.generated.ts is stale: run `npm run generate`\n');
    process.exit(1);
  }
} else {
  writeFileSync(target, types);
}
