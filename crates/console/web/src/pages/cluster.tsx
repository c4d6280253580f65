// What stands at the top of every page of a cluster, and its pages.

import type { ComponentChildren } from 'preact';
import { counted, dateTime, UNKNOWN } from '../format.ts';
import { parts } from '../live.ts';
import type { Summary } from '../model.ts';
import { clusterPath, TABS, type Tab } from '../route.ts';
import { Empty, Loading, StatePill } from '../ui/parts.tsx';
import { Nodes } from './nodes.tsx';
import { QuorumPage } from './quorum.tsx';
import { RollPage } from './roll.tsx';
import { Waiting } from './waiting.tsx';

export const TAB_NAMES: Record<Tab, string> = {
  nodes: 'Cluster',
  quorum: 'Quorum',
  roll: 'Roll',
  waiting: 'Waiting for',
};

export function Cluster({ namespace, name, tab }: { namespace: string; name: string; tab: Tab }) {
  const { summary } = parts.value;
  if (summary === null) {
    return (
      <Empty title={`There is no Kafka ${name} in namespace ${namespace}`} tone="warn">
        <p>
          It is shown here as soon as it exists. <a href="/">All clusters</a>
        </p>
      </Empty>
    );
  }
  return (
    <>
      <Head namespace={namespace} name={name} summary={summary} />
      <nav class="tabs" aria-label="Pages of the cluster">
        {TABS.map((one) => (
          <a
            key={one}
            href={clusterPath(namespace, name, one)}
            {...(one === tab ? { 'aria-current': 'page' as const } : {})}
          >
            {TAB_NAMES[one]}
            <Badge tab={one} />
          </a>
        ))}
      </nav>
      {summary === undefined ? (
        <Loading what={`the first observation of ${name}`} />
      ) : (
        <Page tab={tab} summary={summary} />
      )}
    </>
  );
}

function Page({ tab, summary }: { tab: Tab; summary: Summary }): ComponentChildren {
  switch (tab) {
    case 'nodes':
      return <Nodes summary={summary} />;
    case 'quorum':
      return <QuorumPage />;
    case 'roll':
      return <RollPage />;
    case 'waiting':
      return <Waiting summary={summary} />;
  }
}

/** How much there is to see on a page that is not open. */
function Badge({ tab }: { tab: Tab }) {
  const { roll, why } = parts.value;
  const number = tab === 'roll' ? (roll ? roll.underWay.length + roll.left.length : 0) : (why?.awaited.length ?? 0);
  if ((tab !== 'roll' && tab !== 'waiting') || number === 0) return null;
  const what = tab === 'roll' ? counted(number, 'node') : counted(number, 'thing');
  return (
    <span class="badge">
      {number}
      <span class="visually-hidden"> ({what})</span>
    </span>
  );
}

interface HeadProps {
  namespace: string;
  name: string;
  summary: Summary | undefined;
}

function Head({ namespace, name, summary }: HeadProps) {
  return (
    <div class="title">
      <div class="heading">
        <h1 tabIndex={-1}>{name}</h1>
        {summary && <StatePill state={summary.state} />}
      </div>
      <dl class="facts">
        <Fact name="Namespace">{namespace}</Fact>
        <Fact name="Kafka">{summary?.kafkaVersion ?? UNKNOWN}</Fact>
        <Fact name="Metadata">{summary?.metadataVersion ?? UNKNOWN}</Fact>
        <Fact name="Cluster ID" mono>
          {summary?.clusterId ?? UNKNOWN}
        </Fact>
        {summary?.takenMs != null && <Fact name="Snapshot of">{dateTime(summary.takenMs)}</Fact>}
      </dl>
    </div>
  );
}

function Fact({ name, mono, children }: { name: string; mono?: boolean; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd class={mono ? 'mono' : ''}>{children}</dd>
    </div>
  );
}
