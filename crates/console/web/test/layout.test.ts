import assert from 'node:assert/strict';
import { test } from 'node:test';
import { axisEnd, capacityLine, fillTone, fullest, lagChart, nodeState, racksOf } from '../src/layout.ts';
import type { LagSample, Node } from '../src/model.ts';

const READY: Node = {
  id: 1,
  pod: 'c-p-1',
  pool: 'p',
  broker: true,
  controller: false,
  ready: true,
  absent: false,
  stopping: false,
  waiting: null,
  kafkaVersion: null,
  leads: false,
  votes: null,
  lag: null,
  partitions: null,
  leaders: null,
  machine: 'm1',
  rack: 'a',
  fenced: false,
  current: true,
  leaving: false,
  disks: [],
};

test('nodes are grouped by rack and machine, and those without come last', () => {
  const at = (id: number, rack: string | null, machine: string | null): Node => ({ ...READY, id, rack, machine });
  const nodes = [at(1, null, null), at(2, 'b', 'm10'), at(3, 'b', 'm9'), at(4, 'a', 'm1'), at(5, 'b', 'm9')];
  const racks = racksOf(nodes).map((rack) => [
    rack.name,
    rack.nodes,
    rack.machines.map((machine) => [machine.name, machine.nodes.map((node) => node.id)]),
  ]);
  assert.deepEqual(racks, [
    ['a', 1, [['m1', [4]]]],
    [
      'b',
      3,
      [
        ['m9', [3, 5]],
        ['m10', [2]],
      ],
    ],
    [null, 1, [[null, [1]]]],
  ]);
});

test('a node is as bad as what is worst about it', () => {
  const rows: [Partial<Node>, string][] = [
    [{}, 'ready'],
    [{ current: false }, 'to be restarted'],
    [{ current: null, fenced: null }, 'ready'],
    [{ leaving: true, current: false }, 'leaving'],
    [{ fenced: true, leaving: true }, 'fenced'],
    [{ ready: false, fenced: true }, 'not ready'],
    [{ ready: false, waiting: 'CrashLoopBackOff' }, 'CrashLoopBackOff'],
    [{ ready: false, waiting: 'ContainerCreating', stopping: true }, 'stopping'],
    [{ ready: false, absent: true, stopping: true }, 'no pod'],
  ];
  for (const [change, word] of rows) assert.equal(nodeState({ ...READY, ...change }).word, word);
});

test('the fullest disk counts, and one that is unknown does not', () => {
  const disk = (usedBytes: number | null, totalBytes: number | null) => ({
    path: '/d',
    logsBytes: 0,
    usedBytes,
    totalBytes,
  });
  assert.equal(fullest([]), null);
  assert.equal(fullest([disk(null, 10), disk(5, null), disk(0, 0)]), null);
  assert.deepEqual(fullest([disk(5, 10), disk(30, 100), disk(null, 1)]), { used: 5, total: 10 });
  assert.deepEqual([fillTone(74, 100), fillTone(75, 100), fillTone(90, 100)], ['good', 'warn', 'bad']);
});

test('an axis ends at a round number that is not below the largest value', () => {
  const rows = [
    [1, 1],
    [2, 2],
    [3, 5],
    [10, 10],
    [11, 20],
    [812, 1000],
    [1000, 1000],
  ];
  for (const [value, end] of rows) assert.equal(axisEnd(value ?? 0), end);
});

const BOX = { width: 150, height: 100 };
const sample = (t: number, lag: Record<string, number | null>, epoch = 1): LagSample => ({ t, leader: 1, epoch, lag });

test('a lag holds until the next sample, and a peak between two steps is seen', () => {
  const at = 1_000_000;
  // 150 steps of 1 s each.
  const samples = [sample(at, { 2: 0 }), sample(at + 10_100, { 2: 90 }), sample(at + 10_200, { 2: 0 })];
  const chart = lagChart(samples, at + 150_000, 900_000, BOX);
  assert.deepEqual([chart.fromMs, chart.toMs, chart.top], [at, at + 150_000, 100]);
  const path = chart.series[0]?.path ?? '';
  assert.match(path, /^M0 100H1/);
  assert.match(path, /H10V5\.1H11V100H12/);
  assert.equal(chart.series[0]?.last, 0);
});

test('where a lag is unknown there is no line', () => {
  const at = 1_000_000;
  const samples = [sample(at, { 2: 0 }), sample(at + 50_000, { 2: null }), sample(at + 100_000, { 2: 0 })];
  const path = lagChart(samples, at + 150_000, 900_000, BOX).series[0]?.path ?? '';
  assert.equal(path.split('M').length - 1, 2, path);
  assert.ok(!/H6\d/.test(path), path);
});

test('only what is in the window is drawn, with the elections in it', () => {
  const samples = [sample(0, { 1: 5 }), sample(100_000, { 1: 7 }, 2), sample(950_000, { 1: 9 }, 3)];
  const chart = lagChart(samples, 1_000_000, 900_000, BOX);
  assert.equal(chart.fromMs, 100_000);
  assert.deepEqual(
    chart.elections.map((one) => one.atMs),
    [100_000, 950_000],
  );
  assert.ok(chart.series[0]?.path.startsWith('M0 '));
});

test('a chart of nothing is empty', () => {
  assert.deepEqual(lagChart([], 1_000, 900_000, BOX).series, []);
});

test('what a region can still take is a line of steps', () => {
  const sample = (t: number, free: number) => ({ t, regions: { r: [free, 0, 0] as [number, number, number] } });
  const box = { width: 100, height: 10 };
  assert.equal(capacityLine([sample(0, 5)], 'r', 10, box), null);
  assert.equal(capacityLine([sample(0, 5), sample(5, 10)], 'other', 10, box), null);
  const line = capacityLine([sample(0, 5), sample(50, 10)], 'r', 100, box);
  assert.deepEqual(line, { path: 'M0 5H50V0H100', fromMs: 0, top: 10, last: 10 });
});
