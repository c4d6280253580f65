// Rebalances: what each proposal does to the brokers, the moves in waves, and what the user may ask for.

import { useState } from 'preact/hooks';
import { post, type Refused } from '../api.ts';
import { bytes, count, counted, duration, parseTime, percent, relative, UNKNOWN } from '../format.ts';
import { type Cell, heatMap, heatStep, type Resource } from '../heat.ts';
import type { Tone } from '../layout.ts';
import { nowMs, parts, past } from '../live.ts';
import type { Command, Load, Move, Moves, Proposal, RebalanceRequest, Summary } from '../model.ts';
import { ofCluster } from '../route.ts';
import { Bar, Card, Empty, Loading, NodeChip, Pill, Sign } from '../ui/parts.tsx';
import { Rows } from '../ui/virtual.tsx';

const TONES: Record<string, Tone> = {
  New: 'busy',
  PendingProposal: 'busy',
  ProposalReady: 'warn',
  Rebalancing: 'busy',
  Stopped: 'mute',
  NotReady: 'bad',
  Ready: 'good',
  ReconciliationPaused: 'warn',
};

const ROW_HEIGHT = 38;

export function RebalancePage({ summary }: { summary: Summary }) {
  const { rebalance } = parts.value;
  if (rebalance === undefined) return <Loading what="the rebalances" />;
  const requests = rebalance.requests?.filter((one) => !one.isTemplate) ?? [];
  const templates = rebalance.requests?.filter((one) => one.isTemplate) ?? [];
  return (
    <>
      {rebalance.requests === null && (
        <p class="banner warn">
          <Sign tone="warn" />
          <span>The KafkaRebalances could not be listed.</span>
        </p>
      )}
      {rebalance.requests !== null && requests.length === 0 && (
        <Empty title="There is no KafkaRebalance">
          <p>
            A <code>KafkaRebalance</code> with the label <code>strimzi.io/cluster: {summary.name}</code> asks for a
            proposal. Clusters with <code>autoRebalance</code> create them when brokers come or leave.
          </p>
        </Empty>
      )}
      {rebalance.moves !== null && rebalance.moves.phase !== 'Ended' && <MovesCard moves={rebalance.moves} />}
      {requests.map((one) => (
        <RequestCard request={one} summary={summary} key={one.name} />
      ))}
      {templates.length > 0 && (
        <p class="note">Templates for automatic rebalances: {templates.map((one) => one.name).join(', ')}.</p>
      )}
    </>
  );
}

function RequestCard({ request, summary }: { request: RebalanceRequest; summary: Summary }) {
  const since = parseTime(request.since);
  const state = request.state ?? 'New';
  const moving = state === 'Rebalancing';
  return (
    <section class="card request" aria-label={`KafkaRebalance ${request.name}`}>
      <header>
        <div class="heading">
          <h2>{request.name}</h2>
          <Pill tone={TONES[state] ?? 'mute'}>{state}</Pill>
        </div>
        <p class="note">
          {request.mode}
          {request.brokers.length > 0 && ` · brokers ${request.brokers.join(', ')}`}
          {since !== null && ` · ${relative(since, nowMs.value)}`}
        </p>
      </header>
      {request.message && <p class="said">{request.message}</p>}
      {request.warnings.map((text) => (
        <p class="said warn" key={text}>
          {text}
        </p>
      ))}
      {request.percent !== null && (moving || request.percent > 0) && (
        <div class="progress-line">
          <Bar
            label={`bytes moved for ${request.name}`}
            used={request.percent}
            total={100}
            text={`${request.percent} %`}
            tone={moving ? 'busy' : 'good'}
          />
          <p class="note">
            {request.percent} % of the bytes moved
            {moving && request.minutesLeft !== null && ` · about ${duration(request.minutesLeft * 60_000)} left`}
            {` · throttle ${request.throttleBytes === null ? 'none' : `${bytes(request.throttleBytes)}/s per broker`}`}
          </p>
        </div>
      )}
      {request.proposal && <ProposalLine proposal={request.proposal} />}
      <Commands request={request} summary={summary} />
      {request.loads.length > 0 && <Heat loads={request.loads} name={request.name} />}
    </section>
  );
}

function ProposalLine({ proposal }: { proposal: Proposal }) {
  const score = (value: number | null) => (value === null ? UNKNOWN : value.toFixed(1));
  return (
    <dl class="facts measures-line">
      <div>
        <dt>Replicas to move</dt>
        <dd>{count(proposal.replicas)}</dd>
      </div>
      <div>
        <dt>Between disks</dt>
        <dd>{count(proposal.disks)}</dd>
      </div>
      <div>
        <dt>Leaders to change</dt>
        <dd>{count(proposal.leaders)}</dd>
      </div>
      <div>
        <dt>Data</dt>
        <dd>{bytes(proposal.bytes)}</dd>
      </div>
      <div>
        <dt>Balancedness</dt>
        <dd>
          {score(proposal.scoreBefore)} → {score(proposal.scoreAfter)}
        </dd>
      </div>
      {proposal.recommendation && (
        <div>
          <dt>Recommendation</dt>
          <dd>{proposal.recommendation}</dd>
        </div>
      )}
    </dl>
  );
}

const LABELS: Record<Command, string> = { approve: 'Approve', stop: 'Stop', refresh: 'Refresh' };

const EFFECTS: Record<Command, string> = {
  approve: 'The operator begins to move replicas as proposed.',
  stop: 'The operator cancels moves in flight; what has been moved stays where it is.',
  refresh: 'The operator makes a new proposal. Moves in progress are stopped first.',
};

function Commands({ request, summary }: { request: RebalanceRequest; summary: Summary }) {
  const [asked, setAsked] = useState<Command | null>(null);
  const [answer, setAnswer] = useState<{ tone: Tone; text: string } | null>(null);
  const rights = parts.value.rights;
  if (past.value !== null) return null;
  const send = async (command: Command) => {
    setAsked(null);
    setAnswer({ tone: 'busy', text: 'Asking…' });
    const path = `/api/rebalance?${ofCluster(summary.namespace, summary.name)}`;
    try {
      await post(path, { rebalance: request.name, command });
      setAnswer({ tone: 'good', text: `The operator was asked to ${command}.` });
    } catch (error) {
      setAnswer({ tone: 'bad', text: (error as Refused).message });
    }
  };
  if (request.commands.length === 0 && answer === null) return null;
  return (
    <div class="commands">
      <div class="buttons">
        {request.commands.map((command) => (
          <button
            type="button"
            key={command}
            class={command === 'approve' ? 'primary' : ''}
            disabled={rights?.rebalance === false || request.pending !== null}
            onClick={() => setAsked(command)}
          >
            {LABELS[command]}
          </button>
        ))}
        {request.pending !== null && <p class="note">The operator was asked to {request.pending}.</p>}
        {rights?.rebalance === false && (
          <p class="note">You may not change KafkaRebalances in namespace {summary.namespace}.</p>
        )}
      </div>
      {asked !== null && (
        <div class="confirm" role="alertdialog" aria-label={`${LABELS[asked]} ${request.name}`}>
          <p>
            <b>
              {LABELS[asked]} {request.name}?
            </b>{' '}
            {EFFECTS[asked]}
          </p>
          <div class="buttons">
            <button type="button" class="primary" onClick={() => void send(asked)}>
              Yes, {asked}
            </button>
            <button type="button" onClick={() => setAsked(null)}>
              Cancel
            </button>
          </div>
        </div>
      )}
      {answer !== null && (
        <p class={`answer ${answer.tone}`} role="status">
          <Sign tone={answer.tone} />
          {answer.text}
        </p>
      )}
    </div>
  );
}

function value(amount: number, unit: Resource['unit']): string {
  switch (unit) {
    case 'count':
      return count(Math.round(amount));
    case 'percent':
      return `${amount.toFixed(amount < 10 ? 1 : 0)} %`;
    case 'MB':
      return bytes(amount * 1024 * 1024);
    case 'KB/s':
      return `${bytes(amount * 1024)}/s`;
  }
}

function Heat({ loads, name }: { loads: Load[]; name: string }) {
  const map = heatMap(loads);
  if (map.resources.length === 0) return <p class="note">No load was measured.</p>;
  const width = 1 + map.resources.length * 2;
  return (
    <div class="scroll heat" tabIndex={0} role="region" aria-label={`Load of brokers for ${name}`}>
      <table>
        <thead>
          <tr>
            <th rowSpan={2} scope="col">
              Broker
            </th>
            {map.resources.map((resource) => (
              <th colSpan={2} scope="colgroup" key={resource.key}>
                {resource.name}
              </th>
            ))}
          </tr>
          <tr class="pairs">
            {map.resources.flatMap((resource) => [
              <th scope="col" key={`${resource.key} before`}>
                before
              </th>,
              <th scope="col" key={`${resource.key} after`}>
                after
              </th>,
            ])}
          </tr>
        </thead>
        <Rows
          count={map.rows.length}
          rowHeight={ROW_HEIGHT}
          columns={width}
          row={(index) => {
            const row = map.rows[index];
            if (row === undefined) return null;
            return (
              <tr key={row.broker}>
                <th scope="row">{row.broker}</th>
                {row.cells.flatMap((cell, at) => heatCells(cell, map.resources[at], `${row.broker} ${at}`))}
              </tr>
            );
          }}
        />
        <tfoot>
          <tr>
            <th scope="row">Fullest over mean</th>
            {map.spread.flatMap((one, at) => {
              const key = map.resources[at]?.key ?? '';
              return [
                <td key={`${key} before`}>{one === null ? UNKNOWN : `+${Math.round(one.before * 100)} %`}</td>,
                <td key={`${key} after`}>{one === null ? UNKNOWN : `+${Math.round(one.after * 100)} %`}</td>,
              ];
            })}
          </tr>
        </tfoot>
      </table>
    </div>
  );
}

function heatCells(cell: Cell | null, resource: Resource | undefined, key: string) {
  if (cell === null || resource === undefined) {
    return [<td key={`${key} before`}>{UNKNOWN}</td>, <td key={`${key} after`}>{UNKNOWN}</td>];
  }
  return [
    <td key={`${key} before`} class={`h${heatStep(cell.heatBefore)}`}>
      {value(cell.before, resource.unit)}
    </td>,
    <td key={`${key} after`} class={`h${heatStep(cell.heatAfter)}`}>
      {value(cell.after, resource.unit)}
    </td>,
  ];
}

function MovesCard({ moves }: { moves: Moves }) {
  const known = moves.bytesTotal !== null && moves.bytesDone !== null;
  const left = moves.endsMs === null ? null : Math.max(0, moves.endsMs - nowMs.value);
  return (
    <Card
      title={`Moves in progress for ${moves.by}`}
      note={`${moves.phase} · begun ${relative(moves.beganMs, nowMs.value)}`}
    >
      <dl class="facts measures-line">
        <div>
          <dt>Bytes done</dt>
          <dd>
            {known
              ? `${bytes(moves.bytesDone)} of ${bytes(moves.bytesTotal)} (${percent(moves.bytesDone ?? 0, moves.bytesTotal ?? 0)})`
              : UNKNOWN}
          </dd>
        </div>
        <div>
          <dt>Throttle</dt>
          <dd>{moves.rateBytes === null ? 'none' : `${bytes(moves.rateBytes)}/s per broker`}</dd>
        </div>
        <div>
          <dt>Time left</dt>
          <dd>{left === null ? UNKNOWN : `about ${duration(left)}`}</dd>
        </div>
        <div>
          <dt>In flight</dt>
          <dd>{counted(moves.inFlightCount, 'partition')}</dd>
        </div>
      </dl>
      {moves.waves.length > 0 && (
        <ol class="waves" aria-label="Waves">
          {moves.waves.map((wave, index) => (
            <li key={String(index)} class={wave.done === wave.moves ? 'done' : wave.inFlight > 0 ? 'now' : ''}>
              <span class="note">wave {index + 1}</span>
              <Bar
                label={`wave ${index + 1}`}
                used={wave.done}
                total={wave.moves}
                text={`${wave.done} of ${wave.moves}`}
                tone={wave.done === wave.moves ? 'good' : 'busy'}
              />
              <span class="note">
                {wave.done} of {counted(wave.moves, 'move')} · {bytes(wave.bytes)}
              </span>
            </li>
          ))}
        </ol>
      )}
      {moves.inFlight.length > 0 && (
        <InFlight moves={moves.inFlight} more={moves.inFlightCount - moves.inFlight.length} />
      )}
    </Card>
  );
}

function InFlight({ moves, more }: { moves: Move[]; more: number }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Partitions that are being moved">
      <table>
        <thead>
          <tr>
            <th scope="col">Partition</th>
            <th scope="col">From</th>
            <th scope="col">To</th>
            <th scope="col" class="number">
              Size
            </th>
          </tr>
        </thead>
        <Rows
          count={moves.length}
          rowHeight={ROW_HEIGHT}
          columns={4}
          row={(index) => {
            const one = moves[index];
            if (one === undefined) return null;
            return (
              <tr key={one.partition}>
                <th scope="row" class="mono">
                  {one.partition}
                </th>
                <td>
                  <Brokers ids={one.from} tone="mute" />
                </td>
                <td>
                  <Brokers ids={one.to} tone="busy" />
                </td>
                <td class="number">{bytes(one.bytes)}</td>
              </tr>
            );
          }}
        />
      </table>
      {more > 0 && <p class="note">and {counted(more, 'more partition')}</p>}
    </div>
  );
}

function Brokers({ ids, tone }: { ids: number[]; tone: Tone }) {
  if (ids.length === 0) return <>{UNKNOWN}</>;
  return (
    <span class="chips inline">
      {ids.map((id) => (
        <NodeChip id={id} tone={tone} key={id} />
      ))}
    </span>
  );
}
