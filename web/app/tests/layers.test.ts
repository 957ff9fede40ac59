import { expect, it } from 'vitest';
// @ts-expect-error a script without types
import { complaintAbout } from '../scripts/layerRules.mjs';

it.each([
  ['app/App.tsx', 'features/documents/DocumentListPage'],
  ['features/editing/Desk.tsx', 'live/context'],
  ['features/editing/Desk.tsx', 'features/editing/Toolbar'],
  ['features/editing/Desk.tsx', '@tiptap/react'],
  ['ui/Page.tsx', 'ui/language'],
  ['api/queries.ts', '@tanstack/react-query'],
])('lets %s know %s', (file, target) => {
  expect(complaintAbout(file, target)).toBeNull();
});

it.each([
  ['features/history/HistoryPage.tsx', 'features/drafts/DraftPage'],
  ['features/history/HistoryPage.tsx', '@tiptap/react'],
  ['ui/Page.tsx', 'api/client'],
  ['api/client.ts', 'ui/language'],
  ['live/lines.ts', 'api/session'],
  ['features/documents/DocumentRow.tsx', 'app/services'],
])('complains that %s knows %s', (file, target) => {
  expect(complaintAbout(file, target)).toEqual(expect.any(String));
});
