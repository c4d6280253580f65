//! `gregor kafka reassignments`: moves in flight, and cancelling them.

use std::collections::BTreeMap;

use anyhow::{anyhow, bail};
use clap::{Args, Subcommand};
use kafka_admin::{Outcome, Reassignment, Refusal};
use model::{NodeId, TopicPartition};
use serde::Serialize;

use super::connection::Session;
use super::{after_change, parse_partition};
use crate::output::{Grid, Out, View, list, note};

pub(super) const EXAMPLE: &str = "\
Examples:
  gregor kafka reassignments
  gregor kafka reassignments cancel orders-0 orders-1";

/// List or cancel reassignments.
#[derive(Debug, Args)]
pub(super) struct Reassignments {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Cancel reassignments: the original replicas stay
    Cancel {
        /// Partitions, such as orders-0
        #[arg(value_name = "TOPIC-PARTITION", value_parser = parse_partition)]
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        partitions: Vec<TopicPartition>,
        /// All reassignments in progress
        #[arg(long)]
        all: bool,
    },
}

/// A reassignment, as printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MoveView {
    topic: String,
    partition: i32,
    /// All current and target brokers.
    replicas: Vec<i32>,
    adding: Vec<i32>,
    removing: Vec<i32>,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct MovesView(Vec<MoveView>);

/// Result for one partition, as printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CancelView {
    topic: String,
    partition: i32,
    cancelled: bool,
    error: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct CancelsView(Vec<CancelView>);

impl Reassignments {
    pub(super) async fn run(self, session: &Session, out: &mut Out) -> anyhow::Result<()> {
        match self.action {
            None => {
                let moves = session.admin.list_reassignments().await?;
                if moves.is_empty() {
                    note("no partition is being moved");
                }
                out.view(&MovesView::new(&moves))
            }
            Some(Action::Cancel { partitions, all: false }) => {
                cancel(session, out, partitions).await
            }
            Some(Action::Cancel { all: true, .. }) => {
                let moves = session.admin.list_reassignments().await?;
                cancel(session, out, moves.into_keys().collect()).await
            }
        }
    }
}

async fn cancel(
    session: &Session,
    out: &mut Out,
    partitions: Vec<TopicPartition>,
) -> anyhow::Result<()> {
    if partitions.is_empty() {
        note("no partition is being moved");
        return out.view(&CancelsView(vec![]));
    }
    let what = "the moves were cancelled";
    let results = session.admin.cancel_reassignments(partitions).await.map_err(|error| {
        let outcome = error.outcome();
        after_change(anyhow!(error), outcome, what)
    })?;
    let unknown = |result: &Result<(), Refusal>| {
        result.as_ref().is_err_and(|refusal| refusal.outcome() == Outcome::Unknown)
    };
    let unknown = results.values().any(unknown);
    let failed = results.values().filter(|result| result.is_err()).count();
    out.view(&CancelsView::new(&results))?;
    if failed > 0 {
        let outcome = if unknown { Outcome::Unknown } else { Outcome::NotDone };
        let error = anyhow!("{failed} of {} moves were not cancelled", results.len());
        bail!(after_change(error, outcome, what));
    }
    Ok(())
}

impl MovesView {
    fn new(moves: &BTreeMap<TopicPartition, Reassignment>) -> Self {
        let numbers = |ids: &[NodeId]| ids.iter().map(|id| id.get()).collect::<Vec<_>>();
        let view = |(key, value): (&TopicPartition, &Reassignment)| MoveView {
            topic: key.topic.to_string(),
            partition: key.partition.0,
            replicas: numbers(&value.replicas),
            adding: numbers(&value.adding),
            removing: numbers(&value.removing),
        };
        Self(moves.iter().map(view).collect())
    }
}

impl View for MovesView {
    fn table(&self, width: Option<u16>) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let mut grid = Grid::new(&["TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING"]);
        for one in &self.0 {
            grid.row([
                one.topic.clone(),
                one.partition.to_string(),
                list(&one.replicas),
                list(&one.adding),
                list(&one.removing),
            ]);
        }
        grid.take(width)
    }
}

impl CancelsView {
    fn new(results: &BTreeMap<TopicPartition, Result<(), Refusal>>) -> Self {
        let view = |(key, result): (&TopicPartition, &Result<(), Refusal>)| CancelView {
            topic: key.topic.to_string(),
            partition: key.partition.0,
            cancelled: result.is_ok(),
            error: result.as_ref().err().map(ToString::to_string),
        };
        Self(results.iter().map(view).collect())
    }
}

impl View for CancelsView {
    fn table(&self, width: Option<u16>) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let mut grid = Grid::new(&["TOPIC", "PARTITION", "RESULT"]).wrap(2);
        for one in &self.0 {
            let result = one.error.clone().unwrap_or("cancelled".to_owned());
            grid.row([one.topic.clone(), one.partition.to_string(), result]);
        }
        grid.take(width)
    }
}

#[cfg(test)]
mod tests {
    use kafka_admin::Code;

    use super::super::health::tests::ids;
    use super::*;

    fn partition(number: i32) -> TopicPartition {
        parse_partition(&format!("orders-{number}")).unwrap()
    }

    #[test]
    fn moves_show_who_comes_and_who_goes() {
        let replicas = ids(&[3, 1, 2]);
        let one = Reassignment { replicas, adding: ids(&[3]), removing: ids(&[2]) };
        let view = MovesView::new(&[(partition(7), one)].into());
        let expected = "\
TOPIC   PARTITION  REPLICAS  ADDING  REMOVING
orders  7          3,1,2     3       2
";
        assert_eq!(view.table(None), expected);
        assert_eq!(serde_json::to_value(&view).unwrap()[0]["adding"], serde_json::json!([3]));
    }

    #[test]
    fn one_refusal_hides_no_success() {
        let code = Code::NO_REASSIGNMENT_IN_PROGRESS;
        let refused = Err(Refusal { code, message: None });
        let view = CancelsView::new(&[(partition(0), Ok(())), (partition(1), refused)].into());
        let expected = "\
TOPIC   PARTITION  RESULT
orders  0          cancelled
orders  1          NO_REASSIGNMENT_IN_PROGRESS (85)
";
        assert_eq!(view.table(None), expected);
    }
}
