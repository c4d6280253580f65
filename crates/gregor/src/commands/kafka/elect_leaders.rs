//! `gregor kafka elect-leaders`: the preferred leaders, or any at all.

use std::collections::BTreeMap;

use anyhow::{anyhow, bail};
use clap::Args;
use kafka_admin::{Election, ElectionOutcome, Outcome};
use model::TopicPartition;
use serde::Serialize;

use super::connection::Session;
use super::{after_change, parse_partition};
use crate::failure::Usage;
use crate::output::{Grid, Out, View, note};

pub(super) const EXAMPLE: &str = "\
Examples:
  gregor kafka elect-leaders --all                     preferred leaders everywhere
  gregor kafka elect-leaders --unclean --yes orders-0  any replica that is left; records are lost";

/// Partitions and kind of election.
#[derive(Debug, Args)]
pub(super) struct ElectLeaders {
    /// Partitions, such as orders-0
    #[arg(value_name = "TOPIC-PARTITION", value_parser = parse_partition)]
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    partitions: Vec<TopicPartition>,
    /// All partitions
    #[arg(long)]
    all: bool,
    /// Elect any replica if there is no other way. Records that it lacks are lost
    #[arg(long)]
    unclean: bool,
    /// Confirm the loss of records
    #[arg(long, requires = "unclean")]
    yes: bool,
}

/// Result for one partition, as printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ElectionView {
    topic: String,
    partition: i32,
    result: &'static str,
    error: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct ElectionsView(Vec<ElectionView>);

impl ElectLeaders {
    pub(super) async fn run(self, session: &Session, out: &mut Out) -> anyhow::Result<()> {
        let election = match (self.unclean, self.yes) {
            (false, _) => Election::Preferred,
            (true, true) => Election::Unclean,
            (true, false) => {
                return Err(Usage::error(
                    "an unclean election loses records: add --yes if that is what you want",
                ));
            }
        };
        let partitions = (!self.all).then_some(self.partitions.as_slice());
        let what = "leaders were elected";
        let outcomes =
            session.admin.elect_leaders(election, partitions).await.map_err(|error| {
                let outcome = error.outcome();
                after_change(anyhow!(error), outcome, what)
            })?;
        if outcomes.is_empty() {
            note("every partition has the leader that it should have");
        }
        out.view(&ElectionsView::new(&outcomes))?;
        let failed = outcomes.values().filter(|outcome| failure(outcome).is_some()).count();
        if failed > 0 {
            let open = outcomes
                .values()
                .any(|outcome| failure(outcome).is_some_and(|r| r.outcome() == Outcome::Unknown));
            let outcome = if open { Outcome::Unknown } else { Outcome::NotDone };
            let error = anyhow!("{failed} of {} partitions got no leader", outcomes.len());
            bail!(after_change(error, outcome, what));
        }
        Ok(())
    }
}

fn failure(outcome: &ElectionOutcome) -> Option<&kafka_admin::Refusal> {
    match outcome {
        ElectionOutcome::Elected | ElectionOutcome::NotNeeded => None,
        ElectionOutcome::NoEligibleLeader { refusal } | ElectionOutcome::Refused(refusal) => {
            Some(refusal)
        }
    }
}

impl ElectionsView {
    fn new(outcomes: &BTreeMap<TopicPartition, ElectionOutcome>) -> Self {
        let view = |(key, outcome): (&TopicPartition, &ElectionOutcome)| ElectionView {
            topic: key.topic.to_string(),
            partition: key.partition.0,
            result: match outcome {
                ElectionOutcome::Elected => "elected",
                ElectionOutcome::NotNeeded => "not-needed",
                ElectionOutcome::NoEligibleLeader { .. } => "no-eligible-leader",
                ElectionOutcome::Refused(_) => "refused",
            },
            error: failure(outcome).map(ToString::to_string),
        };
        Self(outcomes.iter().map(view).collect())
    }
}

impl View for ElectionsView {
    fn table(&self, width: Option<u16>) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let mut grid = Grid::new(&["TOPIC", "PARTITION", "RESULT", "REASON"]).wrap(3);
        for one in &self.0 {
            let reason = one.error.clone().unwrap_or_default();
            grid.row([one.topic.clone(), one.partition.to_string(), one.result.to_owned(), reason]);
        }
        grid.take(width)
    }
}

#[cfg(test)]
mod tests {
    use kafka_admin::{Code, Refusal};

    use super::*;

    #[test]
    fn each_partition_has_its_result() {
        let refusal = Refusal { code: Code::ELIGIBLE_LEADERS_NOT_AVAILABLE, message: None };
        let key = |text| parse_partition(text).unwrap();
        let outcomes = BTreeMap::from([
            (key("a-0"), ElectionOutcome::Elected),
            (key("a-1"), ElectionOutcome::NotNeeded),
            (key("b-0"), ElectionOutcome::NoEligibleLeader { refusal }),
        ]);
        let view = ElectionsView::new(&outcomes);
        let expected = "\
TOPIC  PARTITION  RESULT              REASON
a      0          elected             -
a      1          not-needed          -
b      0          no-eligible-leader  ELIGIBLE_LEADERS_NOT_AVAILABLE (83)
";
        assert_eq!(view.table(None), expected);
    }
}
