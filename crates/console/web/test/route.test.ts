import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clusterPath, parseRoute, streamOf, TABS, timeOf } from '../src/route.ts';

test('every page has an address that leads back to it', () => {
  for (const tab of TABS) {
    for (const [namespace, name] of [
      ['kafka', 'my-cluster'],
      ['a.b', 'c/d e%'],
    ] as const) {
      const route = parseRoute(clusterPath(namespace, name, tab));
      assert.deepEqual(route, { page: 'cluster', namespace, name, tab });
    }
  }
  assert.deepEqual(parseRoute('/'), { page: 'clusters' });
});

test('what is no page is told so', () => {
  for (const path of [
    '/x',
    '/clusters',
    '/clusters/a',
    '/clusters/a/b/none',
    '/clusters/a/b/roll/x',
    '/clusters/%zz/b',
  ]) {
    assert.deepEqual(parseRoute(path), { page: 'unknown' }, path);
  }
  assert.equal(streamOf({ page: 'unknown' }), null);
});

test('a page follows the stream of what it shows', () => {
  assert.equal(streamOf(parseRoute('/')), '/api/events');
  const stream = streamOf(parseRoute('/clusters/a%26b/c/quorum'));
  assert.equal(stream, '/api/events?namespace=a%26b&name=c');
});

test('the time of an address', () => {
  assert.equal(timeOf('?at=1700000000000'), 1_700_000_000_000);
  for (const search of ['', '?at=', '?at=x', '?at=-5', '?at=1.5', '?other=1']) assert.equal(timeOf(search), null);
});

test('the fleet has a page and a stream', () => {
  assert.deepEqual(parseRoute('/fleet'), { page: 'fleet' });
  assert.equal(streamOf({ page: 'fleet' }), '/api/events?fleet=1');
  assert.deepEqual(parseRoute('/fleet/x'), { page: 'unknown' });
});
