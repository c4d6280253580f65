// What the server sends: the same types as in crates/console/src/page.rs. Unknown is null, never 0.

export type State = 'ready' | 'progressing' | 'notReady' | 'paused' | 'unknown';

export interface About {
  version: string;
  origin: string;
  live: boolean;
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
