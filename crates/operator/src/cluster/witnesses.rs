//! Asks brokers until enough of them have answered.

use model::NodeId;

use crate::liveness;

/// What brokers answer, asked in this order, until so many have answered or all were asked.
///
/// As many are asked at once as are needed, and each time that this is not enough twice as many as
/// before: each broker that does not answer takes its whole time-out, and a pass is short.
pub(crate) async fn ask<T, F: Future<Output = Option<T>>>(
    brokers: &[NodeId],
    needed: usize,
    ask: impl Fn(NodeId) -> F,
) -> Vec<T> {
    let (mut rest, mut at_once, mut answers) = (brokers, needed.max(1), Vec::new());
    while answers.len() < needed && !rest.is_empty() {
        liveness::progress();
        let (asked, later) = rest.split_at(at_once.min(rest.len()));
        let asked = futures::future::join_all(asked.iter().map(|broker| ask(*broker)));
        answers.extend(asked.await.into_iter().flatten());
        (rest, at_once) = (later, at_once.saturating_mul(2));
    }
    answers
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Who is asked of brokers 0, 1, …, and who of them answers.
    async fn asked(brokers: i32, needed: usize, answering: &[i32]) -> (Vec<i32>, Vec<i32>) {
        let brokers: Vec<_> = (0..brokers).filter_map(NodeId::new).collect();
        let log = Mutex::new(Vec::new());
        let answers = ask(&brokers, needed, |broker| {
            log.lock().unwrap().push(broker.get());
            std::future::ready(Some(broker.get()).filter(|id| answering.contains(id)))
        });
        let answers = answers.await;
        (log.into_inner().unwrap(), answers)
    }

    #[tokio::test]
    async fn the_next_are_asked_until_enough_have_answered() {
        let all: Vec<i32> = (0..20).collect();
        // The number of brokers, the answers that are needed, who answers, how many are asked, what they answer.
        let rows: [(i32, usize, &[i32], usize, &[i32]); 8] = [
            (0, 2, &[], 0, &[]),
            (1, 2, &[0], 1, &[0]),
            (9, 1, &[0, 1], 1, &[0]),
            (9, 2, &all, 2, &[0, 1]),
            (9, 2, &[1, 3, 8], 6, &[1, 3]),
            (9, 2, &[8], 9, &[8]),
            (9, 1, &[8], 9, &[8]),
            (20, 1, &[], 20, &[]),
        ];
        for (brokers, needed, answering, count, expected) in rows {
            let (log, answers) = asked(brokers, needed, answering).await;
            assert_eq!(log, all[..count], "{brokers} {needed} {answering:?}");
            assert_eq!(answers, expected, "{brokers} {needed} {answering:?}");
        }
    }
}
