import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytes, count, counted, duration, ids, parseTime, percent, relative } from '../src/format.ts';

test('what is unknown is a dash and never 0', () => {
  assert.equal(count(null), '–');
  assert.equal(count(undefined), '–');
  assert.equal(count(0), '0');
  assert.equal(bytes(null), '–');
  assert.equal(percent(1, 0), '–');
  assert.equal(parseTime(null), null);
  assert.equal(parseTime('soon'), null);
  assert.equal(ids([]), '–');
});

test('numbers have their units', () => {
  const rows: [number, string][] = [
    [0, '0 B'],
    [1023, '1023 B'],
    [1024, '1.0 KiB'],
    [1536, '1.5 KiB'],
    [1024 * 1024 - 1, '1.0 MiB'],
    [300 * 2 ** 30, '300 GiB'],
    [2 ** 60, '1024 PiB'],
  ];
  for (const [value, expected] of rows) assert.equal(bytes(value), expected);
  assert.equal(counted(1, 'node'), '1 node');
  assert.equal(counted(1234, 'node'), '1,234 nodes');
  assert.equal(counted(2, 'partition goes', 'partitions go'), '2 partitions go');
});

test('little is not nothing, and nearly all is not all', () => {
  const rows: [number, number, string][] = [
    [0, 10, '0 %'],
    [1, 1000, '<1 %'],
    [999, 1000, '>99 %'],
    [10, 10, '100 %'],
    [1, 3, '33 %'],
  ];
  for (const [part, whole, expected] of rows) assert.equal(percent(part, whole), expected);
});

test('a span has its two largest units', () => {
  const rows: [number, string][] = [
    [-5, '0 s'],
    [59_400, '59 s'],
    [60_000, '1 min'],
    [61_000, '1 min 1 s'],
    [3_600_000, '1 h'],
    [47 * 3_600_000 + 60_000, '47 h 1 min'],
    [50 * 3_600_000, '2 d 2 h'],
    [364 * 86_400_000, '364 d'],
  ];
  for (const [ms, expected] of rows) assert.equal(duration(ms), expected);
  assert.equal(relative(1_000, 13_000), '12 s ago');
  assert.equal(relative(73_000, 13_000), 'in 1 min');
  assert.equal(relative(1_000, 1_500), 'now');
});

test('many nodes are named in few words', () => {
  assert.equal(ids([3]), '3');
  assert.equal(ids([10, 2]), '2 and 10');
  assert.equal(ids([1, 2, 3]), '1, 2 and 3');
  assert.equal(ids([7, 1, 2, 3, 4]), '1–4 and 7');
});
