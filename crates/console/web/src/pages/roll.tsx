// The roll: what has been restarted, what is being restarted and why, what the others wait for.

import { counted, duration, ids, relative } from '../format.ts';
import type { Tone } from '../layout.ts';
import { nowMs, parts } from '../live.ts';
import type { BatchCertificate, Roll, Wait } from '../model.ts';
import { Card, Empty, Loading, NodeChip, Pill, Rule } from '../ui/parts.tsx';

const STANDINGS: Record<Roll['standing'], { word: string; tone: Tone }> = {
  settled: { word: 'Settled', tone: 'good' },
  rolling: { word: 'Restarting', tone: 'busy' },
  waiting: { word: 'Waiting', tone: 'warn' },
  failed: { word: 'Some nodes were given up', tone: 'bad' },
  stopped: { word: 'Stopped by a node', tone: 'bad' },
};

export function RollPage() {
  const { roll } = parts.value;
  const waits = roll?.waits.toSorted((a, b) => Number(b.underWay) - Number(a.underWay)) ?? [];
  if (roll === undefined) return <Loading what="the roll" />;
  if (roll === null) {
    return (
      <Empty title="No node has to be restarted" tone="good">
        <p>
          A change that Kafka reads only when it starts, a new version, a renewed certificate or{' '}
          <code>gregor roll</code> begins a roll.
        </p>
      </Empty>
    );
  }
  return (
    <>
      <Progress roll={roll} />
      <div class="lanes">
        <Lane title="Done" count={roll.restarted}>
          <p class="note">
            {roll.batches.length > 0
              ? `The last batches took ${roll.batches.map((one) => duration(one.tookMs)).join(', ')}.`
              : 'No batch has ended yet.'}
          </p>
        </Lane>
        <Lane title="Now" count={roll.underWay.length}>
          <Chips nodes={roll.underWay} tone="busy" />
          {roll.batchStartedMs !== null && <p class="note">begun {relative(roll.batchStartedMs, nowMs.value)}</p>}
        </Lane>
        <Lane title="To come" count={roll.left.length}>
          <Chips nodes={roll.left} tone="mute" />
          {roll.givenUp.length > 0 && <p class="bad">Given up: {ids(roll.givenUp)}</p>}
          {roll.stopping.length > 0 && <p class="bad">Stops the others: {ids(roll.stopping)}</p>}
        </Lane>
      </div>
      {roll.certificate !== null && <Certificate certificate={roll.certificate} />}
      <Card title="Reasons and holds" note="why each node is restarted, and what blocks it">
        {waits.length === 0 && <p class="note">No node waits.</p>}
        <ul class="waits-list">
          {waits.map((wait) => (
            <WaitRow wait={wait} key={`${wait.nodes.join()} ${wait.hold}`} />
          ))}
        </ul>
      </Card>
    </>
  );
}

function Progress({ roll }: { roll: Roll }) {
  const { word, tone } = STANDINGS[roll.standing];
  const all = roll.restarted + roll.underWay.length + roll.left.length;
  const share = (part: number) => ({ width: `${all > 0 ? (100 * part) / all : 0}%` });
  return (
    <section class="card progress">
      <header>
        <Pill tone={tone}>{word}</Pill>
        <p class="lead">
          {roll.restarted} of {counted(all, 'node')} restarted
        </p>
        <p class="note">
          {roll.startedMs !== null && <>begun {relative(roll.startedMs, nowMs.value)} · </>}
          {roll.endsMs === null
            ? 'how long it takes is unknown until a batch has ended'
            : `about ${duration(Math.max(0, roll.endsMs - nowMs.value))} left`}
        </p>
      </header>
      <div
        class="stripes"
        role="img"
        aria-label={`${roll.restarted} restarted, ${roll.underWay.length} under way, ${roll.left.length} to come`}
      >
        <span class="done" style={share(roll.restarted)} />
        <span class="now" style={share(roll.underWay.length)} />
      </div>
    </section>
  );
}

function Lane({ title, count, children }: { title: string; count: number; children: preact.ComponentChildren }) {
  return (
    <section class="card lane">
      <header>
        <h2>{title}</h2>
        <b class="figure">{count}</b>
      </header>
      {children}
    </section>
  );
}

function Chips({ nodes, tone }: { nodes: number[]; tone: Tone }) {
  if (nodes.length === 0) return <p class="note">None.</p>;
  return (
    <p class="chips">
      {nodes.map((id) => (
        <NodeChip id={id} tone={tone} key={id} />
      ))}
    </p>
  );
}

function Certificate({ certificate }: { certificate: BatchCertificate }) {
  return (
    <Card
      title="Certificate of the batch"
      note="with the whole batch down, at least this much stays in sync; the tightest partitions first"
    >
      {certificate.tightest.length === 0 && <p class="note">The batch holds no partitions: only controllers.</p>}
      <ul class="tightest">
        {certificate.tightest.map((one) => (
          <li key={one.partition}>
            <span class="mono">{one.partition}</span>
            <span class="pips" role="img" aria-label={`${one.inSync} in sync, ${one.minIsr} required`}>
              {Array.from({ length: Math.max(one.inSync, one.minIsr) }, (_, index) => (
                <span key={String(index)} class={pip(index, one.inSync, one.minIsr)} />
              ))}
            </span>
            <span class="note">
              {one.inSync} in sync, {one.minIsr} required
            </span>
          </li>
        ))}
      </ul>
      {certificate.offlineCount > 0 && (
        <p class="bad">
          {counted(certificate.offlineCount, 'partition goes', 'partitions go')} offline for writers in any case:{' '}
          {certificate.offline.join(', ')}
        </p>
      )}
    </Card>
  );
}

function pip(index: number, inSync: number, minIsr: number): string {
  if (index >= inSync) return 'missing';
  return index < minIsr ? 'required' : 'spare';
}

function WaitRow({ wait }: { wait: Wait }) {
  const tone: Tone = wait.givenUp ? 'bad' : wait.underWay ? 'busy' : 'mute';
  return (
    <li>
      <p class="chips">
        {wait.nodes.map((id) => (
          <NodeChip id={id} tone={tone} key={id} />
        ))}
      </p>
      <div>
        <p class="hold">{wait.hold}</p>
        {wait.reasons.map(([name, text]) => (
          <p key={name + text}>
            <span class="tag" title={name}>
              Why
            </span>
            {text}
          </p>
        ))}
        <Rule text={wait.rule} />
      </div>
    </li>
  );
}
