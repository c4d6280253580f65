import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EventParser } from '../src/sse.ts';

const STREAM = 'event: a\ndata: {"x":1}\n\n:\n\nevent: b\r\ndata: one\r\ndata: two\r\n\r\ndata:\n\nevent: none\n\n';
const EVENTS = [
  { name: 'a', data: '{"x":1}' },
  { name: 'b', data: 'one\ntwo' },
  { name: 'message', data: '' },
];

test('a stream is cut into events', () => {
  assert.deepEqual(new EventParser().push(STREAM), EVENTS);
});

test('it does not matter where the network cuts the stream', () => {
  for (let first = 0; first <= STREAM.length; first += 1) {
    for (let second = first; second <= STREAM.length; second += 7) {
      const parser = new EventParser();
      const cuts = [STREAM.slice(0, first), STREAM.slice(first, second), STREAM.slice(second)];
      assert.deepEqual(
        cuts.flatMap((cut) => parser.push(cut)),
        EVENTS,
      );
    }
  }
});

test('an event is not there before its end', () => {
  const parser = new EventParser();
  assert.deepEqual(parser.push('event: a\ndata: 1\n'), []);
  assert.deepEqual(parser.push('\n'), [{ name: 'a', data: '1' }]);
});
