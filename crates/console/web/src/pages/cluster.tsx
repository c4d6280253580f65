// What stands at the top of every page of a cluster, and its pages.

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { counted, dateTime, UNKNOWN } from '../format.ts';
import { about, parts, past } from '../live.ts';
import type { Summary } from '../model.ts';
import { clusterPath, TABS, type Tab } from '../route.ts';
import { Empty, Loading, StatePill } from '../ui/parts.tsx';
import { HistoryBar, PastBanner } from './history.tsx';
import { MachinesPage } from './machines.tsx';
import { Nodes } from './nodes.tsx';
import { PlanPage } from './plan.tsx';
import { QuorumPage } from './quorum.tsx';
import { RebalancePage } from './rebalance.tsx';
import { RollPage } from './roll.tsx';
import { Waiting } from './waiting.tsx';

/** Whether the slider of the history is shown. */
const open = signal(false);

export const TAB_NAMES: Record<Tab, string> = {
  nodes: 'Cluster',
  quorum: 'Quorum',
  roll: 'Roll',
  rebalance: 'Rebalance',
  waiting: 'Waiting for',
  plan: 'Plan',
  machines: 'State machines',
};

export function Cluster({ namespace, name, tab }: { namespace: string; name: string; tab: Tab }) {
  const { summary } = parts.value;
  // On a small screen the tab of the page may be outside of the row.
  useEffect(() => {
    document.querySelector('.tabs [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }, [tab]);
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
      {open.value || past.value !== null ? (
        <HistoryBar
          namespace={namespace}
          name={name}
          close={() => {
            open.value = false;
          }}
        />
      ) : null}
      <PastBanner />
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
    case 'rebalance':
      return <RebalancePage summary={summary} />;
    case 'waiting':
      return <Waiting summary={summary} />;
    case 'plan':
      return <PlanPage summary={summary} />;
    case 'machines':
      return <MachinesPage />;
  }
}

/** How much there is to see on a page that is not open, and of what. */
function badge(tab: Tab): [number, string] {
  const { roll, why, rebalance } = parts.value;
  switch (tab) {
    case 'roll':
      return [roll ? roll.underWay.length + roll.left.length : 0, 'node'];
    case 'rebalance': {
      const open = rebalance?.requests?.filter((one) => one.state === 'ProposalReady' || one.state === 'Rebalancing');
      return [open?.length ?? 0, 'rebalance'];
    }
    case 'waiting':
      return [why?.awaited.length ?? 0, 'thing'];
    case 'nodes':
    case 'quorum':
    case 'plan':
    case 'machines':
      return [0, ''];
  }
}

function Badge({ tab }: { tab: Tab }) {
  const [number, of] = badge(tab);
  if (number === 0) return null;
  const what = counted(number, of);
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
      {about.value?.live && (
        <button
          type="button"
          class="history-button"
          aria-expanded={open.value || past.value !== null}
          onClick={() => {
            open.value = !open.value;
          }}
        >
          History
        </button>
      )}
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
