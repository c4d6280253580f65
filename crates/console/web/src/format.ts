// Numbers and times for people. What is unknown is a dash.

export const UNKNOWN = '–';

const number = new Intl.NumberFormat('en');

export function count(value: number | null | undefined): string {
  return value == null ? UNKNOWN : number.format(value);
}

/** `3 nodes`, `1 node`. */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${number.format(value)} ${value === 1 ? one : many}`;
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function bytes(value: number | null | undefined): string {
  if (value == null) return UNKNOWN;
  let amount = value;
  let unit = 0;
  // What would be written as 1024 belongs to the next unit.
  while (amount >= 1023.5 && unit < UNITS.length - 1) {
    amount /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || amount >= 99.95 ? 0 : 1;
  return `${amount.toFixed(digits)} ${UNITS[unit]}`;
}

export function percent(part: number, whole: number): string {
  if (whole <= 0) return UNKNOWN;
  const value = (100 * part) / whole;
  // Little is not nothing, and nearly all is not all.
  if (part > 0 && value < 1) return '<1 %';
  if (part < whole && value > 99) return '>99 %';
  return `${Math.round(value)} %`;
}

/** A span of time in its two largest units. */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return pair(minutes, 'min', seconds % 60, 's');
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return pair(hours, 'h', minutes % 60, 'min');
  const days = Math.floor(hours / 24);
  return days < 10 ? pair(days, 'd', hours % 24, 'h') : `${number.format(days)} d`;
}

function pair(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
}

/** `12 s ago`, `in 3 d`. */
export function relative(ms: number, nowMs: number): string {
  const past = nowMs - ms;
  if (Math.abs(past) < 1000) return 'now';
  return past > 0 ? `${duration(past)} ago` : `in ${duration(-past)}`;
}

const clockTime = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const moment = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });
const day = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium' });

export const clock = (ms: number): string => clockTime.format(ms);
export const dateTime = (ms: number): string => moment.format(ms);
export const date = (ms: number): string => day.format(ms);

/** The time of an RFC 3339 text. */
export function parseTime(text: string | null): number | null {
  const ms = text === null ? Number.NaN : Date.parse(text);
  return Number.isNaN(ms) ? null : ms;
}

/** `1, 2 and 4`, and from four in a row on `1–4`. */
export function ids(nodes: number[]): string {
  const sorted = [...nodes].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let start = 0; start < sorted.length; ) {
    let end = start;
    while (end + 1 < sorted.length && sorted[end + 1] === (sorted[end] ?? 0) + 1) end += 1;
    if (end - start >= 3) parts.push(`${sorted[start]}–${sorted[end]}`);
    else for (let i = start; i <= end; i += 1) parts.push(String(sorted[i]));
    start = end + 1;
  }
  const last = parts.pop();
  if (last === undefined) return UNKNOWN;
  return parts.length === 0 ? last : `${parts.join(', ')} and ${last}`;
}
