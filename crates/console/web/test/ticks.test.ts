import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Line } from '../src/model.ts';
import { marks } from '../src/ticks.ts';

const line = (kind: string, nodes: number[], text = kind): Line => ({ kind, nodes, text });

test('a line is done when nothing of its kind is left for its nodes', () => {
  const plan = [line('start', [4, 5]), line('restart', [1]), line('restart', [2]), line('drain', [3])];
  assert.deepEqual(marks(plan, [line('restart', [2]), line('start', [5])]), ['left', 'done', 'left', 'done']);
  assert.deepEqual(marks(plan, []), ['done', 'done', 'done', 'done']);
});

test('a line without nodes is told from others of its kind by its sentence', () => {
  const plan = [line('write', [], 'Service a'), line('write', [], 'Service b')];
  assert.deepEqual(marks(plan, [line('write', [], 'Service b')]), ['done', 'left']);
});

test('a refusal is never done', () => {
  assert.deepEqual(marks([line('refused', [1])], []), ['refused']);
});
