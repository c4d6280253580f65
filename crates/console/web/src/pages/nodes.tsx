// The cluster: its nodes by rack and machine, its partitions, listeners, certificates and conditions.

import type { ComponentChildren } from 'preact';
import { bytes, count, counted, date, duration, parseTime, percent, relative, UNKNOWN } from '../format.ts';
import { fullest, nodeState, racksOf, type Tone } from '../layout.ts';
import { nowMs, parts } from '../live.ts';
import type { Certificate, Condition, Node, Summary } from '../model.ts';
import { Bar, Card, Empty, Loading, Sign } from '../ui/parts.tsx';

export function Nodes({ summary }: { summary: Summary }) {
  const { nodes } = parts.value;
  return (
    <div class="columns">
      <div class="main">
        {nodes === undefined && <Loading what="the nodes" />}
        {nodes?.length === 0 && (
          <Empty title="The cluster has no nodes yet">
            <p>The page “Waiting for” says why.</p>
          </Empty>
        )}
        {nodes && nodes.length > 0 && <Racks nodes={nodes} />}
      </div>
      <aside class="side" aria-label="State of the cluster">
        <Conditions conditions={summary.conditions} />
        <PartitionHealth summary={summary} />
        <Listeners summary={summary} />
        <Certificates summary={summary} />
      </aside>
    </div>
  );
}

function Racks({ nodes }: { nodes: Node[] }) {
  const racks = racksOf(nodes);
  const most = Math.max(1, ...nodes.map((node) => node.partitions ?? 0));
  return (
    <div class="racks">
      {racks.map((rack) => (
        <section class={`rack ${rack.machines.length > 1 ? 'wide' : ''}`} key={rack.name ?? ''}>
          {(racks.length > 1 || rack.name !== null) && (
            <h2>
              {rack.name === null ? 'No rack' : <>Rack {rack.name}</>}
              <span class="note">
                {counted(rack.nodes, 'node')} on {counted(rack.machines.length, 'machine')}
              </span>
            </h2>
          )}
          <div class="machines">
            {rack.machines.map((machine) => (
              <section class="machine" key={machine.name ?? ''} aria-label={machine.name ?? 'on no machine'}>
                <h3>{machine.name ?? 'On no machine'}</h3>
                <ul>
                  {machine.nodes.map((node) => (
                    <NodeTile node={node} most={most} key={node.pod} />
                  ))}
                </ul>
              </section>
            ))}
          </div>
        </section>
      ))}
    </div>
  );
}

function NodeTile({ node, most }: { node: Node; most: number }) {
  const { word, tone } = nodeState(node);
  const roles = [node.controller && 'controller', node.broker && 'broker'].filter(Boolean).join(' + ');
  return (
    <li class={`node ${tone}`}>
      <div class="top">
        <b class="id">
          <span class="visually-hidden">node </span>
          {count(node.id)}
        </b>
        <div class="names">
          <span class="mono pod" title={node.pod}>
            {node.pod}
          </span>
          <span class="under">
            <span class="note">
              {roles || 'no role'}
              {node.kafkaVersion && ` · ${node.kafkaVersion}`}
            </span>
            <span class={`state ${tone}`}>
              <Sign tone={tone} />
              {word}
            </span>
          </span>
        </div>
      </div>
      <dl class="measures">
        {node.controller && (
          <Measure name="Vote">
            <span class={node.leads ? 'leads' : ''}>{vote(node)}</span>
          </Measure>
        )}
        <Measure name="Lag">{node.lag === null ? UNKNOWN : counted(node.lag, 'record')}</Measure>
        {node.broker && (
          <Measure name="Partitions">
            {count(node.partitions)}
            {node.leaders !== null && <span class="note"> · {count(node.leaders)} led</span>}
            {node.partitions !== null && (
              <Bar
                label={`partitions of node ${node.id}, compared with the most`}
                used={node.partitions}
                total={most}
                text={count(node.partitions)}
                tone="mute"
              />
            )}
          </Measure>
        )}
        {node.broker && <DiskMeasure node={node} />}
      </dl>
    </li>
  );
}

function DiskMeasure({ node }: { node: Node }) {
  const disk = fullest(node.disks);
  return (
    <Measure name={node.disks.length > 1 ? `Disk (fullest of ${node.disks.length})` : 'Disk'} full>
      {disk === null ? (
        UNKNOWN
      ) : (
        <>
          {percent(disk.used, disk.total)}
          <span class="note">
            {' '}
            · {bytes(disk.used)} of {bytes(disk.total)}
          </span>
          <Bar label={`disk of node ${node.id}`} used={disk.used} total={disk.total} />
        </>
      )}
    </Measure>
  );
}

function Measure({ name, full, children }: { name: string; full?: boolean; children: ComponentChildren }) {
  return (
    <div class={full ? 'full' : ''}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function vote(node: Node): string {
  if (node.leads) return 'leader';
  if (node.votes === null) return UNKNOWN;
  return node.votes ? 'voter' : 'no vote';
}

const TONES: Record<string, Tone> = {
  Ready: 'good',
  NotReady: 'bad',
  Progressing: 'busy',
  ReconciliationPaused: 'warn',
  Warning: 'warn',
};

function Conditions({ conditions }: { conditions: Condition[] }) {
  return (
    <Card title="Conditions">
      {conditions.length === 0 && <p class="note">The operator has reported nothing yet. Is it running?</p>}
      <ul class="conditions">
        {conditions.map((one) => {
          const since = parseTime(one.since);
          return (
            <li key={`${one.kind} ${one.reason} ${one.message}`}>
              <Sign tone={TONES[one.kind] ?? 'mute'} />
              <div>
                <b>{one.kind}</b> {one.reason && <span class="note">{one.reason}</span>}
                {one.message && <p>{one.message}</p>}
                {since !== null && <p class="note">{relative(since, nowMs.value)}</p>}
              </div>
            </li>
          );
        })}
      </ul>
    </Card>
  );
}

function PartitionHealth({ summary }: { summary: Summary }) {
  const all = summary.partitions;
  const rows: [string, number, Tone][] = all
    ? [
        ['Without a leader', all.leaderless, 'bad'],
        ['Under min-ISR', all.underMinIsr, 'bad'],
        ['Under-replicated', all.underReplicated, 'warn'],
      ]
    : [];
  return (
    <Card title="Partitions" note={all ? count(all.all) : undefined}>
      {all === null && <p class="note">Unknown: Kafka could not be asked.</p>}
      <dl class="rows">
        {rows.map(([name, number, tone]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd class={number > 0 ? tone : ''}>
              {number > 0 && <Sign tone={tone} />}
              {count(number)}
            </dd>
          </div>
        ))}
      </dl>
    </Card>
  );
}

function Listeners({ summary }: { summary: Summary }) {
  return (
    <Card title="Listeners">
      {summary.listeners.length === 0 && <p class="note">None has an address yet.</p>}
      <dl class="stacked">
        {summary.listeners.map((one) => (
          <div key={one.name}>
            <dt>{one.name}</dt>
            <dd class="mono">{one.bootstrap}</dd>
          </div>
        ))}
      </dl>
    </Card>
  );
}

const DAY_MS = 86_400_000;

function Certificates({ summary }: { summary: Summary }) {
  return (
    <Card title="Certificates">
      {!summary.certificatesKnown && <p class="note">Unknown: the Secrets of the cluster could not be read.</p>}
      <dl class="stacked">
        {summary.certificates.map((one) => (
          <CertificateRow one={one} key={one.name} />
        ))}
      </dl>
    </Card>
  );
}

function CertificateRow({ one }: { one: Certificate }) {
  const left = one.endsMs - nowMs.value;
  const tone: Tone = left <= 0 ? 'bad' : left < 14 * DAY_MS ? 'warn' : 'good';
  const text = left <= 0 ? `ended ${relative(one.endsMs, nowMs.value)}` : `ends in ${duration(left)}`;
  return (
    <div>
      <dt>
        {one.name}
        <span class="note">
          {text} · {date(one.endsMs)}
        </span>
      </dt>
      <dd>
        <Bar
          label={`validity of the certificate of ${one.name} that is left`}
          used={Math.max(0, left)}
          total={one.endsMs - one.startsMs}
          text={text}
          tone={tone}
        />
      </dd>
    </div>
  );
}
