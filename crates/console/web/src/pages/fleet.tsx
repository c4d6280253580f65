// The fleet: data planes as boxes by region, what they can still take over time, and the decisions with their reasons.

import { count, counted, dateTime, parseTime, relative, UNKNOWN } from '../format.ts';
import type { Tone } from '../layout.ts';
import { capacityLine } from '../layout.ts';
import { capacities, nowMs, parts } from '../live.ts';
import type { CapacitySample, Fleet, FleetDecision, Plane, Region } from '../model.ts';
import { Card, Empty, Loading, Pill, Sign } from '../ui/parts.tsx';

const BOX = { width: 320, height: 60 };

export function FleetPage() {
  const { fleet } = parts.value;
  if (fleet === undefined) return <Loading what="the fleet" />;
  if (fleet === null) {
    return (
      <Empty title="No fleet is configured">
        <p>
          <code>gregor console --fleet-manager URL --fleet-token-file FILE</code> shows the fleet of a fleet manager.
        </p>
      </Empty>
    );
  }
  return (
    <>
      <div class="title">
        <h1 tabIndex={-1}>Fleet</h1>
        <p class="note">
          {counted(fleet.regions.length, 'region')}, {counted(fleet.planes.length, 'data plane')}
        </p>
      </div>
      {fleet.regions.map((region) => (
        <RegionCard region={region} fleet={fleet} key={region.name} />
      ))}
      <Decisions decisions={fleet.decisions} />
    </>
  );
}

function RegionCard({ region, fleet }: { region: Region; fleet: Fleet }) {
  const planes = fleet.planes.filter((plane) => plane.region === region.name);
  return (
    <Card
      title={region.name}
      note={`${planes.length} of ${counted(region.planesMax, 'data plane')} · ${counted(region.waiting, 'Kafka', 'Kafkas')} waiting`}
    >
      {region.held !== null && (
        <p class="said warn">
          <Sign tone="warn" /> {region.held}
        </p>
      )}
      {planes.length === 0 && <p class="note">No data plane.</p>}
      <ul class="planes">
        {planes.map((plane) => (
          <PlaneBox plane={plane} key={plane.id} />
        ))}
      </ul>
      <Capacity samples={capacities.value} region={region.name} />
    </Card>
  );
}

function toneOf(plane: Plane): Tone {
  if (plane.attention !== null || plane.status === 'failed') return 'bad';
  if (plane.status === 'full') return 'warn';
  return plane.status === 'ready' ? 'good' : 'busy';
}

function PlaneBox({ plane }: { plane: Plane }) {
  const tone = toneOf(plane);
  const growing = plane.nodes !== null && plane.nodesDesired !== null && plane.nodes !== plane.nodesDesired;
  return (
    <li class={`plane ${tone}`}>
      <div class="heading">
        <b class="mono">{plane.id}</b>
        <Pill tone={tone}>{plane.status}</Pill>
      </div>
      <dl class="measures">
        <div>
          <dt>Nodes</dt>
          <dd>
            {count(plane.nodes)}
            {growing && ` → ${count(plane.nodesDesired)}`}
            {plane.multiZone && <span class="note"> · several zones</span>}
          </dd>
        </div>
        <div>
          <dt>Kafka clusters</dt>
          <dd>{count(plane.clusters)}</dd>
        </div>
        <div>
          <dt>Free connections</dt>
          <dd>{count(plane.freeConnections)}</dd>
        </div>
        <div>
          <dt>Free partitions</dt>
          <dd>{count(plane.freePartitions)}</dd>
        </div>
      </dl>
      {(plane.attention ?? plane.reason) !== '' && <p class="note">{plane.attention ?? plane.reason}</p>}
    </li>
  );
}

function Capacity({ samples, region }: { samples: CapacitySample[]; region: string }) {
  const line = capacityLine(samples, region, nowMs.value, BOX);
  if (line === null) return null;
  return (
    <figure class="spark">
      <figcaption class="note">
        Free connections since {relative(line.fromMs, nowMs.value)}, at most {count(line.top)}
      </figcaption>
      <svg
        viewBox={`0 0 ${BOX.width} ${BOX.height}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`free connections of ${region}, now ${count(line.last)}`}
      >
        <path class="line c0" d={line.path} />
      </svg>
    </figure>
  );
}

function Decisions({ decisions }: { decisions: FleetDecision[] }) {
  return (
    <Card title="Decisions" note="newest first">
      {decisions.length === 0 && <p class="note">None yet.</p>}
      <ul class="awaited">
        {decisions.map((one) => {
          const at = parseTime(one.at);
          return (
            <li key={`${one.at} ${one.about} ${one.kind}`}>
              <div>
                <h3 class="mono">{one.about || UNKNOWN}</h3>
                <p class="note">{at === null ? one.at : dateTime(at)}</p>
              </div>
              <div>
                <p>
                  {one.kind}: {one.was || UNKNOWN} → {one.becomes || UNKNOWN}
                </p>
                <p class="note">{one.reason}</p>
              </div>
            </li>
          );
        })}
      </ul>
    </Card>
  );
}
