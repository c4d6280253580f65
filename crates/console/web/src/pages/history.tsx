// Back in time: a slider over the last 24 hours, and what the pages of the cluster showed then.

import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { get } from '../api.ts';
import { dateTime, relative } from '../format.ts';
import { nowMs, type Parts, past } from '../live.ts';
import { ofCluster } from '../route.ts';
import { Sign } from '../ui/parts.tsx';

const times = signal<number[]>([]);
const failure = signal<string | null>(null);

/** The address of the page at a time: it can be shared. */
function address(at: number | null): void {
  const query = at === null ? '' : `?at=${at}`;
  history.replaceState(null, '', location.pathname + query);
}

/** Shows the cluster as it was. */
export async function travel(namespace: string, name: string, at: number): Promise<void> {
  try {
    past.value = await get<{ sinceMs: number; parts: Parts }>(`/api/history?${ofCluster(namespace, name)}&at=${at}`);
    failure.value = null;
    address(past.value.sinceMs);
  } catch {
    failure.value = 'Nothing is known of that time.';
  }
}

export function returnToNow(): void {
  past.value = null;
  failure.value = null;
  address(null);
}

async function list(namespace: string, name: string): Promise<void> {
  const found = await get<{ times: number[] }>(`/api/history?${ofCluster(namespace, name)}`).catch(() => null);
  if (found) times.value = found.times;
}

export function HistoryBar({ namespace, name, close }: { namespace: string; name: string; close: () => void }) {
  useEffect(() => {
    void list(namespace, name);
    const timer = setInterval(() => void list(namespace, name), 10_000);
    return () => clearInterval(timer);
  }, [namespace, name]);
  const all = times.value;
  const shown = past.value;
  const at = shown === null ? all.length : Math.max(0, all.lastIndexOf(shown.sinceMs));
  const move = (index: number) => {
    const time = all[index];
    if (time === undefined) returnToNow();
    else void travel(namespace, name, time);
  };
  const word = shown === null ? 'now' : dateTime(shown.sinceMs);
  return (
    <section class="card history" aria-label="History">
      <div class="buttons">
        <button type="button" disabled={at === 0} onClick={() => move(at - 1)}>
          Earlier
        </button>
        <button type="button" disabled={shown === null} onClick={() => move(at + 1)}>
          Later
        </button>
      </div>
      <label>
        <span class="visually-hidden">Time</span>
        <input
          type="range"
          min={0}
          max={all.length}
          value={at}
          aria-valuetext={word}
          onInput={(event) => move(Number(event.currentTarget.value))}
        />
      </label>
      <p class="note" role="status">
        {failure.value ?? (shown === null ? `Now · ${all.length} changes in the last 24 hours` : word)}
        {shown !== null && ` · ${relative(shown.sinceMs, nowMs.value)}`}
      </p>
      <div class="buttons">
        <button
          type="button"
          onClick={() => {
            returnToNow();
            close();
          }}
        >
          {shown === null ? 'Close' : 'Back to now'}
        </button>
      </div>
    </section>
  );
}

/** Says that what is shown is not what is. */
export function PastBanner() {
  const shown = past.value;
  if (shown === null) return null;
  return (
    <p class="banner warn">
      <Sign tone="warn" />
      <span>
        The cluster as it was at {dateTime(shown.sinceMs)}, {relative(shown.sinceMs, nowMs.value)}.{' '}
        <button type="button" class="link" onClick={returnToNow}>
          Back to now
        </button>
      </span>
    </p>
  );
}
