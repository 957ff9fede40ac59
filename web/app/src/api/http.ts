import { NoAnswer, problemOf } from './problem';

const TIMEOUT_MS = 15_000;

export interface HttpRequest {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly withCookies?: boolean;
}

/** One request. Rejects with `Problem` if the server refuses, and with `NoAnswer` if it does not answer in time. */
export async function send<Reply>({
  method,
  path,
  headers,
  body,
  withCookies = true,
}: HttpRequest): Promise<Reply> {
  const hasBody = body !== undefined;
  let response: Response;
  let text: string;
  try {
    response = await fetch(path, {
      method,
      headers: { ...headers, ...(hasBody && { 'Content-Type': 'application/json' }) },
      ...(hasBody && { body: JSON.stringify(body) }),
      credentials: withCookies ? 'same-origin' : 'omit',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    text = await response.text();
  } catch (error) {
    throw new NoAnswer('no answer', { cause: error });
  }
  const parsed = parse(text);
  if (!response.ok) throw problemOf(response.status, parsed);
  return parsed as Reply;
}

function parse(text: string): unknown {
  try {
    return text === '' ? undefined : JSON.parse(text);
  } catch {
    return undefined; // for instance a proxy's page
  }
}
