// All clusters: how each is, and what each is waiting for.

import { counted, dateTime, UNKNOWN } from '../format.ts';
import { about, parts } from '../live.ts';
import type { ClusterRow } from '../model.ts';
import { clusterPath } from '../route.ts';
import { Bar, Empty, Loading, StatePill } from '../ui/parts.tsx';

export function Clusters() {
  const { overview } = parts.value;
  const rows = overview?.clusters ?? [];
  return (
    <>
      <div class="title">
        <h1 tabIndex={-1}>Clusters</h1>
        {about.value && (
          <p class="note">
            {about.value.live ? 'Kubernetes at ' : 'From '}
            <span class="mono">{about.value.origin}</span>
          </p>
        )}
      </div>
      {overview === undefined && <Loading what="the list of clusters" />}
      {overview !== undefined && rows.length === 0 && (
        <Empty title="There is no Kafka resource">
          <p>
            Apply one, such as <code>examples/kafka-persistent.yaml</code>. It is shown here as soon as it exists.
          </p>
        </Empty>
      )}
      {overview?.unknown.map((text) => (
        <p class="banner warn" key={text}>
          {text}
        </p>
      ))}
      {rows.length > 0 && (
        <ul class="clusters">
          {rows.map((row) => (
            <Row row={row} key={`${row.namespace}/${row.name}`} />
          ))}
        </ul>
      )}
    </>
  );
}

function Row({ row }: { row: ClusterRow }) {
  const nodes = row.ready !== null && row.nodes !== null ? { ready: row.ready, all: row.nodes } : null;
  const settled = row.state === 'ready' ? 'Matches its spec' : UNKNOWN;
  return (
    <li class={`card cluster ${row.state}`}>
      <div class="who">
        <a class="name" href={clusterPath(row.namespace, row.name)}>
          {row.name}
        </a>
        <p class="note">
          {row.namespace}
          {row.takenMs !== null && <> · snapshot of {dateTime(row.takenMs)}</>}
        </p>
      </div>
      <StatePill state={row.state} />
      <p class="waits">
        {row.waitsFor ?? settled}
        {row.warnings > 0 && <span class="warnings">{counted(row.warnings, 'warning')}</span>}
      </p>
      <div class="fill">
        <p class="figures">
          <span>Nodes ready</span>
          <b>{nodes ? `${nodes.ready} of ${nodes.all}` : UNKNOWN}</b>
        </p>
        {nodes && (
          <Bar
            label={`nodes of ${row.name} that are ready`}
            used={nodes.ready}
            total={nodes.all}
            text={`${nodes.ready} of ${nodes.all}`}
            tone={nodes.ready < nodes.all ? 'warn' : 'good'}
          />
        )}
      </div>
      <p class="version">
        <span class="note">Kafka</span> {row.kafkaVersion ?? UNKNOWN}
      </p>
    </li>
  );
}
