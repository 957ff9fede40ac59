import { expect, test } from 'vitest';
import { restService, type TransportReply, Unreachable } from '../../src';
import { lockState } from '../support/lockStates';

function answering(reply: TransportReply) {
  return restService({ send: async () => reply });
}

const granted = { ...lockState('7'), fence: '7', content_version: 3 };

test.each([401, 408, 429, 500, 502, 503])('a status of %i leaves the outcome unknown', async (status) => {
  const service = answering({ status, body: { code: 'whatever', message: '' } });
  const save = { content: '', baseVersion: 1, fence: '7', release: null };
  for (const answer of [
    service.look('d'),
    service.acquire('d', 'acquire'),
    service.beat('d', 0),
    service.save('d', save),
  ]) {
    expect(await answer).toEqual({ kind: 'unreachable' });
  }
});

test.each([
  ['nothing', null],
  ['another shape', { locked: 'yes' }],
  ['a grant without its fence', { ...granted, fence: undefined }],
])('a good status with %s is no answer to an acquire', async (_, body) => {
  expect(await answering({ status: 200, body }).acquire('d', 'acquire')).toEqual({ kind: 'unreachable' });
});

test('any error of the transport leaves the outcome unknown', async () => {
  for (const error of [new Unreachable('x'), new TypeError('y')]) {
    const service = restService({ send: () => Promise.reject(error) });
    expect(await service.release('d', 'released')).toEqual({ kind: 'unreachable' });
  }
});

test('a refusal has its code and sentence', async () => {
  const service = answering({ status: 403, body: { code: 'not_allowed', message: 'this is for editors' } });
  expect(await service.acquire('d', 'take')).toEqual({
    kind: 'refused',
    code: 'not_allowed',
    message: 'this is for editors',
  });
});

test('ids are escaped in paths', async () => {
  const paths: string[] = [];
  const service = restService({
    send: async ({ path }) => {
      paths.push(path);
      return { status: 200, body: lockState('1') };
    },
  });
  await service.look('a/b?c#ü');
  expect(paths).toEqual(['/api/documents/a%2Fb%3Fc%23%C3%BC/lock']);
});
