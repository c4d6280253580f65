//! Replicas of each topic on each broker.
//!
//! Most topics are small: they cannot exceed the limit of a broker, or counting their replicas takes no longer
//! than a look into a table. Only large topics have a row of counts, so that a million small ones cost no
//! memory.

use crate::goals::{TOPIC_BAND, TOPIC_GAP_MAX, TOPIC_GAP_MIN};
use crate::view::{Assignment, View};

/// A topic with at most so many replicas has no row.
const SCANNED: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// Within its limits wherever its replicas are.
    Free,
    /// Counted when that is asked for.
    Scanned,
    /// The row of counts begins here.
    Row(u32),
}

#[derive(Debug)]
pub(super) struct Topics {
    brokers: usize,
    /// Where the replicas of each topic begin.
    begins: Vec<u32>,
    counts: Vec<Counts>,
    rows: Vec<u16>,
    low: Vec<u16>,
    high: Vec<u16>,
}

impl Topics {
    pub(super) fn new(view: &View, at: &Assignment, is_limited: bool) -> Self {
        let (brokers, topics) = (view.brokers.len(), view.topics.len());
        let mut partitions = vec![0_usize; topics];
        let mut begins = vec![view.replicas.len() as u32; topics + 1];
        for (partition, topic) in view.topic_of.iter().enumerate().rev() {
            partitions[*topic as usize] += 1;
            begins[*topic as usize] = view.offsets[partition];
        }
        let live = view.live().count() as f64;
        let scanned = SCANNED.max(brokers / 4);
        let mut all = Self {
            brokers,
            begins,
            counts: Vec::with_capacity(topics),
            rows: Vec::new(),
            low: vec![0; topics],
            high: vec![u16::MAX; topics],
        };
        for (topic, partitions) in partitions.into_iter().enumerate() {
            let total = (all.begins[topic + 1] - all.begins[topic]) as usize;
            let mean = total as f64 / live;
            let (least, most) = (mean.ceil() + TOPIC_GAP_MIN, mean.ceil() + TOPIC_GAP_MAX);
            let high = (mean * (1.0 + TOPIC_BAND)).ceil().clamp(least, most);
            all.high[topic] = high.min(f64::from(u16::MAX)) as u16;
            all.low[topic] = (mean.floor() - TOPIC_GAP_MAX).max(0.0) as u16;
            // A broker has at most one replica of each partition.
            let fits = partitions as f64 <= high && all.low[topic] == 0;
            all.counts.push(if fits || !is_limited {
                Counts::Free
            } else if total <= scanned {
                Counts::Scanned
            } else {
                let begins = all.rows.len() as u32;
                all.rows.resize(all.rows.len() + brokers, 0);
                Counts::Row(begins)
            });
        }
        for topic in 0..topics {
            if let Counts::Row(begins) = all.counts[topic] {
                for broker in &at[all.begins[topic] as usize..all.begins[topic + 1] as usize] {
                    all.rows[begins as usize + usize::from(*broker)] += 1;
                }
            }
        }
        all
    }

    /// Whether a topic is within its limits wherever its replicas are.
    pub(super) fn is_free(&self, topic: usize) -> bool {
        self.counts[topic] == Counts::Free
    }

    fn count(&self, at: &Assignment, topic: usize, broker: usize) -> u16 {
        match self.counts[topic] {
            Counts::Row(begins) => self.rows[begins as usize + broker],
            Counts::Free | Counts::Scanned => {
                let broker = broker as u16;
                let own = &at[self.begins[topic] as usize..self.begins[topic + 1] as usize];
                own.iter().map(|other| u16::from(*other == broker)).sum()
            }
        }
    }

    /// By how many replicas more or less a move violates the limits of a topic.
    pub(super) fn change(&self, at: &Assignment, topic: usize, from: usize, to: usize) -> i32 {
        let (low, high) = (self.low[topic], self.high[topic]);
        let (there, here) = (self.count(at, topic, from), self.count(at, topic, to));
        let mut change = 0;
        if there > high {
            change -= 1;
        } else if there <= low {
            change += 1;
        }
        if here >= high {
            change += 1;
        } else if here < low {
            change -= 1;
        }
        change
    }

    pub(super) fn is_crowded(&self, at: &Assignment, topic: usize, broker: usize) -> bool {
        !self.is_free(topic) && self.count(at, topic, broker) > self.high[topic]
    }

    /// Counts a move.
    pub(super) fn moved(&mut self, topic: usize, from: usize, to: usize) {
        if let Counts::Row(begins) = self.counts[topic] {
            self.rows[begins as usize + from] -= 1;
            self.rows[begins as usize + to] += 1;
        }
    }

    /// Topics that exceed the limit of some broker.
    pub(super) fn crowded(&self, at: &Assignment, live: &[usize]) -> Vec<bool> {
        self.each(at, live, |count, _, high| count > high)
    }

    /// Whether all topics are within their limits.
    pub(super) fn is_done(&self, at: &Assignment, live: &[usize]) -> bool {
        !self.each(at, live, |count, low, high| count > high || count < low).contains(&true)
    }

    fn each(
        &self,
        at: &Assignment,
        live: &[usize],
        is_out: impl Fn(u16, u16, u16) -> bool,
    ) -> Vec<bool> {
        let mut scratch = vec![0_u16; self.brokers];
        let mut out = |topic: usize| {
            let (low, high) = (self.low[topic], self.high[topic]);
            match self.counts[topic] {
                Counts::Free => false,
                Counts::Row(begins) => {
                    let row = &self.rows[begins as usize..begins as usize + self.brokers];
                    live.iter().any(|broker| is_out(row[*broker], low, high))
                }
                Counts::Scanned => {
                    let own = &at[self.begins[topic] as usize..self.begins[topic + 1] as usize];
                    own.iter().for_each(|broker| scratch[usize::from(*broker)] += 1);
                    let mut some = low > 0;
                    if some {
                        some = live.iter().any(|broker| is_out(scratch[*broker], low, high));
                    } else {
                        for broker in own {
                            some |= is_out(scratch[usize::from(*broker)], low, high);
                        }
                    }
                    own.iter().for_each(|broker| scratch[usize::from(*broker)] = 0);
                    some
                }
            }
        };
        (0..self.counts.len()).map(&mut out).collect()
    }
}
