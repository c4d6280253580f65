// Plan: the resources in an editor, the numbered plan of the edit, and its lines ticked off once it is applied.

import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { get, post, type Refused } from '../api.ts';
import type { Editor } from '../editor.ts';
import { bytes, duration, ids } from '../format.ts';
import type { Tone } from '../layout.ts';
import { about, parts, past } from '../live.ts';
import type { Estimate, PlanResult, PlanStep, Resources, Summary } from '../model.ts';
import { ofCluster } from '../route.ts';
import { type Mark, marks } from '../ticks.ts';
import { Card, Empty, Pill, Sign } from '../ui/parts.tsx';

interface State {
  /** The cluster that all of this is about. */
  of: string;
  loaded: Resources | null;
  text: string;
  plan: PlanResult | null;
  /** The text that the plan is about. */
  planned: string;
  busy: 'loading' | 'planning' | 'applying' | null;
  applied: string[] | null;
  failure: string | null;
}

const EMPTY: State = {
  of: '',
  loaded: null,
  text: '',
  plan: null,
  planned: '',
  busy: null,
  applied: null,
  failure: null,
};

/** Kept while the user looks at other pages. */
const state = signal<State>(EMPTY);

const set = (change: Partial<State>) => {
  state.value = { ...state.value, ...change };
};

const TONES: Record<PlanResult['outcome'], { tone: Tone; word: string }> = {
  nothing: { tone: 'good', word: 'Nothing would change' },
  changes: { tone: 'busy', word: 'All of it would be carried out' },
  refused: { tone: 'bad', word: 'Part of it is refused' },
  unknown: { tone: 'warn', word: 'The effect is unknown' },
};

export function PlanPage({ summary }: { summary: Summary }) {
  const query = ofCluster(summary.namespace, summary.name);
  useEffect(() => {
    if (state.value.of !== query) {
      state.value = { ...EMPTY, of: query };
      void load(query);
    }
  }, [query]);
  if (about.value?.live === false) {
    return (
      <Empty title="A snapshot cannot be edited here">
        <p>
          <code>gregor plan --from-snapshot</code> plans edits on the file.
        </p>
      </Empty>
    );
  }
  if (past.value !== null) return <Empty title="Edits are planned on the cluster as it is now" />;
  const { plan, failure, busy, text, planned, loaded } = state.value;
  const stale = plan !== null && text !== planned;
  return (
    <div class="plan-page">
      <section class="card editing">
        <header>
          <h2>Resources</h2>
          <div class="buttons">
            <button type="button" disabled={busy !== null} onClick={() => void load(query)}>
              Load again
            </button>
            <button
              type="button"
              class="primary"
              disabled={busy !== null || loaded === null}
              onClick={() => void makePlan(query)}
            >
              {busy === 'planning' ? 'Planning…' : 'Plan'}
            </button>
          </div>
        </header>
        <p class="note">
          The Kafka and its pools as they are. Edit them, or paste others; what is not in the text stays as it is.
        </p>
        <YamlEditor query={query} loaded={loaded} />
      </section>
      <div aria-live="polite">
        {failure !== null && (
          <p class="banner bad">
            <Sign tone="bad" />
            <span>{failure}</span>
          </p>
        )}
        {plan === null && failure === null && (
          <Empty title={busy === 'loading' ? 'Reading the resources' : 'No plan yet'}>
            <p>“Plan” shows what the operator would do, step by step. Nothing is changed by it.</p>
          </Empty>
        )}
        {plan !== null && <PlanCard plan={plan} stale={stale} query={query} />}
      </div>
    </div>
  );
}

async function load(query: string): Promise<void> {
  set({ busy: 'loading', failure: null });
  try {
    const loaded = await get<Resources>(`/api/resources?${query}`);
    if (state.value.of === query) set({ loaded, text: loaded.yaml, plan: null, applied: null, busy: null });
  } catch (error) {
    if (state.value.of === query) set({ failure: (error as Refused).message, busy: null });
  }
}

async function makePlan(query: string): Promise<void> {
  const { text, loaded } = state.value;
  set({ busy: 'planning', failure: null, applied: null });
  try {
    const body = { yaml: text, versions: loaded?.versions ?? {} };
    const plan = await post<PlanResult>(`/api/plan?${query}`, body);
    if (state.value.of === query) set({ plan, planned: text, busy: null });
  } catch (error) {
    if (state.value.of === query) set({ plan: null, failure: (error as Refused).message, busy: null });
  }
}

async function apply(query: string): Promise<void> {
  const { planned, loaded } = state.value;
  set({ busy: 'applying', failure: null });
  try {
    const body = { yaml: planned, versions: loaded?.versions ?? {} };
    const { changed } = await post<{ changed: string[] }>(`/api/apply?${query}`, body);
    if (state.value.of === query) set({ applied: changed, busy: null });
  } catch (error) {
    if (state.value.of === query) set({ failure: (error as Refused).message, busy: null });
  }
}

/** Loaded when it is needed: the editor is larger than all pages together. */
const EDITOR = '/assets/editor.js';

function YamlEditor({ query, loaded }: { query: string; loaded: Resources | null }) {
  const place = useRef<HTMLDivElement>(null);
  const editor = useRef<Editor | null>(null);
  useEffect(() => {
    let gone = false;
    void import(EDITOR).then(({ mount }: typeof import('../editor.ts')) => {
      if (gone || place.current === null) return;
      const made = mount(place.current, state.value.text, () => set({ text: made.text() }));
      editor.current = made;
    });
    return () => {
      gone = true;
      editor.current?.destroy();
      editor.current = null;
    };
  }, [query]);
  // What was loaded anew replaces what is in the editor.
  const shown = useRef<Resources | null>(loaded);
  useEffect(() => {
    if (loaded !== null && loaded !== shown.current) {
      shown.current = loaded;
      if (editor.current && editor.current.text() !== loaded.yaml) editor.current.replace(loaded.yaml);
    }
  }, [loaded]);
  return <div class="editor" ref={place} />;
}

function PlanCard({ plan, stale, query }: { plan: PlanResult; stale: boolean; query: string }) {
  const { tone, word } = TONES[plan.outcome];
  const { applied, busy } = state.value;
  const left = parts.value.why?.plan ?? [];
  const ticked = applied === null ? null : marks(plan.steps, left);
  const done = ticked?.filter((mark) => mark === 'done').length ?? 0;
  return (
    <Card title="Plan" note={plan.estimate && plan.estimate.expectedMs > 1000 ? estimate(plan.estimate) : undefined}>
      <div class="outcome">
        <Pill tone={tone}>{word}</Pill>
        {ticked !== null && (
          <p class="note" role="status">
            {applied?.length === 0 ? 'Nothing was changed' : `Applied: ${applied?.join(', ')}`} · {done} of{' '}
            {plan.steps.length} done
          </p>
        )}
      </div>
      {stale && <p class="said warn">The text has changed since this plan was made: plan again.</p>}
      <ol class="plan">
        {plan.steps.map((step, index) => (
          <StepRow step={step} mark={ticked?.[index] ?? null} key={`${String(index)} ${step.text}`} />
        ))}
      </ol>
      {plan.basis && plan.basis.length > 0 && <p class="note">{plan.basis.join(' ')}</p>}
      <Told title="Unknown" texts={plan.unknown} />
      <Told title="Warnings" texts={plan.warnings.map((one) => `${one.message} (${one.reason})`)} />
      <Told title="In progress already" texts={plan.underWay.map((one) => `${one.message} (${one.reason})`)} />
      <Told title="Ignored" texts={plan.ignored} />
      <Apply plan={plan} stale={stale} query={query} busy={busy !== null} applied={applied !== null} />
    </Card>
  );
}

interface ApplyProps {
  plan: PlanResult;
  stale: boolean;
  query: string;
  busy: boolean;
  applied: boolean;
}

function Apply({ plan, stale, query, busy, applied }: ApplyProps) {
  const may = parts.value.rights?.apply;
  if (applied || plan.outcome === 'nothing') return null;
  const refused = plan.outcome === 'refused';
  return (
    <div class="commands">
      <div class="buttons">
        <button
          type="button"
          class="primary"
          disabled={busy || stale || refused || may === false}
          onClick={() => void apply(query)}
        >
          Apply this plan
        </button>
        {may === false && <p class="note">You may not update the Kafka and its pools.</p>}
        {refused && <p class="note">An edit that is refused is not applied from here.</p>}
      </div>
    </div>
  );
}

const STEP_TONES: Record<string, Tone> = {
  refused: 'bad',
  invalid: 'bad',
  blocked: 'bad',
  stop: 'warn',
  deleteClaims: 'warn',
};

function StepRow({ step, mark }: { step: PlanStep; mark: Mark | null }) {
  const tone = STEP_TONES[step.kind] ?? 'mute';
  return (
    <li class={`${tone} ${mark ?? ''}`}>
      <p>
        {step.text}
        {mark === 'done' && <span class="tick-word"> done</span>}
      </p>
      <p class="note">
        {[
          step.nodes.length > 1 ? `nodes ${ids(step.nodes)}` : '',
          step.estimate && step.estimate.expectedMs > 1000 ? estimate(step.estimate) : '',
          step.bytes ? bytes(step.bytes) : '',
        ]
          .filter((text) => text !== '')
          .join(' · ')}
      </p>
    </li>
  );
}

function estimate(one: Estimate): string {
  const expected = `about ${duration(one.expectedMs)}`;
  if (Math.round(one.lowMs / 1000) === Math.round(one.highMs / 1000)) return expected;
  return `${expected}, ${duration(one.lowMs)} to ${duration(one.highMs)}`;
}

function Told({ title, texts }: { title: string; texts: string[] }) {
  if (texts.length === 0) return null;
  return (
    <div class="told">
      <h3>{title}</h3>
      <ul>
        {texts.map((text) => (
          <li key={text}>{text}</li>
        ))}
      </ul>
    </div>
  );
}
