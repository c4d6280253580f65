import assert from 'node:assert/strict';
import { test } from 'node:test';
import { draw, isActive, nextOf, STATE_HEIGHT, STATE_WIDTH } from '../src/drawing.ts';
import type { Machine } from '../src/model.ts';

const machine: Machine = {
  name: 'm',
  title: 'M',
  subjects: [],
  edges: [
    ['New', 'Begun', 'Pending'],
    ['Pending', 'Again', 'Pending'],
    ['Pending', 'Done', 'Ready'],
    ['Pending', 'Failed', 'Bad'],
    ['Pending', 'Hindered', 'Bad'],
    ['Ready', 'Refreshed', 'Pending'],
    ['Lost', 'Found', 'New'],
  ],
};

test('states stand in columns by their distance from the first one', () => {
  const { states } = draw(machine);
  const x = (name: string) => states.find((one) => one.name === name)?.x ?? Number.NaN;
  assert.ok(x('New') < x('Pending') && x('Pending') < x('Ready'));
  assert.equal(x('Ready'), x('Bad'));
  assert.ok(x('Lost') > x('Ready'), 'what cannot be reached comes last');
});

test('no two states overlap and all are inside', () => {
  const { states, width, height } = draw(machine);
  for (const [index, one] of states.entries()) {
    assert.ok(one.x - STATE_WIDTH / 2 >= 0 && one.x + STATE_WIDTH / 2 <= width);
    assert.ok(one.y - STATE_HEIGHT / 2 >= 0 && one.y + STATE_HEIGHT / 2 <= height);
    for (const other of states.slice(index + 1)) {
      const apart = Math.abs(one.x - other.x) >= STATE_WIDTH || Math.abs(one.y - other.y) >= STATE_HEIGHT;
      assert.ok(apart, `${one.name} and ${other.name}`);
    }
  }
});

test('events between the same states share an edge', () => {
  const { edges } = draw(machine);
  assert.equal(edges.length, 6);
  const bad = edges.find((edge) => edge.to === 'Bad');
  assert.deepEqual(bad?.events, ['Failed', 'Hindered']);
});

test('a machine without edges is empty', () => {
  assert.deepEqual(draw({ ...machine, edges: [] }).states, []);
});

test('what can happen next is told of the states that something is in', () => {
  const at = (state: string) => ({ ...machine, subjects: [{ name: 'a', state, sinceMs: null }] });
  assert.deepEqual(nextOf(at('Ready')), [{ state: 'Ready', edges: [{ event: 'Refreshed', to: 'Pending' }] }]);
  assert.deepEqual(nextOf(at('Bad')), []);
  assert.deepEqual(
    ['New', 'Pending', 'Bad'].map((state) => isActive(at(state))),
    [false, true, false],
  );
});
