import type { ReactNode } from 'react';
import { useLanguage } from './language';
import type { Messages } from './messages';

/** An error message, read out at once. */
export function Alert({ children }: { readonly children: ReactNode }) {
  return (
    <div role="alert" className="alert">
      {children}
    </div>
  );
}

/** The message for the code of a problem. */
export function ProblemAlert({ code, onRetry }: { readonly code: string; readonly onRetry?: () => void }) {
  const { t } = useLanguage();
  return (
    <Alert>
      <p>{problemText(t, code)}</p>
      {onRetry && (
        <button type="button" className="button" onClick={onRetry}>
          {t.tryAgain}
        </button>
      )}
    </Alert>
  );
}

export function problemText(t: Messages, code: string): string {
  const key = `problem_${code}`;
  return isProblem(key, t) ? t[key] : t.problem_other;
}

type ProblemKey = Extract<keyof Messages, `problem_${string}`>;

function isProblem(key: string, t: Messages): key is ProblemKey {
  return Object.hasOwn(t, key);
}
