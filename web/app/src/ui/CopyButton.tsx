import { useEffect, useState } from 'react';
import { useLanguage } from './language';

/** Copies a text to the clipboard, and confirms it for a moment. */
export function CopyButton({ text }: { readonly text: string }) {
  const { t } = useLanguage();
  const [isCopied, setIsCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setIsCopied(false), 2_000);
    return () => clearTimeout(timer);
  }, [isCopied]);
  return (
    <button type="button" className="button" onClick={() => copy(text).then(setIsCopied)}>
      {t.copy}
      <span role="status" className="copied">
        {isCopied && t.copied}
      </span>
    </button>
  );
}

async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // not allowed, or no HTTPS: the text can still be selected
  }
}
