// From an OpenAPI document to TypeScript: one type for each schema, and one entry for each operation.

/** The text of the module. */
export function typesOf(document) {
  const schemas = Object.entries(document.components.schemas).map(
    ([name, schema]) => `${comment(schema)}export type ${named(name)} = ${typeOf(schema)};\n`,
  );
  return [
    '// Made from the OpenAPI document of the server by `npm run generate`. Not to be edited.\n\n',
    schemas.join('\n'),
    '\n/** The operations by method and path: parameters, body and answer. */\n',
    `export interface Operations {\n${operations(document.paths).join('')}}\n`,
  ].join('');
}

function operations(paths) {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => {
      const members = [
        ['path', parameters(operation, 'path')],
        ['query', parameters(operation, 'query')],
        ['body', content(operation.requestBody)],
        ['reply', reply(operation.responses)],
      ];
      const entry = members.map(([name, type]) => `${name}: ${type}`).join('; ');
      return `  '${method.toUpperCase()} ${path}': { ${entry} };\n`;
    }),
  );
}

function parameters(operation, where) {
  const found = (operation.parameters ?? []).filter((parameter) => parameter.in === where);
  if (found.length === 0) return 'undefined';
  const members = found.map(
    ({ name, required, schema }) => `${name}${required ? '' : '?'}: ${typeOf(schema)}`,
  );
  return `{ ${members.join('; ')} }`;
}

function content(body) {
  const schema = body?.content?.['application/json']?.schema;
  return schema === undefined ? 'undefined' : typeOf(schema);
}

function reply(responses) {
  const [, response] = Object.entries(responses).find(([status]) => status.startsWith('2'));
  return content(response);
}

function typeOf(schema) {
  if (schema.$ref) return named(schema.$ref.split('/').at(-1));
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return [...new Set(choices.map(typeOf))].join(' | ');
  switch (schema.type) {
    case 'array':
      return `readonly (${typeOf(schema.items)})[]`;
    case 'object':
      return objectOf(schema);
    case 'integer':
      return 'number';
    case undefined:
      return 'unknown';
    default:
      return schema.type;
  }
}

function objectOf(schema) {
  if (!schema.properties) return '{ readonly [member: string]: unknown }';
  const required = new Set(schema.required ?? []);
  const members = Object.entries(schema.properties).map(
    ([name, member]) => `  readonly ${name}${required.has(name) ? '' : '?'}: ${typeOf(member)};\n`,
  );
  return `{\n${members.join('')}}`;
}

/** FastAPI writes `Page[Document]` as `Page_Document_`. */
function named(name) {
  return name
    .split(/[^A-Za-z0-9]+/)
    .reverse()
    .join('');
}

function comment(schema) {
  return schema.description
    ? `/** ${schema.description.replaceAll(/\s+/g, ' ').replaceAll('``', '`')} */\n`
    : '';
}
