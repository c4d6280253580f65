// What the server has sent, as signals, and how the connection is.
//
// A page that cannot be seen closes its stream: the server observes nothing for it, and browsers allow only six
// connections to an address.

import { computed, signal } from '@preact/signals';
import type {
  About,
  CapacitySample,
  Failing,
  Fleet,
  LagSample,
  Machine,
  Node,
  Overview,
  Quorum,
  Rebalance,
  Rights,
  Roll,
  StepSample,
  Summary,
  Why,
} from './model.ts';
import { EventParser } from './sse.ts';

export type Connection = 'connecting' | 'live' | 'lost' | 'signedOut';

/** What a cluster is shown from. `undefined` has not been sent yet; a summary of null says that there is no cluster. */
export interface Parts {
  overview?: Overview;
  summary?: Summary | null;
  nodes?: Node[];
  quorum?: Quorum | null;
  roll?: Roll | null;
  why?: Why;
  rebalance?: Rebalance;
  machines?: Machine[];
  rights?: Rights;
  fleet?: Fleet | null;
  failing?: Failing | null;
}

/** What was sent last. */
const now = signal<Parts>({});
/** What was shown at another time, while the user looks at that. */
export const past = signal<{ sinceMs: number; parts: Parts } | null>(null);
export const parts = computed(() => past.value?.parts ?? now.value);
export const samples = signal<LagSample[]>([]);
/** The transitions of state machines, the oldest first. */
export const steps = signal<StepSample[]>([]);
export const capacities = signal<CapacitySample[]>([]);
export const connection = signal<Connection>('connecting');
/** When the server was last heard of. */
export const heardMs = signal(Date.now());
export const about = signal<About | null>(null);
/** The time, for what is shown relative to it. */
export const nowMs = signal(Date.now());

const KEPT_SAMPLES = 1_800;
/** The server says every 15 s that it is alive. */
const SILENCE_MAX_MS = 40_000;
const RETRY_FIRST_MS = 500;
const RETRY_MAX_MS = 5_000;
/** Not at once: whoever changes between tabs does not want to wait for an observation each time. */
const HIDDEN_MS = 20_000;

export const headers = (): Record<string, string> => ({ 'x-gregor-key': localStorage.getItem('gregor-key') ?? '' });

let wanted: string | null = null;
let stop: AbortController | null = null;

/** Begins anew: the user has logged in or out. */
export function reconnect(): void {
  about.value = null;
  restart();
}

/** Shows the parts of another stream. */
export function follow(path: string | null): void {
  if (path === wanted) return;
  wanted = path;
  now.value = {};
  samples.value = [];
  steps.value = [];
  capacities.value = [];
  restart();
}

function restart(): void {
  stop?.abort();
  stop = null;
  if (wanted === null) return;
  connection.value = 'connecting';
  stop = new AbortController();
  void keepOpen(wanted, stop.signal);
}

async function keepOpen(path: string, ended: AbortSignal): Promise<void> {
  let pause = RETRY_FIRST_MS;
  while (!ended.aborted) {
    const begun = Date.now();
    await readOnce(path, ended);
    if (ended.aborted || connection.value === 'signedOut') return;
    connection.value = 'lost';
    pause = Date.now() - begun > RETRY_MAX_MS ? RETRY_FIRST_MS : Math.min(pause * 2, RETRY_MAX_MS);
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

async function readOnce(path: string, ended: AbortSignal): Promise<void> {
  const silent = new AbortController();
  let watchdog = setTimeout(() => silent.abort(), SILENCE_MAX_MS);
  const heard = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(() => silent.abort(), SILENCE_MAX_MS);
    heardMs.value = Date.now();
  };
  try {
    const response = await fetch(path, { headers: headers(), signal: AbortSignal.any([ended, silent.signal]) });
    if (response.status === 401) {
      connection.value = 'signedOut';
      return;
    }
    if (!response.ok || response.body === null) return;
    connection.value = 'live';
    heard();
    void learn();
    await readEvents(response.body, heard);
  } catch {
    // The server is gone, or the page is: what called this knows which.
  } finally {
    clearTimeout(watchdog);
  }
}

async function readEvents(body: ReadableStream<Uint8Array>, heard: () => void): Promise<void> {
  const parser = new EventParser();
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let isFirst = true;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
    const events = parser.push(decoder.decode(value, { stream: true }));
    if (events.length === 0) continue;
    const next: Record<string, unknown> = { ...now.value };
    // A stream begins with the whole history.
    const more: Record<string, unknown[]> = { lag: [], step: [], capacity: [] };
    for (const event of events) {
      const value: unknown = JSON.parse(event.data);
      const series = more[event.name];
      if (series) series.push(value);
      else next[event.name] = value;
    }
    const join = <T>(kept: T[], added: unknown[] = []) =>
      added.length === 0 && !isFirst ? kept : [...(isFirst ? [] : kept), ...(added as T[])].slice(-KEPT_SAMPLES);
    samples.value = join(samples.value, more.lag);
    steps.value = join(steps.value, more.step);
    capacities.value = join(capacities.value, more.capacity);
    isFirst = false;
    now.value = next as Parts;
  }
}

async function learn(): Promise<void> {
  const response = await fetch('/api/about', { headers: headers() }).catch(() => null);
  if (response?.ok) about.value = await response.json();
}

let hiding: ReturnType<typeof setTimeout> | undefined;

export function begin(): void {
  setInterval(() => {
    if (!document.hidden) nowMs.value = Date.now();
  }, 1_000);
  document.addEventListener('visibilitychange', () => {
    clearTimeout(hiding);
    if (document.hidden) {
      hiding = setTimeout(() => {
        stop?.abort();
        stop = null;
      }, HIDDEN_MS);
    } else {
      nowMs.value = Date.now();
      if (stop === null) restart();
    }
  });
}
