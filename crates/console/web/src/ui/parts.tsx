// Small things that several pages are made of.

import type { ComponentChildren } from 'preact';
import { percent } from '../format.ts';
import { fillTone, type Tone } from '../layout.ts';
import type { State } from '../model.ts';

const STATES: Record<State, { word: string; tone: Tone }> = {
  ready: { word: 'Ready', tone: 'good' },
  progressing: { word: 'In progress', tone: 'busy' },
  notReady: { word: 'Not ready', tone: 'bad' },
  paused: { word: 'Paused', tone: 'warn' },
  unknown: { word: 'Unknown', tone: 'mute' },
};

export function StatePill({ state }: { state: State }) {
  const { word, tone } = STATES[state];
  return <Pill tone={tone}>{word}</Pill>;
}

/** A word with a sign: the colour alone says nothing. */
export function Pill({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return (
    <span class={`pill ${tone}`}>
      <Sign tone={tone} />
      {children}
    </span>
  );
}

export function Sign({ tone }: { tone: Tone }) {
  return (
    <svg class={`sign ${tone}`} viewBox="0 0 16 16" aria-hidden="true">
      {tone === 'good' && <path d="M3.5 8.5l3 3 6-7" />}
      {tone === 'busy' && <path d="M8 2.5a5.5 5.5 0 1 1-5.2 3.7M8 5v3l2 1.5" />}
      {tone === 'warn' && <path d="M8 3v6M8 12v.6" />}
      {tone === 'bad' && <path d="M4 4l8 8M12 4l-8 8" />}
      {tone === 'mute' && <path d="M4 8h8" />}
    </svg>
  );
}

interface BarProps {
  label: string;
  used: number;
  total: number;
  text?: string;
  tone?: Tone;
}

/** A part of a whole. The text beside it says the same. */
export function Bar({ label, used, total, text, tone = fillTone(used, total) }: BarProps) {
  const share = total > 0 ? Math.min(1, used / total) : 0;
  return (
    <div
      class={`bar ${tone}`}
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={total}
      aria-valuenow={used}
      aria-valuetext={text ?? percent(used, total)}
    >
      <span style={{ width: `${100 * share}%` }} />
    </div>
  );
}

interface CardProps {
  title: string;
  note?: ComponentChildren;
  children: ComponentChildren;
  class?: string;
}

export function Card({ title, note, children, class: extra }: CardProps) {
  return (
    <section class={`card ${extra ?? ''}`}>
      <header>
        <h2>{title}</h2>
        {note !== undefined && <p class="note">{note}</p>}
      </header>
      {children}
    </section>
  );
}

/** What stands where there is nothing to show: why, and what would be there. */
export function Empty({
  title,
  tone = 'mute',
  children,
}: {
  title: string;
  tone?: Tone;
  children?: ComponentChildren;
}) {
  return (
    <div class="empty">
      <Sign tone={tone} />
      <p class="lead">{title}</p>
      {children}
    </div>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <div class="empty" role="status">
      <span class="spinner" aria-hidden="true" />
      <p class="lead">Waiting for {what}</p>
    </div>
  );
}

export function NodeChip({ id, tone = 'mute' }: { id: number; tone?: Tone }) {
  return (
    <span class={`chip ${tone}`}>
      <Sign tone={tone} />
      <span class="visually-hidden">node </span>
      {id}
    </span>
  );
}

export function Rule({ text }: { text: string | null }) {
  if (text === null) return null;
  return (
    <p class="rule">
      <span class="tag">Rule</span>
      {text}
    </p>
  );
}
