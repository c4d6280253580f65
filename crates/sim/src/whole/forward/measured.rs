//! How long things take in a real cluster, from what was measured there.

use control::cluster::record::Record;
use k8s_openapi::api::core::v1::Pod;
use objects::found::Found;

use super::super::pace::Pace;
use super::Paces;

/// Paces where nothing was measured: at best, as expected and at worst.
const ASSUMED: Paces = Paces {
    fast: Pace {
        stop_ms: 2_000,
        start_ms: 10_000,
        catch_up_ms: 2_000,
        move_bytes_per_s: Some(200_000_000),
    },
    expected: Pace {
        stop_ms: 8_000,
        start_ms: 30_000,
        catch_up_ms: 10_000,
        move_bytes_per_s: Some(50_000_000),
    },
    slow: Pace {
        stop_ms: 30_000,
        start_ms: 120_000,
        catch_up_ms: 120_000,
        move_bytes_per_s: Some(10_000_000),
    },
};
/// A pod that took longer has been not ready in between.
const START_MAX_MS: u64 = 30 * 60_000;

impl Paces {
    /// What was measured on a cluster, with what each duration is based on.
    #[must_use]
    pub fn measured(found: &Found, record: Option<&Record>) -> (Self, Vec<String>) {
        let (mut paces, mut basis) = (ASSUMED, Vec::new());
        let starts = sorted(found.pods.values().filter_map(start_ms));
        match spread(&starts) {
            Some((low, middle, high)) => {
                (paces.fast.start_ms, paces.expected.start_ms, paces.slow.start_ms) =
                    (low, middle, high.max(middle * 2));
                basis.push(format!(
                    "a node starts in {} s, as {} of this cluster did",
                    seconds(middle),
                    control::words::count(starts.len(), "pod")
                ));
            }
            None => basis.push("a node is assumed to start in 10 to 120 s".to_owned()),
        }
        let roll = record.and_then(|record| record.roll_account.as_ref()?.roll.as_ref());
        let batches =
            sorted(roll.into_iter().flat_map(|roll| &roll.batches).map(|one| one.took_ms));
        match spread(&batches) {
            Some((low, middle, high)) => {
                let rest = |took: u64, pace: &Pace| {
                    took.saturating_sub(pace.stop_ms + pace.start_ms).max(1_000)
                };
                paces.fast.catch_up_ms = rest(low, &paces.fast);
                paces.expected.catch_up_ms = rest(middle, &paces.expected);
                paces.slow.catch_up_ms =
                    rest(high, &paces.expected).max(paces.expected.catch_up_ms);
                basis.push(format!(
                    "a batch of restarts takes {} s, as {} of the last roll did",
                    seconds(middle),
                    batches.len()
                ));
            }
            None => basis.push(
                "a node is assumed to stop within 30 s and its replicas to catch up within 120 s"
                    .to_owned(),
            ),
        }
        basis.push("moves are assumed to copy 10 to 200 MB/s".to_owned());
        (paces, basis)
    }
}

/// From the creation of a pod until it was ready.
fn start_ms(pod: &Pod) -> Option<u64> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|one| one.type_ == "Ready" && one.status == "True")?;
    let ready_ms = ready.last_transition_time.as_ref()?.0.as_millisecond();
    let created_ms = pod.metadata.creation_timestamp.as_ref()?.0.as_millisecond();
    let took = u64::try_from(ready_ms - created_ms).ok()?;
    (took <= START_MAX_MS).then(|| took.max(1_000))
}

fn sorted(all: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut all: Vec<u64> = all.collect();
    all.sort_unstable();
    all
}

/// The least, the median and the most.
fn spread(sorted: &[u64]) -> Option<(u64, u64, u64)> {
    Some((*sorted.first()?, *sorted.get(sorted.len() / 2)?, *sorted.last()?))
}

const fn seconds(ms: u64) -> u64 {
    ms.div_ceil(1_000)
}

#[cfg(test)]
mod tests {
    use control::rolling::account::Account;
    use control::rolling::memory::{BatchMemory, RollMemory};
    use serde_json::json;

    use super::*;

    fn pod(name: &str, ready: &str) -> (String, Pod) {
        let condition = json!({ "type": "Ready", "status": "True", "lastTransitionTime": ready });
        let pod = json!({
            "metadata": { "name": name, "creationTimestamp": "2027-01-15T08:00:00Z" },
            "status": { "conditions": [condition] },
        });
        (name.to_owned(), serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn what_was_not_measured_is_assumed_and_said_to_be() {
        let (paces, basis) = Paces::measured(&Found::default(), None);
        assert_eq!(paces, ASSUMED);
        assert!(basis.iter().all(|line| line.contains("assumed")), "{basis:?}");
    }

    #[test]
    fn pods_and_batches_of_the_cluster_are_measured() {
        let pods = [
            pod("a", "2027-01-15T08:00:12Z"),
            pod("b", "2027-01-15T08:00:20Z"),
            pod("c", "2027-01-15T08:00:15Z"),
            // It was ready before, and was not in between.
            pod("d", "2027-01-16T08:00:00Z"),
        ];
        let found = Found { pods: pods.into(), ..Found::default() };
        let batches = [30_000, 40_000, 90_000].map(|took_ms| BatchMemory { nodes: 1, took_ms });
        let roll = RollMemory { batches: batches.to_vec(), ..RollMemory::default() };
        let account = Account { roll: Some(roll), ..Account::default() };
        let record = Record { roll_account: Some(account), ..Record::default() };
        let (paces, basis) = Paces::measured(&found, Some(&record));
        let starts = [paces.fast, paces.expected, paces.slow].map(|pace| pace.start_ms);
        assert_eq!(starts, [12_000, 15_000, 30_000]);
        let caught = [paces.fast, paces.expected, paces.slow].map(|pace| pace.catch_up_ms);
        assert_eq!(caught, [16_000, 17_000, 67_000]);
        assert_eq!(basis[0], "a node starts in 15 s, as 3 pods of this cluster did");
        assert_eq!(basis[1], "a batch of restarts takes 40 s, as 3 of the last roll did");
    }
}
