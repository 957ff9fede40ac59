import { describe, expect, it } from 'vitest';
import { match } from '../src/ui/routing/match';
import { paths } from '../src/ui/routing/paths';

describe('a route', () => {
  it('gives what varies in it', () => {
    expect(match('/documents/:id/drafts/:draftId', '/documents/a/drafts/b')).toEqual({
      id: 'a',
      draftId: 'b',
    });
  });

  it('does not match what is longer, shorter or other', () => {
    expect(match('/documents/:id', '/documents')).toBeNull();
    expect(match('/documents/:id', '/documents/a/history')).toBeNull();
    expect(match('/documents/:id/history', '/documents/a/versions')).toBeNull();
  });

  it('does not mind a slash at the end', () => {
    expect(match('/documents/:id', '/documents/a/')).toEqual({ id: 'a' });
  });

  it('reads back every id that an address was made of', () => {
    for (const id of ['a b', 'ä/ö', '100%', '..', '#?&']) {
      expect(match('/documents/:id/history', paths.history(id))).toEqual({ id });
    }
  });

  it('bears an address that nobody made', () => {
    expect(match('/documents/:id', '/documents/%')).toBeNull();
  });
});
