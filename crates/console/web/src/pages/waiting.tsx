// What the cluster waits for, by which rule, and what is left to do.

import { count, counted, ids } from '../format.ts';
import type { Tone } from '../layout.ts';
import { parts } from '../live.ts';
import type { Awaited, Line, Summary, Why } from '../model.ts';
import { Card, Empty, Loading, Rule, Sign } from '../ui/parts.tsx';

const SHOWN = 10;

/** Lines of a plan that say that something is not done, or that cannot be undone. */
const PLAN_TONES: Record<string, Tone> = {
  refused: 'bad',
  invalid: 'bad',
  blocked: 'bad',
  stop: 'warn',
  deleteClaims: 'warn',
};

export function Waiting({ summary }: { summary: Summary }) {
  const { why } = parts.value;
  if (why === undefined) return <Loading what="what the cluster waits for" />;
  const quiet = why.awaited.length === 0 && why.rebalances.length === 0 && why.plan.length === 0;
  return (
    <>
      {quiet && (
        <Empty title="Not waiting for anything" tone="good">
          <p>The cluster matches its spec.</p>
        </Empty>
      )}
      {why.awaited.length > 0 && (
        <Card title="Waiting for">
          <ul class="awaited">
            {why.awaited.map((one) => (
              <AwaitedRow one={one} key={`${one.about} ${one.what}`} />
            ))}
          </ul>
        </Card>
      )}
      <Rebalances why={why} />
      {why.plan.length > 0 && <Plan lines={why.plan} />}
      {why.warnings.length > 0 && (
        <Card title="Warnings" note={count(why.warnings.length)}>
          <ul class="conditions">
            {why.warnings.map((one) => (
              <li key={one.reason + one.message}>
                <Sign tone="warn" />
                <div>
                  <b>{one.reason}</b>
                  <p>{one.message}</p>
                </div>
              </li>
            ))}
          </ul>
        </Card>
      )}
      {summary.unknown.length > 0 && (
        <Card title="Unknown">
          <ul class="conditions">
            {summary.unknown.map((text) => (
              <li key={text}>
                <Sign tone="mute" />
                <p>{text}</p>
              </li>
            ))}
          </ul>
        </Card>
      )}
    </>
  );
}

function AwaitedRow({ one }: { one: Awaited }) {
  const shown = one.partitions.slice(0, SHOWN);
  const more = one.partitionCount - shown.length;
  return (
    <li>
      <h3>{one.about}</h3>
      <div>
        <p>{one.what}</p>
        {shown.length > 0 && (
          <p class="note">
            {counted(one.partitionCount, 'partition')}: <span class="mono">{shown.join(', ')}</span>
            {more > 0 && ` and ${count(more)} more`}
          </p>
        )}
        <Rule text={one.rule} />
      </div>
    </li>
  );
}

function Rebalances({ why }: { why: Why }) {
  if (why.rebalances.length === 0) return null;
  return (
    <Card title="Rebalances">
      <ul class="conditions">
        {why.rebalances.map((one) => (
          <li key={one.kind}>
            <Sign tone="busy" />
            <div>
              <b>{one.kind}</b> <span class="note">{one.reason}</span>
              {one.message && <p>{one.message}</p>}
            </div>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Plan({ lines }: { lines: Line[] }) {
  return (
    <Card title="What is left to do" note="in order, until the cluster matches its spec">
      <ol class="plan">
        {lines.map((line, index) => {
          const tone = PLAN_TONES[line.kind] ?? 'mute';
          return (
            <li key={`${String(index)} ${line.text}`} class={tone}>
              <p>{line.text}</p>
              {line.nodes.length > 1 && <p class="note">nodes {ids(line.nodes)}</p>}
            </li>
          );
        })}
      </ol>
    </Card>
  );
}
