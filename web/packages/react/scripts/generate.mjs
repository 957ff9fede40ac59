// Writes src/protocol/messages.generated.ts from docs/protocol.schema.json: one type for each definition, and the
// shapes that messages are checked against on arrival. With --check it only says whether that file is up to date.
import { readFileSync, writeFileSync } from 'node:fs';

const SCHEMA = new URL('../../../../docs/protocol.schema.json', import.meta.url);
const TARGET = new URL('../src/protocol/messages.generated.ts', import.meta.url);

const definitions = JSON.parse(readFileSync(SCHEMA, 'utf8')).$defs;

function nameOf(reference) {
  return reference.replace('#/$defs/', '');
}

/** The alternatives of a schema, if it has any. */
function alternativesOf(schema) {
  return schema.anyOf ?? schema.oneOf;
}

function typeOf(schema) {
  if (schema.$ref) return nameOf(schema.$ref);
  if (schema.const !== undefined) return literal(schema.const);
  if (schema.enum) return schema.enum.map(literal).join(' | ');
  if (alternativesOf(schema)) return alternativesOf(schema).map(typeOf).join(' | ');
  switch (schema.type) {
    case 'string':
    case 'boolean':
    case 'null':
      return schema.type;
    case 'number':
    case 'integer':
      return 'number';
    case 'array':
      return `readonly (${typeOf(schema.items)})[]`;
    default:
      throw new Error(`no type for ${JSON.stringify(schema)}`);
  }
}

/** What `matches` in shapes.ts understands. A rule that it does not know must not be dropped in silence. */
function shapeOf(schema) {
  if (schema.$ref) return `{ is: 'named', name: ${literal(nameOf(schema.$ref))} }`;
  if (schema.const !== undefined) return `{ is: 'one-of', values: [${literal(schema.const)}] }`;
  if (schema.enum) return `{ is: 'one-of', values: [${schema.enum.map(literal).join(', ')}] }`;
  if (alternativesOf(schema)) {
    return `{ is: 'any-of', shapes: [${alternativesOf(schema).map(shapeOf).join(', ')}] }`;
  }
  switch (schema.type) {
    case 'string':
      return schema.pattern ? `{ is: 'string', pattern: ${literal(schema.pattern)} }` : `{ is: 'string' }`;
    case 'boolean':
    case 'null':
    case 'number':
    case 'integer':
      return `{ is: ${literal(schema.type)} }`;
    case 'array':
      return `{ is: 'array', items: ${shapeOf(schema.items)} }`;
    case 'object':
      return `{ is: 'object', members: {${membersOf(schema)
        .map(([name, member, isRequired]) => ` ${name}: [${shapeOf(member)}, ${isRequired}]`)
        .join(',')} } }`;
    default:
      throw new Error(`no shape for ${JSON.stringify(schema)}`);
  }
}

function membersOf(schema) {
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {}).map(([name, member]) => [name, member, required.has(name)]);
}

function declarationOf(name, schema) {
  const comment = schema.description ? `/** ${schema.description.replaceAll('``', '`')} */\n` : '';
  if (schema.type !== 'object') return `${comment}export type ${name} = ${typeOf(schema)};\n`;
  const members = membersOf(schema).map(
    ([member, of, isRequired]) => `  readonly ${member}${isRequired ? '' : '?'}: ${typeOf(of)};\n`,
  );
  if (members.length === 0) return `${comment}export type ${name} = Readonly<Record<string, never>>;\n`;
  return `${comment}export interface ${name} {\n${members.join('')}}\n`;
}

function literal(value) {
  return typeof value === 'string'
    ? `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
    : String(value);
}

/** Only what arrives is checked, so only that needs a shape. */
function namesUnder(name, found = new Set()) {
  if (found.has(name)) return found;
  found.add(name);
  for (const [, reference] of JSON.stringify(definitions[name]).matchAll(/"\$ref":"([^"]+)"/g)) {
    namesUnder(nameOf(reference), found);
  }
  return found;
}

const names = Object.keys(definitions);
const closeCodes = definitions.CloseCode.oneOf.map((code) => `  ${code.title}: ${code.const},\n`).join('');
const shapes = names
  .filter((name) => namesUnder('ServerMessage').has(name))
  .map((name) => `  ${name}: ${shapeOf(definitions[name])},\n`)
  .join('');

const written = `// Made by scripts/generate.mjs from docs/protocol.schema.json. Change the server's types, not this file.
import type { Shape } from './shapes';

${names.map((name) => declarationOf(name, definitions[name])).join('\n')}
/** ${definitions.CloseCode.description} */
export const closeCodes = {
${closeCodes}} as const;

/** What the server may send, to be checked on arrival. */
export const shapes: Readonly<Record<string, Shape>> = {
${shapes}};
`;

const current = (() => {
  try {
    return readFileSync(TARGET, 'utf8');
  } catch {
    return '';
  }
})();

if (!process.argv.includes('--check')) {
  writeFileSync(TARGET, written);
} else if (current !== written) {
  process.stderr.write('messages.generated.ts is not what the schema says: npm run generate\n');
  process.exit(1);
}
