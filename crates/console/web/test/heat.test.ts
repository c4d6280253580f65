import assert from 'node:assert/strict';
import { test } from 'node:test';
import { heatMap, heatStep } from '../src/heat.ts';

const loads = [
  { broker: 1, resources: { replicas: [90, 60] as [number, number], cpuPercentage: [0, 0] as [number, number] } },
  { broker: 2, resources: { replicas: [30, 60] as [number, number], cpuPercentage: [0, 0] as [number, number] } },
  { broker: 3, resources: {} },
];

test('a resource that was not measured is left out', () => {
  const map = heatMap(loads);
  assert.deepEqual(
    map.resources.map((one) => one.key),
    ['replicas'],
  );
  assert.deepEqual(map.rows[2]?.cells, [null], 'unknown is not zero');
});

test('heat is the share of the largest value before and after', () => {
  const cell = heatMap(loads).rows[1]?.cells[0];
  assert.ok(cell);
  assert.equal(cell.heatBefore, 30 / 90);
  assert.equal(cell.heatAfter, 60 / 90);
});

test('the spread says how far the fullest broker is from the mean', () => {
  const [spread] = heatMap(loads.slice(0, 2)).spread;
  assert.deepEqual(spread, { before: 0.5, after: 0 });
});

test('nothing is cold and the largest is hottest', () => {
  assert.deepEqual([0, 0.01, 0.5, 1, 1.2].map(heatStep), [0, 1, 3, 5, 5]);
});
