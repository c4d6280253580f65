//! Cuts many changes into requests.
//!
//! A KRaft controller writes all records of a request at once and refuses a request of more than 10,000, so requests
//! are cut by records and not by topics.

/// The most records of a request. A fifth of what Kafka takes, so that a request is done well before its deadline and so
/// that a default number of partitions that is larger than assumed does no harm.
pub const RECORDS_MAX: usize = 2000;

/// Topics in one request for their settings. An answer of 64 MiB is the longest that is read, and a topic takes about
/// 3 KB of it.
pub const DESCRIBED_MAX: usize = 1000;

/// Partitions assumed for a topic that leaves their number to Kafka.
const PARTITIONS_ASSUMED: usize = 10;

/// The records of a new topic.
#[must_use]
pub fn records_of(partitions: Option<i32>, configs: usize) -> usize {
    let partitions = partitions.map(|count| usize::try_from(count).unwrap_or(0));
    1 + partitions.unwrap_or(PARTITIONS_ASSUMED) + configs
}

/// Cuts items, each with its number of records, into requests. An item with more than the most is alone.
#[must_use]
pub fn cut<T>(items: impl IntoIterator<Item = (T, usize)>, most: usize) -> Vec<Vec<T>> {
    let mut requests: Vec<Vec<T>> = Vec::new();
    let mut left = 0;
    for (item, records) in items {
        match requests.last_mut().filter(|_| records <= left) {
            Some(request) => {
                request.push(item);
                left -= records;
            }
            None => {
                requests.push(vec![item]);
                left = most.saturating_sub(records);
            }
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_as_many_records_as_they_may() {
        let cut = |sizes: &[usize]| {
            let requests = cut(sizes.iter().map(|size| (*size, *size)), 10);
            requests.iter().map(|request| request.iter().sum::<usize>()).collect::<Vec<_>>()
        };
        assert_eq!(cut(&[]), [0_usize; 0]);
        assert_eq!(cut(&[4, 4, 4]), [8, 4], "T13.6");
        assert_eq!(cut(&[10, 1, 9]), [10, 10]);
        assert_eq!(cut(&[25, 1]), [25, 1], "one that is too large harms no other");
        assert_eq!(cut(&[0, 10, 0]), [10]);
    }

    #[test]
    fn a_topic_has_a_record_for_itself_its_partitions_and_its_configuration() {
        assert_eq!(records_of(Some(12), 3), 16, "T13.6");
        assert_eq!(records_of(None, 0), 11);
    }
}
