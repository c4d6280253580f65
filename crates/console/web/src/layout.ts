// Where things are drawn. Pure, so that it can be tested without a browser.

import type { CapacitySample, Disk, LagSample, Node } from './model.ts';

export interface Machine {
  name: string | null;
  nodes: Node[];
}

export interface Rack {
  name: string | null;
  machines: Machine[];
  nodes: number;
}

/** Nodes by rack and machine, in the order of their names; what has none comes last. */
export function racksOf(nodes: Node[]): Rack[] {
  const racks = group(nodes, (node) => node.rack);
  return racks.map(([name, inRack]) => ({
    name,
    nodes: inRack.length,
    machines: group(inRack, (node) => node.machine).map(([machine, on]) => ({ name: machine, nodes: on })),
  }));
}

function group(nodes: Node[], key: (node: Node) => string | null): [string | null, Node[]][] {
  const groups = new Map<string | null, Node[]>();
  for (const node of nodes) {
    const known = groups.get(key(node));
    if (known) known.push(node);
    else groups.set(key(node), [node]);
  }
  const order = new Intl.Collator('en', { numeric: true });
  return [...groups].sort(([a], [b]) => {
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    return order.compare(a, b);
  });
}

export type Tone = 'good' | 'busy' | 'warn' | 'bad' | 'mute';

/** How a node is, in a word. What is worst comes first. */
export function nodeState(node: Node): { word: string; tone: Tone } {
  if (node.absent) return { word: 'no pod', tone: 'bad' };
  if (node.stopping) return { word: 'stopping', tone: 'busy' };
  if (node.waiting !== null) return { word: node.waiting, tone: 'bad' };
  if (!node.ready) return { word: 'not ready', tone: 'warn' };
  if (node.fenced === true) return { word: 'fenced', tone: 'bad' };
  if (node.leaving) return { word: 'leaving', tone: 'busy' };
  if (node.current === false) return { word: 'to be restarted', tone: 'busy' };
  return { word: 'ready', tone: 'good' };
}

/** The fullest disk of a node; null if none is known. */
export function fullest(disks: Disk[]): { used: number; total: number } | null {
  let found: { used: number; total: number } | null = null;
  for (const disk of disks) {
    if (disk.usedBytes === null || disk.totalBytes === null || disk.totalBytes <= 0) continue;
    const fill = disk.usedBytes / disk.totalBytes;
    if (found === null || fill > found.used / found.total) found = { used: disk.usedBytes, total: disk.totalBytes };
  }
  return found;
}

export function fillTone(used: number, total: number): Tone {
  const fill = total > 0 ? used / total : 0;
  if (fill >= 0.9) return 'bad';
  return fill >= 0.75 ? 'warn' : 'good';
}

/** The least of 1, 2, 5, 10, 20, … that is not below a value: the end of an axis. */
export function axisEnd(value: number): number {
  let power = 1;
  while (power * 10 < value) power *= 10;
  for (const factor of [1, 2, 5, 10]) if (factor * power >= value) return factor * power;
  return 10 * power;
}

export interface Series {
  id: string;
  /** The path of the line, in units of the view box. */
  path: string;
  last: number | null;
}

export interface Chart {
  series: Series[];
  top: number;
  fromMs: number;
  toMs: number;
  /** Times at which another node became the leader. */
  elections: { atMs: number; x: number; leader: number }[];
}

export interface Box {
  width: number;
  height: number;
}

/** As many steps are drawn. Lags of a few records come and go with every fetch; what counts is the largest of a while. */
const STEPS = 150;

/**
 * A chart of lags as steps: a lag holds until the next sample, and a step shows the largest lag of its time. Small lags
 * and large ones are both seen (square root).
 */
export function lagChart(samples: LagSample[], nowMs: number, windowMs: number, box: Box): Chart {
  const first = samples[0]?.t ?? nowMs;
  const fromMs = Math.max(first, nowMs - windowMs);
  const toMs = Math.max(nowMs, fromMs + 60_000);
  const steps = stepsOf(samples, fromMs, toMs, nowMs);
  const largest = Math.max(10, ...steps.flatMap((step) => [...step.values()]));
  const top = axisEnd(largest);
  const x = (ms: number) => round(((ms - fromMs) / (toMs - fromMs)) * box.width);
  const y = (lag: number) => round(box.height * (1 - Math.sqrt(lag / top)));
  const names = [...new Set(samples.flatMap((sample) => Object.keys(sample.lag)))];
  names.sort((a, b) => Number(a) - Number(b));
  const series = names.map((id) => {
    let path = '';
    let before: number | undefined;
    for (const [index, step] of steps.entries()) {
      const lag = step.get(id);
      if (lag !== undefined) {
        const start = before === undefined ? `M${x(fromMs + (index * (toMs - fromMs)) / STEPS)} ` : 'V';
        if (lag !== before) path += `${start}${y(lag)}`;
        path += `H${x(Math.min(fromMs + ((index + 1) * (toMs - fromMs)) / STEPS, nowMs))}`;
      }
      before = lag;
    }
    return { id, path, last: samples.at(-1)?.lag[id] ?? null };
  });
  return { series, top, fromMs, toMs, elections: electionsOf(samples, fromMs, x) };
}

/** The largest known lag of each replica in each step. */
function stepsOf(samples: LagSample[], fromMs: number, toMs: number, nowMs: number): Map<string, number>[] {
  const step = (ms: number) => Math.min(STEPS - 1, Math.floor(((ms - fromMs) / (toMs - fromMs)) * STEPS));
  const steps = Array.from({ length: step(nowMs) + 1 }, () => new Map<string, number>());
  for (const [index, sample] of samples.entries()) {
    const until = samples[index + 1]?.t ?? nowMs;
    if (until < fromMs) continue;
    for (const into of steps.slice(step(Math.max(sample.t, fromMs)), step(until) + 1)) {
      for (const [id, lag] of Object.entries(sample.lag)) {
        if (lag !== null) into.set(id, Math.max(lag, into.get(id) ?? 0));
      }
    }
  }
  return steps;
}

function electionsOf(samples: LagSample[], fromMs: number, x: (ms: number) => number): Chart['elections'] {
  return samples.flatMap((sample, index) => {
    const former = samples[index - 1];
    const changed = former !== undefined && former.epoch !== sample.epoch && sample.t >= fromMs;
    return changed ? [{ atMs: sample.t, x: x(sample.t), leader: sample.leader }] : [];
  });
}

export interface Line {
  path: string;
  fromMs: number;
  top: number;
  last: number;
}

/** The free connections of a region over time, as steps; null before there are two samples. */
export function capacityLine(samples: CapacitySample[], region: string, nowMs: number, box: Box): Line | null {
  const known = samples.flatMap((sample) => {
    const found = sample.regions[region];
    return found === undefined ? [] : [{ t: sample.t, free: found[0] }];
  });
  const first = known[0];
  const last = known.at(-1);
  if (first === undefined || last === undefined || known.length < 2) return null;
  const top = axisEnd(Math.max(1, ...known.map((one) => one.free)));
  const x = (ms: number) => round(((ms - first.t) / Math.max(1, nowMs - first.t)) * box.width);
  const y = (free: number) => round(box.height * (1 - free / top));
  const path = known.map(
    (one, index) => `${index === 0 ? 'M' : 'H'}${x(one.t)}${index === 0 ? ' ' : 'V'}${y(one.free)}`,
  );
  return { path: `${path.join('')}H${x(nowMs)}`, fromMs: first.t, top, last: last.free };
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
