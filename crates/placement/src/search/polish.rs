//! Small changes in a random order: fewer MB, and what no ordered pass has found.
//!
//! The passes before are greedy. Here a replica, a pair of replicas or a leader is chosen, and a change that is a
//! little worse is kept for a while (simulated annealing, already cool). The order comes from a generator with a
//! fixed seed, so that it is the same in each run.

use super::state::{Load8, State};

/// Tried changes: at least, for each replica, at most, and at most if it is done again.
const STEPS_MIN: usize = 15_000;
const STEPS_PER_REPLICA: usize = 30;
const STEPS_MAX: usize = 250_000;
const STEPS_AGAIN_MAX: usize = 120_000;

/// The same for fewer MB only.
const BRIEF_STEPS: usize = 5;
const BRIEF_STEPS_MAX: usize = 100_000;

/// How often the replicas are collected that matter most.
const COLLECTED: usize = 8;

/// The price of MB, for the mean broker's whole disk.
const PRICE: f64 = 0.03;

/// The last temperature, in replicas of mean size.
const COLD: f64 = 1e-4;

/// Where it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heat {
    /// With a plan that satisfies all goals, for fewer MB.
    Brief,
    /// With a plan that is almost good.
    Cool,
    /// The same again, in another order.
    Again(u64),
    /// Without a plan.
    Warm,
}

impl Heat {
    /// The first temperature, in replicas of mean size; steps; and the seed.
    fn parts(self, replicas: usize) -> (f64, usize, u64) {
        let steps = (replicas * STEPS_PER_REPLICA).clamp(STEPS_MIN, STEPS_MAX);
        match self {
            Self::Brief => (0.1, (replicas * BRIEF_STEPS).clamp(STEPS_MIN, BRIEF_STEPS_MAX), 1),
            Self::Cool => (0.1, steps, 1),
            Self::Again(seed) => (0.1, (2 * steps).min(STEPS_AGAIN_MAX), seed),
            Self::Warm => (0.3, (4 * steps).min(STEPS_AGAIN_MAX), 1),
        }
    }
}

impl State<'_> {
    /// Tries changes in a random order. What results may be worse than before.
    pub(super) fn polish(&mut self, heat: Heat) {
        // The temperature falls in stages.
        const STAGES: usize = 64;
        let replicas = self.broker_of.len();
        let (begin, steps, seed) = heat.parts(replicas);
        let movable: Vec<u32> = (0..self.broker_of.len())
            .filter(|replica| !self.is_pinned(self.partition_of[*replica] as usize))
            .map(|replica| replica as u32)
            .collect();
        if movable.is_empty() || self.live.len() < 2 {
            return;
        }
        let mut random = Random(seed);
        let unit = self.live.len() as f64 / replicas as f64;
        let mut focus = Vec::new();
        for stage in 0..STAGES {
            if stage % (STAGES / COLLECTED) == 0 {
                focus = self.in_focus(&movable);
            }
            let done = stage as f64 / STAGES as f64;
            let temperature = unit * begin * (COLD / begin).powf(done);
            for _ in 0..steps / STAGES {
                let from = if random.below(4) > 0 { &focus } else { &movable };
                let replica = from[random.below(from.len())] as usize;
                match random.below(8) {
                    0..3 => self.try_move(replica, temperature, &mut random),
                    3..6 => {
                        let other = movable[random.below(movable.len())] as usize;
                        self.try_swap(replica, other, temperature, &mut random);
                    }
                    _ => self.try_lead(replica, temperature, &mut random),
                }
            }
        }
    }

    /// Replicas that have moved, and those of unbalanced brokers unless most are; all if there are none.
    fn in_focus(&self, movable: &[u32]) -> Vec<u32> {
        let unbalanced = self.live.iter().filter(|broker| self.cost[**broker] > 0.0).count();
        let few = unbalanced * 5 <= self.live.len();
        let matters = |replica: &u32| {
            let broker = usize::from(self.broker_of[*replica as usize]);
            self.is_displaced(*replica as usize) || few && self.cost[broker] > 0.0
        };
        let focus: Vec<u32> = movable.iter().copied().filter(matters).collect();
        if focus.is_empty() { movable.to_vec() } else { focus }
    }

    fn try_move(&mut self, replica: usize, temperature: f64, random: &mut Random) {
        let partition = self.partition_of[replica] as usize;
        let homes = self.home(partition);
        let to = if self.is_displaced(replica) && random.below(2) == 0 {
            usize::from(homes[random.below(homes.len())])
        } else {
            self.live[random.below(self.live.len())]
        };
        if !self.view.is_live(to) || !self.may_move(replica) || !self.fits(replica, to) {
            return;
        }
        let load = self.load(replica);
        if random.accepts(self.change(replica, to, &load, PRICE), temperature) {
            self.move_replica(replica, to);
        }
    }

    fn try_swap(&mut self, one: usize, other: usize, temperature: f64, random: &mut Random) {
        let (here, there) = (usize::from(self.broker_of[one]), usize::from(self.broker_of[other]));
        let may = self.may_move(one) && self.may_move(other) && self.view.is_live(here);
        if here == there || !may || !self.view.is_live(there) || !self.may_swap(one, other) {
            return;
        }
        let (given, mut difference): (Load8, Load8) = (self.load(one), self.load(other));
        difference.iter_mut().zip(given).for_each(|(taken, given)| *taken -= given);
        let mut change =
            self.cost_change(here, &difference, 1.0) + self.cost_change(there, &difference, -1.0);
        if self.topic_of(one) != self.topic_of(other) {
            change += self.topic_change(one, there) + self.topic_change(other, here);
        }
        let mb = self.move_mb(one, there) + self.move_mb(other, here);
        if random.accepts(change + PRICE * mb * self.scale[0], temperature) {
            self.move_replica(one, there);
            self.move_replica(other, here);
        }
    }

    fn try_lead(&mut self, slot: usize, temperature: f64, random: &mut Random) {
        let partition = self.partition_of[slot] as usize;
        let head = self.leader_slot(partition);
        let (from, to) = (usize::from(self.broker_of[head]), usize::from(self.broker_of[slot]));
        let may = self.may_lead(to) && self.view.is_live(to) && !self.needs_leader(partition, from);
        if from == to || !may {
            return;
        }
        let load = self.leadership(partition);
        let change = self.cost_change(from, &load, -1.0) + self.cost_change(to, &load, 1.0);
        if random.accepts(change, temperature) {
            self.lead(partition, slot);
        }
    }
}

/// Numbers from a fixed seed: SplitMix64.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (((self.bits() >> 32) * end as u64) >> 32) as usize
    }

    /// Whether a change of cost is accepted: always if it is an improvement.
    fn accepts(&mut self, change: f64, temperature: f64) -> bool {
        let unit = (self.bits() >> 11) as f64 / (1_u64 << 53) as f64;
        // Beyond this, no number is small enough.
        change < 0.0 || change < 40.0 * temperature && unit < (-change / temperature).exp()
    }
}
