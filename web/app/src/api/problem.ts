/** The server said no: with a stable code, and a sentence for whoever reads English. */
export class Problem extends Error {
  override readonly name = 'Problem';

  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    /** Whatever else the answer says, e.g. `lock_holder`. */
    readonly details: Readonly<Record<string, unknown>> = {},
  ) {
    super(message);
  }
}

/** No answer. What was asked may have been done, or not. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
}

/** From the body of an answer that is not a success; something of our own if it is not a problem. */
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
