import { beforeEach, describe, expect, it, vi } from 'vitest';
import { Client } from '../src/api/client';
import { codeOf, NoAnswer, Problem } from '../src/api/problem';

const fetched = vi.fn<typeof fetch>();
const renewed = vi.fn<() => Promise<string>>();
let client: Client;

beforeEach(() => {
  fetched.mockReset();
  renewed.mockReset().mockResolvedValue('new');
  vi.stubGlobal('fetch', fetched);
  client = new Client({ accessToken: () => 'old', renew: renewed }, 'this-tab');
});

function problem(status: number, code: string, more = {}) {
  return Response.json(
    { type: code, code, title: code, status, message: `about ${code}`, ...more },
    { status },
  );
}

function headersOf(call: number): Headers {
  return new Headers(fetched.mock.calls[call]?.[1]?.headers);
}

describe('the client', () => {
  it('fills in the path, the query, the token and the tab', async () => {
    fetched.mockResolvedValueOnce(Response.json({ items: [], next_offset: null }));
    await client.call('GET /api/documents/{document_id}/versions', {
      path: { document_id: 'a/b' },
      query: { limit: 5 },
    });
    expect(fetched.mock.calls[0]?.[0]).toBe('/api/documents/a%2Fb/versions?limit=5');
    expect(headersOf(0).get('Authorization')).toBe('Bearer old');
    expect(headersOf(0).get('Leasehold-Tab')).toBe('this-tab');
    expect(headersOf(0).has('Content-Type')).toBe(false);
  });

  it('omits unset parameters from the query', async () => {
    fetched.mockResolvedValueOnce(Response.json({ items: [], next_offset: null }));
    await client.call('GET /api/documents', { query: { application_id: null } });
    expect(fetched.mock.calls[0]?.[0]).toBe('/api/documents');
  });

  it('renews a refused token once, and repeats the request', async () => {
    fetched.mockResolvedValueOnce(problem(401, 'not_signed_in')).mockResolvedValueOnce(Response.json([]));
    await client.call('GET /api/auth/me', {});
    expect(headersOf(1).get('Authorization')).toBe('Bearer new');
    fetched.mockImplementation(async () => problem(401, 'not_signed_in'));
    await expect(client.call('GET /api/auth/me', {})).rejects.toMatchObject({ status: 401 });
    expect(fetched).toHaveBeenCalledTimes(4);
  });

  it('distinguishes a refusal from no answer', async () => {
    fetched.mockResolvedValueOnce(problem(409, 'lock_busy', { lock_holder: { user_name: 'Ben' } }));
    const refused = await client.call('GET /api/auth/me', {}).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(Problem);
    expect(refused).toMatchObject({ code: 'lock_busy', details: { lock_holder: { user_name: 'Ben' } } });
    fetched.mockRejectedValueOnce(new TypeError('no network'));
    const silent = await client.call('GET /api/auth/me', {}).catch((error: unknown) => error);
    expect(silent).toBeInstanceOf(NoAnswer);
    expect([codeOf(refused), codeOf(silent), codeOf(new Error('?'))]).toEqual([
      'lock_busy',
      'no_answer',
      'leasehold_error',
    ]);
  });

  it('accepts a proxy’s page instead of a problem', async () => {
    fetched.mockResolvedValueOnce(new Response('<h1>Bad gateway</h1>', { status: 502 }));
    await expect(client.call('GET /api/auth/me', {})).rejects.toMatchObject({
      status: 502,
      code: 'leasehold_error',
    });
  });

  it('accepts an answer without a body', async () => {
    fetched.mockResolvedValueOnce(new Response(null, { status: 204 }));
    await expect(
      client.call('DELETE /api/documents/{document_id}', { path: { document_id: 'a' } }),
    ).resolves.toBeUndefined();
  });
});
