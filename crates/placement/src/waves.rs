//! The order of a plan's moves, and its estimate in waves of concurrent moves.
//!
//! The estimate is for brokers of equal speed. Execution follows the order, and may be faster.

use std::collections::BTreeMap;

use model::NodeId;

use crate::goals::DISK_SHARE;
use crate::plan::{Change, Plan};
use crate::view::View;

/// Limits of concurrency, with Cruise Control's defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaveLimits {
    /// Concurrent moves per broker, as source or destination.
    pub per_broker_max: usize,
    /// Concurrent moves in the cluster.
    pub cluster_max: usize,
    /// Concurrent leadership changes.
    pub leaders_max: usize,
}

impl Default for WaveLimits {
    fn default() -> Self {
        Self { per_broker_max: 5, cluster_max: 1_250, leaders_max: 1_000 }
    }
}

/// Concurrent changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Wave {
    /// Indices of changes in the plan.
    pub changes: Vec<usize>,
    /// MB moved.
    pub mb: f64,
    /// MB that the busiest broker sends or receives: with a throttle, the time of the wave.
    pub busiest_mb: f64,
}

/// What a broker does in a wave, or in the whole plan.
#[derive(Debug, Clone, Copy, Default)]
struct Traffic {
    moves: usize,
    sent: f64,
    received: f64,
}

impl Traffic {
    fn mb(self) -> f64 {
        self.sent.max(self.received)
    }
}

impl Plan {
    /// MB that the busiest broker sends or receives. Divided by a throttle it is the least time that the plan
    /// can take.
    #[must_use]
    pub fn busiest_mb(&self) -> f64 {
        self.traffic().values().map(|traffic| traffic.mb()).fold(0.0, f64::max)
    }

    /// Divides the plan into waves: first replicas, in the plan's order as limits permit, then leadership.
    ///
    /// Each wave takes about its part of the whole time, so that the busiest broker is never idle for long.
    #[must_use]
    pub fn waves(&self, limits: WaveLimits) -> Vec<Wave> {
        let (leaders, moves): (Vec<usize>, Vec<usize>) =
            self.order.iter().copied().partition(|at| self.changes[*at].is_leadership());
        let all = self.traffic();
        let index: BTreeMap<NodeId, usize> =
            all.keys().enumerate().map(|(at, broker)| (*broker, at)).collect();
        let per_broker = limits.per_broker_max.max(1);
        let least = all.values().map(|traffic| traffic.moves.div_ceil(per_broker)).max();
        let least = least.unwrap_or(0).max(moves.len().div_ceil(limits.cluster_max.max(1)));
        let share = self.busiest_mb() / least.max(1) as f64;
        let mut waves: Vec<Filling> = Vec::new();
        // The first wave in which a broker may have a free place.
        let mut open = vec![0; index.len()];
        for at in moves {
            let change = &self.changes[at];
            let each = change.mb / added(change).count().max(1) as f64;
            let source = change.before.first().map(|source| (index[source], change.mb, 0.0));
            let received = added(change).map(|broker| (index[&broker], 0.0, each));
            let parts: Vec<Part> = source.into_iter().chain(received).collect();
            let mut wave = parts.iter().map(|(broker, ..)| open[*broker]).max().unwrap_or(0);
            while wave < waves.len() && !waves[wave].has_room(&parts, limits, share) {
                wave += 1;
            }
            if wave == waves.len() {
                waves.push(Filling::new(index.len()));
            }
            waves[wave].take(at, change.mb, &parts);
            for (broker, ..) in parts {
                let is_full = |wave: &Filling| {
                    let traffic = wave.brokers[broker];
                    traffic.moves >= per_broker || traffic.mb() >= share
                };
                while waves.get(open[broker]).is_some_and(is_full) {
                    open[broker] += 1;
                }
            }
        }
        let moved = waves.into_iter().map(|wave| wave.wave);
        let led = leaders.chunks(limits.leaders_max.max(1));
        let led = led.map(|changes| Wave { changes: changes.to_vec(), mb: 0.0, busiest_mb: 0.0 });
        moved.chain(led).collect()
    }

    fn traffic(&self) -> BTreeMap<NodeId, Traffic> {
        let mut all = BTreeMap::new();
        self.changes.iter().for_each(|change| count(&mut all, change));
        all
    }
}

/// A broker in a change, and what it sends and receives.
type Part = (usize, f64, f64);

/// A wave that is being filled.
struct Filling {
    wave: Wave,
    brokers: Vec<Traffic>,
}

impl Filling {
    fn new(brokers: usize) -> Self {
        let wave = Wave { changes: Vec::new(), mb: 0.0, busiest_mb: 0.0 };
        Self { wave, brokers: vec![Traffic::default(); brokers] }
    }

    /// Whether a change fits: within the limits, and without making the wave longer than the others.
    fn has_room(&self, parts: &[Part], limits: WaveLimits, share: f64) -> bool {
        let longest = share.max(self.wave.busiest_mb);
        let fits = |(broker, sends, receives): &Part| {
            let now = &self.brokers[*broker];
            let is_short = now.sent + sends <= longest && now.received + receives <= longest;
            now.moves == 0 || now.moves < limits.per_broker_max.max(1) && is_short
        };
        self.wave.changes.len() < limits.cluster_max.max(1) && parts.iter().all(fits)
    }

    fn take(&mut self, at: usize, mb: f64, parts: &[Part]) {
        self.wave.changes.push(at);
        self.wave.mb += mb;
        for (broker, sends, receives) in parts {
            let now = &mut self.brokers[*broker];
            now.moves += 1;
            now.sent += sends;
            now.received += receives;
            self.wave.busiest_mb = self.wave.busiest_mb.max(now.mb());
        }
    }
}

fn count(all: &mut BTreeMap<NodeId, Traffic>, change: &Change) {
    if change.is_leadership() {
        return;
    }
    let each = change.mb / added(change).count().max(1) as f64;
    if let Some(source) = change.before.first() {
        let traffic = all.entry(*source).or_default();
        traffic.moves += 1;
        traffic.sent += change.mb;
    }
    for broker in added(change) {
        let traffic = all.entry(broker).or_default();
        traffic.moves += 1;
        traffic.received += each;
    }
}

fn added(change: &Change) -> impl Iterator<Item = NodeId> + '_ {
    change.after.iter().filter(|broker| !change.before.contains(broker)).copied()
}

/// How often changes that wait for space on a disk are tried again.
const TRIES: usize = 8;

/// The order in which changes are begun: those that free full disks first, then the largest; leadership last.
/// A change to a disk that others free waits for them.
pub(crate) fn order(view: &View, changes: &[Change]) -> Vec<usize> {
    let mut disks = disks(view);
    let rank = |change: &Change| {
        let frees = removed(change).any(|broker| disks[&broker].is_full());
        (change.is_leadership(), !frees)
    };
    let mut ranked: Vec<((bool, bool), f64, usize)> =
        changes.iter().enumerate().map(|(at, change)| (rank(change), change.mb, at)).collect();
    ranked.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)).then(a.2.cmp(&b.2)));
    let mut left: Vec<usize> = ranked.into_iter().map(|(.., at)| at).collect();
    let mut order = Vec::with_capacity(left.len());
    for _ in 0..TRIES {
        left.retain(|at| {
            let change = &changes[*at];
            let each = change.mb / added(change).count().max(1) as f64;
            let waits = added(change).any(|broker| !disks[&broker].takes(each));
            if !waits {
                added(change).for_each(|broker| disks.entry(broker).or_default().used += each);
                removed(change).for_each(|broker| disks.entry(broker).or_default().used -= each);
                order.push(*at);
            }
            waits
        });
    }
    order.extend(left);
    order
}

/// The brokers that a partition leaves.
fn removed(change: &Change) -> impl Iterator<Item = NodeId> + '_ {
    change.before.iter().filter(|broker| !change.after.contains(broker)).copied()
}

#[derive(Debug, Clone, Copy, Default)]
struct Disk {
    used: f64,
    limit: f64,
}

impl Disk {
    fn is_full(&self) -> bool {
        self.used > self.limit
    }

    fn takes(&self, mb: f64) -> bool {
        mb <= 0.0 || self.used + mb <= self.limit
    }
}

fn disks(view: &View) -> BTreeMap<NodeId, Disk> {
    let mut used = vec![0.0; view.brokers.len()];
    for partition in 0..view.partitions() {
        for broker in &view.replicas[view.slots(partition)] {
            used[usize::from(*broker)] += view.load[partition].disk;
        }
    }
    let disk = |(broker, used): (&crate::view::BrokerSpec, f64)| {
        (broker.id, Disk { used, limit: broker.capacity.disk_mb * DISK_SHARE })
    };
    view.brokers.iter().zip(used).map(disk).collect()
}
