import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sentence } from '../src/api.ts';
import { visible } from '../src/ui/virtual.tsx';

test('a refusal is told in the words of the server', () => {
  assert.equal(sentence(403, '{"message":"you may not"}'), 'you may not');
  assert.equal(sentence(403, 'the console answers its own pages only\n'), 'the console answers its own pages only');
  assert.equal(sentence(500, ''), 'The console answered with 500.');
  assert.equal(sentence(401, ''), 'This browser has no session.');
  assert.equal(sentence(502, '{"message":7}'), '{"message":7}');
});

test('only the rows on the screen exist, and a few beside them', () => {
  assert.deepEqual(visible(10_000, 40, 0, 800), { from: 0, to: 32 });
  assert.deepEqual(visible(10_000, 40, 200_000, 800), { from: 4_988, to: 5_032 });
  assert.deepEqual(visible(10, 40, 200_000, 800), { from: 10, to: 10 });
  assert.deepEqual(visible(0, 40, -500, 800), { from: 0, to: 0 });
});
