import type { DocumentLock } from '@leasehold/react';
import { useLanguage } from '../../ui/language';
import type { Language, Messages } from '../../ui/messages';
import { timeOfDay } from '../../ui/times';

/** The state of saving. Not a live region: the banner reads out what matters. */
export function SaveState({ lock }: { readonly lock: DocumentLock }) {
  const { t, language } = useLanguage();
  const isSafe = !lock.hasUnsavedText && !lock.isSaving;
  return (
    <p className={isSafe ? 'save-state' : 'save-state save-state-unsaved'} data-testid="save-state">
      {textOf(lock, t, language)}
    </p>
  );
}

function textOf(lock: DocumentLock, t: Messages, language: Language): string {
  if (lock.isSaving) return t.saving;
  if (lock.hasUnsavedText) return lock.status === 'offline' && lock.keepsDrafts ? t.keptLocally : t.unsaved;
  if (lock.lastSaved) return t.savedAt(lock.lastSaved.version, timeOfDay(lock.lastSaved.at / 1000, language));
  return lock.version ? t.versionNumber(lock.version) : t.neverSaved;
}
