//! Replica placement on the disks of a broker: drains disks, keeps disks below their limit, and balances
//! them.
//!
//! The goals are Cruise Control's `IntraBrokerDiskCapacityGoal` (hard) and
//! `IntraBrokerDiskUsageDistributionGoal`. They concern one broker at a time; no replica leaves it.

use model::{NodeId, TopicName};

use crate::goals::{BAND, DISK_SHARE};

/// A log directory.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskSpec {
    /// Where it is.
    pub path: String,
    /// Capacity in MB.
    pub capacity_mb: f64,
    /// Whether it is to be drained.
    pub removed: bool,
}

/// A replica on a disk.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskReplica {
    /// The topic.
    pub topic: TopicName,
    /// The partition in it.
    pub partition: u32,
    /// The index of the disk.
    pub disk: usize,
    /// Its size.
    pub mb: f64,
}

/// A broker with several disks.
#[derive(Debug, Clone, PartialEq)]
pub struct BrokerDisks {
    /// The broker.
    pub broker: NodeId,
    /// Its disks.
    pub disks: Vec<DiskSpec>,
    /// Its replicas. A replica on an unlisted disk is left unchanged.
    pub replicas: Vec<DiskReplica>,
}

/// A replica that moves to another disk.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskChange {
    /// The broker.
    pub broker: NodeId,
    /// The topic.
    pub topic: TopicName,
    /// The partition in it.
    pub partition: u32,
    /// From where.
    pub from: String,
    /// To where.
    pub to: String,
    /// Size in MB.
    pub mb: f64,
}

/// A violation.
#[derive(Debug, Clone, PartialEq)]
pub enum DiskFinding {
    /// A disk could not be drained.
    NotEmpty {
        /// The broker.
        broker: NodeId,
        /// The disk.
        path: String,
        /// Remaining replicas.
        replicas: usize,
        /// Additional capacity that the other disks would need.
        missing_mb: f64,
    },
    /// A disk exceeds its limit, which violates the hard goal.
    TooFull {
        /// The broker.
        broker: NodeId,
        /// The disk.
        path: String,
        /// Excess in MB.
        over_mb: f64,
    },
    /// A disk is outside of the range of balanced disks.
    Uneven {
        /// The broker.
        broker: NodeId,
        /// The disk.
        path: String,
        /// Used MB.
        mb: f64,
        /// Lower limit.
        low_mb: f64,
        /// Upper limit.
        high_mb: f64,
    },
}

impl DiskFinding {
    /// Why the plan must be rejected with this violation; `None` if it may be accepted.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        match self {
            Self::NotEmpty { broker, path, missing_mb, .. } => Some(format!(
                "Not enough remaining capacity on broker {broker} to drain {path}: {missing_mb:.0} MB are \
                 missing"
            )),
            Self::TooFull { broker, path, over_mb } => {
                Some(format!("The disk {path} of broker {broker} is {over_mb:.0} MB too full"))
            }
            Self::Uneven { .. } => None,
        }
    }
}

/// Goals for disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskGoals {
    /// Only drain disks: `remove-disks`.
    Empty,
    /// Also balance disks: `rebalanceDisk`.
    Balance,
}

/// Plans the moves on one broker; returns violations that remain.
#[must_use]
pub fn plan_disks(broker: &BrokerDisks, goals: DiskGoals) -> (Vec<DiskChange>, Vec<DiskFinding>) {
    let mut state = State::new(broker);
    state.empty();
    state.relieve();
    if goals == DiskGoals::Balance {
        state.level();
    }
    let place = state.place;
    let changed = |(at, replica): (usize, &DiskReplica)| {
        let (from, to) = (broker.disks.get(replica.disk)?, broker.disks.get(place[at])?);
        (place[at] != replica.disk).then(|| DiskChange {
            broker: broker.broker,
            topic: replica.topic.clone(),
            partition: replica.partition,
            from: from.path.clone(),
            to: to.path.clone(),
            mb: replica.mb,
        })
    };
    let changes = broker.replicas.iter().enumerate().filter_map(changed).collect();
    (changes, check_disks(broker, &place, goals))
}

/// Checks an assignment of replicas to disks against the definitions of the goals.
#[must_use]
pub fn check_disks(broker: &BrokerDisks, place: &[usize], goals: DiskGoals) -> Vec<DiskFinding> {
    let on = |disk: usize| {
        broker.replicas.iter().zip(place).filter(move |(_, at)| **at == disk).map(|(r, _)| r)
    };
    let stays: Vec<usize> =
        (0..broker.disks.len()).filter(|at| !broker.disks[*at].removed).collect();
    let used: f64 = broker.disks.iter().enumerate().flat_map(|(at, _)| on(at)).map(|r| r.mb).sum();
    let room: f64 = stays.iter().map(|at| broker.disks[*at].capacity_mb).sum();
    let mut found = Vec::new();
    for (at, disk) in broker.disks.iter().enumerate() {
        let (id, path) = (broker.broker, disk.path.clone());
        let mb: f64 = on(at).map(|replica| replica.mb).sum();
        if disk.removed {
            let replicas = on(at).count();
            let missing_mb = (used - room * DISK_SHARE).max(0.0);
            if replicas > 0 {
                found.push(DiskFinding::NotEmpty { broker: id, path, replicas, missing_mb });
            }
            continue;
        }
        let limit = disk.capacity_mb * DISK_SHARE;
        if mb > limit {
            found.push(DiskFinding::TooFull { broker: id, path, over_mb: mb - limit });
        } else if goals == DiskGoals::Balance && room > 0.0 {
            let fair = used / room * disk.capacity_mb;
            let (low_mb, high_mb) = (fair * (1.0 - BAND), fair * (1.0 + BAND));
            if mb < low_mb || mb > high_mb {
                found.push(DiskFinding::Uneven { broker: id, path, mb, low_mb, high_mb });
            }
        }
    }
    found
}

/// State of the search.
struct State<'a> {
    broker: &'a BrokerDisks,
    place: Vec<usize>,
    used: Vec<f64>,
    /// Remaining disks, and replicas, largest first.
    stays: Vec<usize>,
    order: Vec<usize>,
}

impl<'a> State<'a> {
    fn new(broker: &'a BrokerDisks) -> Self {
        let place: Vec<usize> = broker.replicas.iter().map(|replica| replica.disk).collect();
        let mut used = vec![0.0; broker.disks.len()];
        for replica in &broker.replicas {
            if let Some(used) = used.get_mut(replica.disk) {
                *used += replica.mb;
            }
        }
        let stays = (0..broker.disks.len()).filter(|disk| !broker.disks[*disk].removed).collect();
        let known = |at: &usize| broker.replicas[*at].disk < broker.disks.len();
        let mut order: Vec<usize> = (0..place.len()).filter(known).collect();
        let mb = |at: &usize| broker.replicas[*at].mb;
        order.sort_by(|a, b| mb(b).total_cmp(&mb(a)).then(a.cmp(b)));
        Self { broker, place, used, stays, order }
    }

    fn limit(&self, disk: usize) -> f64 {
        self.broker.disks[disk].capacity_mb * DISK_SHARE
    }

    fn mb(&self, replica: usize) -> f64 {
        self.broker.replicas[replica].mb
    }

    fn shift(&mut self, replica: usize, to: usize) {
        let mb = self.mb(replica);
        self.used[self.place[replica]] -= mb;
        self.used[to] += mb;
        self.place[replica] = to;
    }

    /// The disk with the most free space that has enough.
    fn roomiest(&self, mb: f64, but: usize) -> Option<usize> {
        let free = |disk: &usize| self.limit(*disk) - self.used[*disk];
        let fits = |disk: &usize| *disk != but && (free(disk) > mb || mb <= 0.0);
        let order = |a: &usize, b: &usize| free(a).total_cmp(&free(b)).then(b.cmp(a));
        self.stays.iter().copied().filter(fits).max_by(order)
    }

    /// Drains disks, largest replicas first.
    fn empty(&mut self) {
        for replica in self.order.clone() {
            let from = self.place[replica];
            if self.broker.disks[from].removed
                && let Some(to) = self.roomiest(self.mb(replica), from)
            {
                self.shift(replica, to);
            }
        }
    }

    /// Brings disks below their limit.
    fn relieve(&mut self) {
        for replica in self.order.clone() {
            let from = self.place[replica];
            let over = !self.broker.disks[from].removed && self.used[from] > self.limit(from);
            if over
                && self.mb(replica) > 0.0
                && let Some(to) = self.roomiest(self.mb(replica), from)
            {
                self.shift(replica, to);
            }
        }
    }

    /// Distance of disks from their ranges, in MB.
    fn cost(&self, used: impl Fn(usize) -> f64) -> f64 {
        let room: f64 = self.stays.iter().map(|disk| self.broker.disks[*disk].capacity_mb).sum();
        let total: f64 = self.stays.iter().map(|disk| self.used[*disk]).sum();
        if room <= 0.0 {
            return 0.0;
        }
        let outside = |disk: &usize| {
            let fair = total / room * self.broker.disks[*disk].capacity_mb;
            let mb = used(*disk);
            (fair * (1.0 - BAND) - mb).max(0.0) + (mb - fair * (1.0 + BAND)).max(0.0)
        };
        self.stays.iter().map(outside).sum()
    }

    /// Moves, or else swaps, replicas as long as disks get closer to their ranges: each time the step with
    /// the best ratio of gain to MB.
    fn level(&mut self) {
        /// Enough for any broker; each step reduces the cost.
        const STEPS_MAX: usize = 10_000;
        for _ in 0..STEPS_MAX {
            let now = self.cost(|disk| self.used[disk]);
            if now <= 0.0 {
                return;
            }
            if !self.level_by_move(now) && !self.level_by_swap(now) {
                return;
            }
        }
    }

    fn level_by_move(&mut self, now: f64) -> bool {
        let mut best: Option<(f64, usize, usize)> = None;
        for &replica in &self.order {
            let (from, mb) = (self.place[replica], self.mb(replica));
            if self.broker.disks[from].removed || mb <= 0.0 {
                continue;
            }
            for &to in &self.stays {
                if to == from || self.used[to] + mb >= self.limit(to) {
                    continue;
                }
                let gain = now - self.cost_after(from, to, mb);
                let worth = gain / mb;
                if gain > 1e-6 && best.is_none_or(|(most, ..)| worth > most) {
                    best = Some((worth, replica, to));
                }
            }
        }
        let Some((_, replica, to)) = best else { return false };
        self.shift(replica, to);
        true
    }

    fn level_by_swap(&mut self, now: f64) -> bool {
        /// All pairs of many replicas would be too many; the largest matter.
        const TRIED_MAX: usize = 200;
        let tried = &self.order[..self.order.len().min(TRIED_MAX)];
        let mut best: Option<(f64, usize, usize)> = None;
        for (at, &one) in tried.iter().enumerate() {
            for &other in &tried[at + 1..] {
                let (from, to) = (self.place[one], self.place[other]);
                let difference = self.mb(one) - self.mb(other);
                let kept = self.broker.disks[from].removed || self.broker.disks[to].removed;
                let fits = self.used[to] + difference < self.limit(to);
                if from == to || kept || difference <= 0.0 || !fits {
                    continue;
                }
                let gain = now - self.cost_after(from, to, difference);
                let worth = gain / (self.mb(one) + self.mb(other));
                if gain > 1e-6 && best.is_none_or(|(most, ..)| worth > most) {
                    best = Some((worth, one, other));
                }
            }
        }
        let Some((_, one, other)) = best else { return false };
        let (from, to) = (self.place[one], self.place[other]);
        self.shift(one, to);
        self.shift(other, from);
        true
    }

    fn cost_after(&self, from: usize, to: usize, mb: f64) -> f64 {
        self.cost(|disk| {
            let change = if disk == from {
                -mb
            } else if disk == to {
                mb
            } else {
                0.0
            };
            self.used[disk] + change
        })
    }
}
