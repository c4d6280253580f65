// Where the states and the edges of a state machine are drawn. Pure, so that it can be tested without a browser.

import type { Machine } from './model.ts';

export interface State {
  name: string;
  /** The centre. */
  x: number;
  y: number;
}

export interface Edge {
  from: string;
  to: string;
  events: string[];
  path: string;
  /** Where the label is. */
  x: number;
  y: number;
}

export interface Drawing {
  width: number;
  height: number;
  states: State[];
  edges: Edge[];
}

export const STATE_WIDTH = 176;
export const STATE_HEIGHT = 38;
const COLUMN = 266;
const ROW = 84;
const MARGIN = 30;
/** What edges need that bend around the outermost column. */
const BEND = 40;

/** States in columns, by how many steps it takes to get there from the first one. */
export function draw(machine: Machine): Drawing {
  const columns = columnsOf(machine);
  const tallest = Math.max(1, ...columns.map((column) => column.length));
  const height = MARGIN * 2 + tallest * ROW;
  const places = new Map<string, State>();
  for (const [index, column] of columns.entries()) {
    for (const [row, name] of column.entries()) {
      const x = MARGIN + BEND + STATE_WIDTH / 2 + index * COLUMN;
      const y = height / 2 + (row - (column.length - 1) / 2) * ROW;
      places.set(name, { name, x, y });
    }
  }
  const width = (MARGIN + BEND) * 2 + STATE_WIDTH + (columns.length - 1) * COLUMN;
  return { width, height, states: [...places.values()], edges: edgesOf(machine, places) };
}

function columnsOf(machine: Machine): string[][] {
  const first = machine.edges[0]?.[0];
  if (first === undefined) return [];
  const depth = new Map([[first, 0]]);
  const queue = [first];
  for (let state = queue.shift(); state !== undefined; state = queue.shift()) {
    for (const [from, , to] of machine.edges) {
      if (from !== state || depth.has(to)) continue;
      depth.set(to, (depth.get(state) ?? 0) + 1);
      queue.push(to);
    }
  }
  // What cannot be reached from the first state comes last.
  const last = Math.max(0, ...depth.values()) + 1;
  for (const [from, , to] of machine.edges) {
    for (const state of [from, to]) if (!depth.has(state)) depth.set(state, last);
  }
  const columns: string[][] = [];
  for (const [state, at] of depth) {
    const column = columns[at] ?? [];
    column.push(state);
    columns[at] = column;
  }
  return columns.filter((column) => column !== undefined);
}

function edgesOf(machine: Machine, places: Map<string, State>): Edge[] {
  const events = new Map<string, { from: string; to: string; events: string[] }>();
  for (const [from, event, to] of machine.edges) {
    const key = `${from} ${to}`;
    const known = events.get(key);
    if (known) known.events.push(event);
    else events.set(key, { from, to, events: [event] });
  }
  return [...events.values()].map((edge) => {
    const from = places.get(edge.from) ?? { name: '', x: 0, y: 0 };
    const to = places.get(edge.to) ?? { name: '', x: 0, y: 0 };
    return { ...edge, ...curve(from, to, events.has(`${edge.to} ${edge.from}`)) };
  });
}

/** The edges that lead on from the states that something is in: what can happen next. */
export function nextOf(machine: Machine): { state: string; edges: { event: string; to: string }[] }[] {
  const lit = [...new Set(machine.subjects.map((one) => one.state))];
  const after = (state: string) =>
    machine.edges.filter(([from]) => from === state).map(([, event, to]) => ({ event, to }));
  return lit.map((state) => ({ state, edges: after(state) })).filter((one) => one.edges.length > 0);
}

/** Whether a machine does something: it has something that is neither in its first state nor at an end. */
export function isActive(machine: Machine): boolean {
  const first = machine.edges[0]?.[0];
  const leads = new Set(machine.edges.map(([from]) => from));
  return machine.subjects.some((one) => one.state !== first && leads.has(one.state));
}

/** A curve between two states. Edges in both directions bend to different sides. */
function curve(from: State, to: State, hasReverse: boolean): { path: string; x: number; y: number } {
  if (from.name === to.name) {
    const { x, y } = from;
    const top = y - STATE_HEIGHT / 2;
    return { path: `M${x - 24} ${top}C${x - 40} ${top - 34} ${x + 40} ${top - 34} ${x + 24} ${top}`, x, y: top - 26 };
  }
  const forward = to.x > from.x;
  if (to.x === from.x) {
    const down = to.y > from.y;
    const side = down ? 1 : -1;
    const x = from.x + (side * STATE_WIDTH) / 2;
    const bend = x + side * 46;
    return {
      path: `M${x} ${from.y}C${bend} ${from.y} ${bend} ${to.y} ${x} ${to.y}`,
      x: bend - side * 12,
      y: (from.y + to.y) / 2,
    };
  }
  const startX = from.x + ((forward ? 1 : -1) * STATE_WIDTH) / 2;
  const endX = to.x - ((forward ? 1 : -1) * STATE_WIDTH) / 2;
  const shift = hasReverse ? (forward ? -8 : 8) : 0;
  // Edges that pass other columns go around them.
  const columns = Math.abs(to.x - from.x) / COLUMN;
  const lift = columns > 1 ? (forward ? -1 : 1) * (ROW * 0.45 + columns * 8) : 0;
  const [startY, endY] = [from.y + shift, to.y + shift];
  const half = (startX + endX) / 2;
  const reach = (endX - startX) * 0.4;
  return {
    path: `M${startX} ${startY}C${startX + reach} ${startY + lift} ${endX - reach} ${endY + lift} ${endX} ${endY}`,
    x: half,
    y: (startY + endY) / 2 + lift * 0.75,
  };
}
