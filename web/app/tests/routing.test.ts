import { describe, expect, it } from 'vitest';
import { match } from '../src/ui/routing/match';
import { paths } from '../src/ui/routing/paths';

describe('a route', () => {
  it('returns its parameters', () => {
    expect(match('/documents/:id/drafts/:draftId', '/documents/a/drafts/b')).toEqual({
      id: 'a',
      draftId: 'b',
    });
  });

  it('does not match a longer, shorter or different path', () => {
    expect(match('/documents/:id', '/documents')).toBeNull();
    expect(match('/documents/:id', '/documents/a/history')).toBeNull();
    expect(match('/documents/:id/history', '/documents/a/versions')).toBeNull();
  });

  it('ignores a trailing slash', () => {
    expect(match('/documents/:id', '/documents/a/')).toEqual({ id: 'a' });
  });

  it('decodes every id that an address was built from', () => {
    for (const id of ['a b', 'ä/ö', '100%', '..', '#?&']) {
      expect(match('/documents/:id/history', paths.history(id))).toEqual({ id });
    }
  });

  it('does not match an invalid encoding', () => {
    expect(match('/documents/:id', '/documents/%')).toBeNull();
  });
});
