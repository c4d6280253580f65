// What the server sends: the same types as in crates/console/src/page.rs. Unknown is null, never 0.

export type State = 'ready' | 'progressing' | 'notReady' | 'paused' | 'unknown';

export interface About {
  version: string;
  origin: string;
  live: boolean;
  /** Whether a fleet is shown. */
  fleet: boolean;
  /** The user, in a console that serves several. */
  user: string | null;
}

export interface Overview {
  clusters: ClusterRow[];
  unknown: string[];
}

export interface ClusterRow {
  namespace: string;
  name: string;
  kafkaVersion: string | null;
  state: State;
  ready: number | null;
  nodes: number | null;
  waitsFor: string | null;
  warnings: number;
  takenMs: number | null;
}

export interface Summary {
  namespace: string;
  name: string;
  clusterId: string | null;
  kafkaVersion: string | null;
  metadataVersion: string | null;
  state: State;
  conditions: Condition[];
  listeners: Listener[];
  certificates: Certificate[];
  certificatesKnown: boolean;
  partitions: Partitions | null;
  takenMs: number | null;
  unknown: string[];
  operatorSilentSinceMs: number | null;
}

export interface Condition {
  kind: string;
  reason: string | null;
  message: string | null;
  since: string | null;
}

export interface Listener {
  name: string;
  bootstrap: string;
}

export interface Certificate {
  name: string;
  startsMs: number;
  endsMs: number;
}

export interface Partitions {
  all: number;
  underReplicated: number;
  underMinIsr: number;
  leaderless: number;
}

export interface Node {
  id: number | null;
  pod: string;
  pool: string | null;
  broker: boolean;
  controller: boolean;
  ready: boolean;
  absent: boolean;
  stopping: boolean;
  waiting: string | null;
  kafkaVersion: string | null;
  leads: boolean;
  votes: boolean | null;
  lag: number | null;
  partitions: number | null;
  leaders: number | null;
  machine: string | null;
  rack: string | null;
  fenced: boolean | null;
  current: boolean | null;
  leaving: boolean;
  disks: Disk[];
}

export interface Disk {
  path: string;
  logsBytes: number;
  usedBytes: number | null;
  totalBytes: number | null;
}

export interface Quorum {
  leader: number;
  epoch: number;
  dynamic: boolean | null;
  majority: number;
  voters: Replica[];
  observers: Replica[];
  next: Awaited | null;
}

export interface Replica {
  id: number;
  directory: string | null;
  lag: number | null;
  caughtUp: boolean;
}

export interface Roll {
  standing: 'settled' | 'rolling' | 'waiting' | 'failed' | 'stopped';
  startedMs: number | null;
  restarted: number;
  underWay: number[];
  left: number[];
  givenUp: number[];
  stopping: number[];
  batches: Batch[];
  batchStartedMs: number | null;
  endsMs: number | null;
  certificate: BatchCertificate | null;
  waits: Wait[];
}

export interface Batch {
  nodes: number;
  tookMs: number;
}

export interface BatchCertificate {
  tightest: Left[];
  offline: string[];
  offlineCount: number;
}

export interface Left {
  partition: string;
  inSync: number;
  minIsr: number;
}

export interface Wait {
  nodes: number[];
  reasons: [string, string][];
  hold: string;
  rule: string;
  underWay: boolean;
  givenUp: boolean;
}

export interface Why {
  awaited: Awaited[];
  rebalances: Condition[];
  plan: Line[];
  warnings: Warning[];
}

export interface Awaited {
  about: string;
  what: string;
  rule: string | null;
  partitions: string[];
  partitionCount: number;
}

export interface Line {
  kind: string;
  nodes: number[];
  text: string;
}

export interface Warning {
  reason: string;
  message: string;
}

/** The lag of all replicas of the metadata log from one time until the next sample. */
export interface LagSample {
  t: number;
  leader: number;
  epoch: number;
  lag: Record<string, number | null>;
}

/** Why what is shown is older than it looks. */
export interface Failing {
  message: string;
  sinceMs: number;
}

export interface Rebalance {
  requests: RebalanceRequest[] | null;
  moves: Moves | null;
}

export type Command = 'approve' | 'stop' | 'refresh';

export interface RebalanceRequest {
  name: string;
  state: string | null;
  message: string | null;
  since: string | null;
  mode: string;
  brokers: number[];
  isTemplate: boolean;
  commands: Command[];
  pending: string | null;
  throttleBytes: number | null;
  proposal: Proposal | null;
  loads: Load[];
  percent: number | null;
  minutesLeft: number | null;
  warnings: string[];
}

export interface Proposal {
  replicas: number | null;
  leaders: number | null;
  disks: number | null;
  bytes: number | null;
  scoreBefore: number | null;
  scoreAfter: number | null;
  recommendation: string | null;
}

/** The load of a broker, before and after. */
export interface Load {
  broker: number;
  resources: Record<string, [number, number]>;
}

export interface Moves {
  by: string;
  phase: string;
  beganMs: number;
  rateBytes: number | null;
  bytesTotal: number | null;
  bytesDone: number | null;
  endsMs: number | null;
  waves: Wave[];
  inFlight: Move[];
  inFlightCount: number;
}

export interface Wave {
  moves: number;
  done: number;
  inFlight: number;
  bytes: number;
}

export interface Move {
  partition: string;
  from: number[];
  to: number[];
  bytes: number | null;
}

export interface Machine {
  name: string;
  title: string;
  edges: [string, string, string][];
  subjects: Subject[];
}

export interface Subject {
  name: string;
  state: string;
  sinceMs: number | null;
}

/** A transition as the console has observed it. */
export interface StepSample {
  t: number;
  machine: string;
  subject: string;
  from: string | null;
  to: string | null;
}

export interface Rights {
  rebalance: boolean | null;
  apply: boolean | null;
}

export interface Fleet {
  regions: Region[];
  planes: Plane[];
  decisions: FleetDecision[];
}

export interface Region {
  name: string;
  planesMax: number;
  waiting: number;
  held: string | null;
}

export interface Plane {
  id: string;
  region: string;
  multiZone: boolean;
  status: string;
  reason: string;
  attention: string | null;
  nodes: number | null;
  nodesDesired: number | null;
  freeConnections: number | null;
  freePartitions: number | null;
  clusters: number;
}

export interface FleetDecision {
  at: string;
  about: string;
  kind: string;
  was: string;
  becomes: string;
  reason: string;
}

/** By region: free connections, free partitions, and Kafka clusters that wait. */
export interface CapacitySample {
  t: number;
  regions: Record<string, [number, number, number]>;
}

/** What an editor begins with. */
export interface Resources {
  yaml: string;
  versions: Record<string, string>;
}

/** A plan, as `gregor plan -o json` prints it. Fields that an older program does not have are missing. */
export interface PlanResult {
  exists: boolean | null;
  outcome: 'nothing' | 'changes' | 'refused' | 'unknown';
  steps: PlanStep[];
  estimate?: Estimate;
  basis?: string[];
  unknown: string[];
  warnings: Warning[];
  underWay: Warning[];
  ignored: string[];
}

export interface PlanStep extends Line {
  beginMs?: number;
  estimate?: Estimate;
  certificate?: Left[];
  bytes?: number;
}

export interface Estimate {
  lowMs: number;
  expectedMs: number;
  highMs: number;
}
