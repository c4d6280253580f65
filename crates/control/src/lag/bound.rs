//! How many series a cluster may have.

use super::{Group, Partition, Picture, Topic};

/// The most series of a cluster. 100,000 partitions and 2,000 groups have about 900,000.
pub const SERIES_MAX: usize = 1_000_000;

/// The longest text of all series of a cluster, in bytes. Names of groups may be 32 KiB long.
pub const TEXT_BYTES_MAX: usize = 256 << 20;

/// Series of a partition, and of a topic.
const OF_PARTITION: usize = 7;
const OF_TOPIC: usize = 1;

/// Series of a group for each partition of a topic that it has committed to, for each such topic, and for itself.
const OF_COMMIT: usize = 2;
const OF_COMMITTED_TOPIC: usize = 2;
const OF_GROUP: usize = 1;

/// What a series has besides the names in it: its own name, names of labels, a number.
const BYTES: usize = 120;

/// Leaves topics and then groups out of a picture that would have more series than `series_max` or a longer text than
/// `bytes_max`, the last by name first. Returned is how many series are left out.
#[must_use]
pub fn bound(picture: &mut Picture, series_max: usize, bytes_max: usize) -> usize {
    let mut budget = Budget { series: series_max, bytes: bytes_max, dropped: 0 };
    picture.topics.sort_by(|a, b| a.name.cmp(&b.name));
    picture.groups.sort_by(|a, b| a.id.cmp(&b.id));
    picture.topics.retain(|topic| {
        let series = OF_TOPIC + OF_PARTITION * topic.partitions.len();
        budget.take(series, topic.name.as_str().len())
    });
    let topics = std::mem::take(&mut picture.topics);
    picture.groups.retain(|group| {
        let series = series_of(group, &topics);
        budget.take(series, group.id.len() + longest_topic(group))
    });
    picture.topics = topics;
    budget.dropped
}

struct Budget {
    series: usize,
    bytes: usize,
    dropped: usize,
}

impl Budget {
    fn take(&mut self, series: usize, name_bytes: usize) -> bool {
        let bytes = series.saturating_mul(BYTES + name_bytes);
        if series > self.series || bytes > self.bytes {
            self.dropped = self.dropped.saturating_add(series);
            return false;
        }
        self.series -= series;
        self.bytes -= bytes;
        true
    }
}

fn series_of(group: &Group, topics: &[Topic]) -> usize {
    let mut series = OF_GROUP;
    let mut last = None;
    for partition in group.committed.keys() {
        if last == Some(&partition.topic) {
            continue;
        }
        last = Some(&partition.topic);
        let found = topics.binary_search_by(|topic| topic.name.cmp(&partition.topic));
        let partitions: &[Partition] =
            found.ok().and_then(|at| topics.get(at)).map_or(&[], |topic| &topic.partitions);
        series += OF_COMMITTED_TOPIC + OF_COMMIT * partitions.len();
    }
    series
}

fn longest_topic(group: &Group) -> usize {
    group.committed.keys().map(|key| key.topic.as_str().len()).max().unwrap_or(0)
}
