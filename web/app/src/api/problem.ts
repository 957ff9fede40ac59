/** The server refused: a stable code, and a sentence in English. */
export class Problem extends Error {
  override readonly name = 'Problem';

  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    /** All members of the answer, e.g. `lock_holder`. */
    readonly details: Readonly<Record<string, unknown>> = {},
  ) {
    super(message);
  }
}

/** No answer. The request may have been executed. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
}

/** The problem in the body of an error response, or a general one. */
export function problemOf(status: number, body: unknown): Problem {
  if (typeof body === 'object' && body !== null) {
    const details = body as Record<string, unknown>;
    const { code, message } = details;
    if (typeof code === 'string')
      return new Problem(status, code, typeof message === 'string' ? message : code, details);
  }
  return new Problem(status, 'leasehold_error', `HTTP ${status}`);
}

/** The code of a problem; `no_answer` without an answer. */
export function codeOf(error: unknown): string {
  if (error instanceof Problem) return error.code;
  return error instanceof NoAnswer ? 'no_answer' : 'leasehold_error';
}
