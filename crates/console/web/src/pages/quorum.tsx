// The quorum: who leads, who votes, how closely the others follow, and what changes next.

import { clock, count, counted, UNKNOWN } from '../format.ts';
import { lagChart } from '../layout.ts';
import { nowMs, parts, samples } from '../live.ts';
import type { Quorum, Replica } from '../model.ts';
import { Card, Empty, Loading, Pill, Rule, Sign } from '../ui/parts.tsx';

const WINDOW_MS = 15 * 60_000;
const BOX = { width: 800, height: 200 };
/** As many lines have a colour of their own. */
const COLOURS = 8;

export function QuorumPage() {
  const { quorum } = parts.value;
  if (quorum === undefined) return <Loading what="the quorum" />;
  if (quorum === null) {
    return (
      <Empty title="The quorum could not be described" tone="warn">
        <p>No controller answers, or the Secrets of the cluster may not be read: the page “Waiting for” says which.</p>
      </Empty>
    );
  }
  return (
    <>
      <div class="duo">
        <Seats quorum={quorum} />
        <Card title="Next change of voters">
          {quorum.next === null ? (
            <p class="note">None: the voters are those that the spec asks for.</p>
          ) : (
            <>
              <p>{quorum.next.what}</p>
              <Rule text={quorum.next.rule} />
            </>
          )}
        </Card>
      </div>
      <LagChart />
      <Replicas quorum={quorum} />
    </>
  );
}

/** The voters as seats, with those that are caught up lit. */
function Seats({ quorum }: { quorum: Quorum }) {
  const caught = quorum.voters.filter((voter) => voter.caughtUp).length;
  const spare = caught - quorum.majority;
  const kind = { true: 'dynamic', false: 'static', null: 'unknown kind of' }[String(quorum.dynamic)];
  return (
    <Card title="Voters" note={`${kind} quorum · epoch ${count(quorum.epoch)} · majority ${quorum.majority}`}>
      <ul class="seats">
        {quorum.voters.map((voter) => {
          const leads = voter.id === quorum.leader;
          return (
            <li key={`${voter.id} ${voter.directory}`} class={voter.caughtUp ? 'caught' : 'behind'}>
              <span class={`seat ${leads ? 'leads' : ''}`}>{voter.id}</span>
              <span class="note">{leads ? 'leader' : voter.caughtUp ? 'caught up' : 'behind'}</span>
            </li>
          );
        })}
      </ul>
      <p>
        {spare < 0 && <Pill tone="bad">no majority has caught up</Pill>}
        {spare === 0 && <Pill tone="warn">no voter may fail</Pill>}
        {spare > 0 && <Pill tone="good">{counted(spare, 'voter')} may fail</Pill>}
      </p>
    </Card>
  );
}

function LagChart() {
  const chart = lagChart(samples.value, nowMs.value, WINDOW_MS, BOX);
  const colour = (index: number) => `line c${index % COLOURS} ${index >= COLOURS ? 'dashed' : ''}`;
  const worst = chart.series.reduce((most, one) => Math.max(most, one.last ?? 0), 0);
  return (
    <Card title="Lag over time" note="records of the metadata log behind the leader">
      <figure class="chart">
        <svg
          viewBox={`0 0 ${BOX.width} ${BOX.height}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={`Lag of ${counted(chart.series.length, 'replica')} since ${clock(chart.fromMs)}; the largest now is ${counted(worst, 'record')}`}
        >
          {[0, 0.25, 1].map((share) => (
            <line
              key={share}
              class="grid"
              x1={0}
              x2={BOX.width}
              y1={BOX.height * (1 - Math.sqrt(share))}
              y2={BOX.height * (1 - Math.sqrt(share))}
            />
          ))}
          {chart.elections.map((one) => (
            <line key={one.atMs} class="election" x1={one.x} x2={one.x} y1={0} y2={BOX.height} />
          ))}
          {chart.series.map((one, index) => (
            <path key={one.id} class={colour(index)} d={one.path} />
          ))}
        </svg>
        <span class="tick top">{count(chart.top)}</span>
        <span class="tick middle">{count(chart.top / 4)}</span>
        <span class="tick bottom">0</span>
        <p class="times">
          <span>{clock(chart.fromMs)}</span>
          {chart.elections.length > 0 && (
            <span>
              {counted(chart.elections.length, 'election')}, the last at {clock(chart.elections.at(-1)?.atMs ?? 0)}:
              node {chart.elections.at(-1)?.leader}
            </span>
          )}
          <span>{clock(chart.toMs)}</span>
        </p>
        <figcaption>
          <ul class="legend">
            {chart.series.map((one, index) => (
              <li key={one.id}>
                <svg viewBox="0 0 20 8" aria-hidden="true">
                  <path class={colour(index)} d="M0 4H20" />
                </svg>
                node {one.id} <b>{count(one.last)}</b>
              </li>
            ))}
          </ul>
        </figcaption>
      </figure>
    </Card>
  );
}

function Replicas({ quorum }: { quorum: Quorum }) {
  const rows = [
    ...quorum.voters.map((one) => ({ one, votes: true })),
    ...quorum.observers.map((one) => ({ one, votes: false })),
  ];
  return (
    <Card title="Replicas of the metadata log" note={counted(rows.length, 'replica')}>
      <section class="scroll" tabIndex={0} aria-label="Replicas of the metadata log">
        <table>
          <thead>
            <tr>
              <th scope="col">Node</th>
              <th scope="col">Role</th>
              <th scope="col" class="number">
                Lag
              </th>
              <th scope="col">State</th>
              <th scope="col">Directory ID</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ one, votes }) => (
              <tr key={`${one.id} ${one.directory} ${votes}`}>
                <th scope="row" class="mono">
                  {one.id}
                </th>
                <td>{role(one, votes, quorum)}</td>
                <td class="number">{count(one.lag)}</td>
                <td>
                  <span class={`state ${one.caughtUp ? 'good' : 'warn'}`}>
                    <Sign tone={one.caughtUp ? 'good' : 'warn'} />
                    {one.caughtUp ? 'caught up' : 'behind'}
                  </span>
                </td>
                <td class="mono">{one.directory ?? UNKNOWN}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </Card>
  );
}

function role(one: Replica, votes: boolean, quorum: Quorum): string {
  if (one.id === quorum.leader && votes) return 'leader';
  return votes ? 'voter' : 'observer';
}
