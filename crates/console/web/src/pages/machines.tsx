// The state machines of the control plane: each drawing with the current states lit, and the transitions beside it.

import { useState } from 'preact/hooks';
import { draw, type Edge, isActive, nextOf, STATE_HEIGHT, STATE_WIDTH } from '../drawing.ts';
import { clock, counted, relative } from '../format.ts';
import type { Tone } from '../layout.ts';
import { nowMs, parts, steps } from '../live.ts';
import type { Machine, StepSample } from '../model.ts';
import { Card, Loading, Pill } from '../ui/parts.tsx';

const SHOWN = 30;

export function MachinesPage() {
  const { machines } = parts.value;
  if (machines === undefined) return <Loading what="the state machines" />;
  return (
    <>
      {machines.map((machine) => (
        <MachineCard machine={machine} key={machine.name} />
      ))}
    </>
  );
}

/** At rest, under way, or at an end. */
function toneOf(machine: Machine, state: string): Tone {
  if (state === machine.edges[0]?.[0]) return 'mute';
  return machine.edges.some(([from]) => from === state) ? 'busy' : 'good';
}

function MachineCard({ machine }: { machine: Machine }) {
  const mine = steps.value.filter((step) => step.machine === machine.name);
  const [open, setOpen] = useState(isActive(machine));
  const lit = new Map<string, string[]>();
  for (const one of machine.subjects) lit.set(one.state, [...(lit.get(one.state) ?? []), one.name]);
  const id = `machine-${machine.name}`;
  return (
    <Card
      title={machine.title}
      note={
        <button type="button" class="link" aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)}>
          {open ? 'Hide the drawing' : 'Show the drawing'}
        </button>
      }
    >
      <div class="machine-page">
        <div>
          {machine.subjects.length === 0 && <p class="note">Nothing is in this machine now.</p>}
          <ul class="subjects">
            {machine.subjects.map((one) => (
              <li key={one.name}>
                <b>{one.name}</b>
                <Pill tone={toneOf(machine, one.state)}>{one.state}</Pill>
                {one.sinceMs !== null && <span class="note">{relative(one.sinceMs, nowMs.value)}</span>}
              </li>
            ))}
          </ul>
          <div id={id}>
            {open && <Diagram machine={machine} lit={lit} last={mine.at(-1)} />}
            {open && <Next machine={machine} />}
          </div>
        </div>
        <Transitions steps={mine} />
      </div>
    </Card>
  );
}

/** What can happen next, in words: in the drawing the events would cover each other. */
function Next({ machine }: { machine: Machine }) {
  const all = nextOf(machine);
  if (all.length === 0) return null;
  return (
    <dl class="next-events">
      {all.map((one) => (
        <div key={one.state}>
          <dt>From {one.state}</dt>
          <dd>
            {one.edges.map((edge) => (
              <span key={`${edge.event} ${edge.to}`}>
                {edge.event} → {edge.to}
              </span>
            ))}
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Diagram({
  machine,
  lit,
  last,
}: {
  machine: Machine;
  lit: Map<string, string[]>;
  last: StepSample | undefined;
}) {
  const { width, height, states, edges } = draw(machine);
  const isLit = (edge: Edge) => lit.has(edge.from);
  const isLast = (edge: Edge) => last !== undefined && edge.from === last.from && edge.to === last.to;
  const kind = (edge: Edge) => (isLast(edge) ? 'last' : isLit(edge) ? 'next' : '');
  const arrow = `arrow-${machine.name}`;
  const words = [...lit].map(([state, names]) => `${names.join(', ')} in ${state}`).join('; ');
  // What is lit is drawn last, above the rest.
  const ordered = edges.toSorted((a, b) => Number(isLit(a) || isLast(a)) - Number(isLit(b) || isLast(b)));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={`Drawing of ${machine.title}`}>
      <svg
        class="drawing"
        viewBox={`0 0 ${width} ${height}`}
        style={{ maxWidth: `${width}px`, minWidth: `${Math.round(width * 0.6)}px` }}
        role="img"
        aria-label={`${machine.title}: ${words || 'nothing in it'}`}
      >
        <defs>
          {['', 'next', 'last'].map((one) => (
            <marker
              key={one}
              id={`${arrow}${one}`}
              class={`arrow ${one}`}
              viewBox="0 0 8 8"
              refX="7"
              refY="4"
              markerWidth="7"
              markerHeight="7"
              orient="auto-start-reverse"
            >
              <path d="M0 0L8 4L0 8z" />
            </marker>
          ))}
        </defs>
        {ordered.map((edge) => (
          <g class={`edge ${kind(edge)}`} key={`${edge.from} ${edge.to}`}>
            <path d={edge.path} marker-end={`url(#${arrow}${kind(edge)})`} />
            <text x={edge.x} y={edge.y}>
              {edge.events.map((event, index) => (
                <tspan x={edge.x} dy={index === 0 ? 0 : 12} key={event}>
                  {event}
                </tspan>
              ))}
            </text>
          </g>
        ))}
        {states.map((state) => (
          <g class={`machine-state ${lit.has(state.name) ? 'lit' : ''}`} key={state.name}>
            <rect
              x={state.x - STATE_WIDTH / 2}
              y={state.y - STATE_HEIGHT / 2}
              width={STATE_WIDTH}
              height={STATE_HEIGHT}
              rx="10"
            />
            <text x={state.x} y={state.y + 4}>
              {state.name}
            </text>
          </g>
        ))}
      </svg>
    </div>
  );
}

function Transitions({ steps: all }: { steps: StepSample[] }) {
  const newest = all.slice(-SHOWN).reverse();
  return (
    <div class="transitions">
      <h3>Transitions</h3>
      {newest.length === 0 && <p class="note">None since the console has observed this cluster.</p>}
      <ol>
        {newest.map((step) => (
          <li key={`${step.t} ${step.subject} ${step.to}`}>
            <time dateTime={new Date(step.t).toISOString()}>{clock(step.t)}</time>
            <span>
              <b>{step.subject}</b> {step.from ?? 'new'} → {step.to ?? 'gone'}
            </span>
          </li>
        ))}
      </ol>
      {all.length > SHOWN && <p class="note">and {counted(all.length - SHOWN, 'earlier transition')}</p>}
    </div>
  );
}
