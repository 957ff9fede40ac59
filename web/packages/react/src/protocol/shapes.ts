import { shapes } from './messages.generated';

/** The shape of a value. Unknown members are accepted: the service may add some. */
export type Shape =
  | { readonly is: 'named'; readonly name: string }
  | { readonly is: 'one-of'; readonly values: readonly (string | number | boolean)[] }
  | { readonly is: 'any-of'; readonly shapes: readonly Shape[] }
  | { readonly is: 'string'; readonly pattern?: string }
  | { readonly is: 'boolean' }
  | { readonly is: 'null' }
  | { readonly is: 'number' }
  | { readonly is: 'integer' }
  | { readonly is: 'array'; readonly items: Shape }
  | { readonly is: 'object'; readonly members: Readonly<Record<string, readonly [Shape, boolean]>> };

/** True if `value` has the shape. */
export function matches(value: unknown, shape: Shape): boolean {
  switch (shape.is) {
    case 'named':
      return matchesNamed(value, shape.name);
    case 'one-of':
      return shape.values.some((each) => each === value);
    case 'any-of':
      return shape.shapes.some((each) => matches(value, each));
    case 'string':
      return typeof value === 'string' && (!shape.pattern || new RegExp(shape.pattern).test(value));
    case 'boolean':
      return typeof value === 'boolean';
    case 'null':
      return value === null;
    case 'number':
      return typeof value === 'number' && Number.isFinite(value);
    case 'integer':
      return Number.isInteger(value);
    case 'array':
      return Array.isArray(value) && value.every((each) => matches(each, shape.items));
    case 'object':
      return isObject(value) && hasMembers(value, shape.members);
  }
}

/** True if `value` matches the definition `name` of the schema. */
export function matchesNamed(value: unknown, name: string): boolean {
  const shape = shapes[name];
  return shape !== undefined && matches(value, shape);
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function hasMembers(
  value: Record<string, unknown>,
  members: Readonly<Record<string, readonly [Shape, boolean]>>,
): boolean {
  return Object.entries(members).every(([name, [shape, isRequired]]) =>
    Object.hasOwn(value, name) ? matches(value[name], shape) : !isRequired,
  );
}
