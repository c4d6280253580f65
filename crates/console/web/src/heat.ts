// The load of brokers before and after a rebalance, as a heat map. Pure, so that it can be tested without a browser.

import type { Load } from './model.ts';

export interface Resource {
  key: string;
  name: string;
  unit: 'count' | 'percent' | 'MB' | 'KB/s';
}

/** The resources in the order in which they are shown. */
export const RESOURCES: Resource[] = [
  { key: 'replicas', name: 'Replicas', unit: 'count' },
  { key: 'leaders', name: 'Leaders', unit: 'count' },
  { key: 'diskUsedMB', name: 'Disk', unit: 'MB' },
  { key: 'diskUsedPercentage', name: 'Disk used', unit: 'percent' },
  { key: 'cpuPercentage', name: 'CPU', unit: 'percent' },
  { key: 'leaderNetworkInRateKB', name: 'Produced', unit: 'KB/s' },
  { key: 'followerNetworkInRateKB', name: 'Replicated', unit: 'KB/s' },
  { key: 'networkOutRateKB', name: 'Sent', unit: 'KB/s' },
];

export interface Cell {
  before: number;
  after: number;
  /** From 0 to 1: the share of the largest value of the resource. */
  heatBefore: number;
  heatAfter: number;
}

export interface Row {
  broker: number;
  cells: (Cell | null)[];
}

export interface HeatMap {
  resources: Resource[];
  rows: Row[];
  /** For each resource: how far the fullest broker is from the mean, before and after, as a share of the mean. */
  spread: ({ before: number; after: number } | null)[];
}

/** The map. A resource that is zero everywhere was not measured, and is left out. */
export function heatMap(loads: Load[]): HeatMap {
  const values = (key: string, at: 0 | 1) => loads.map((load) => load.resources[key]?.[at] ?? 0);
  const largest = (key: string) => Math.max(0, ...values(key, 0), ...values(key, 1));
  const resources = RESOURCES.filter((resource) => largest(resource.key) > 0);
  const tops = resources.map((resource) => largest(resource.key));
  const rows = loads.map((load) => ({
    broker: load.broker,
    cells: resources.map((resource, index) => {
      const pair = load.resources[resource.key];
      const top = tops[index] ?? 1;
      if (pair === undefined) return null;
      const [before, after] = pair;
      return { before, after, heatBefore: before / top, heatAfter: after / top };
    }),
  }));
  const spread = resources.map((resource) => ({
    before: excess(values(resource.key, 0)),
    after: excess(values(resource.key, 1)),
  }));
  return { resources, rows, spread };
}

function excess(values: number[]): number {
  const mean = values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
  return mean > 0 ? Math.max(...values) / mean - 1 : 0;
}

/** One of six steps of colour: a cell says its number besides, so the colour alone says nothing. */
export function heatStep(heat: number): number {
  return Math.max(0, Math.min(5, Math.ceil(heat * 5)));
}
