//! `gregor why`: what a cluster waits for.

use api::Kafka;
use clap::Args;
use serde::Serialize;

use super::Target;
use crate::output::{Grid, View, note, optional};

/// Which cluster.
#[derive(Debug, Args)]
pub(crate) struct Why {
    #[command(flatten)]
    target: Target,
}

/// Something that holds of the cluster.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line {
    pub(super) kind: String,
    reason: Option<String>,
    message: Option<String>,
    since: Option<String>,
}

impl Line {
    /// For people, in one line.
    pub(super) fn sentence(&self) -> String {
        let reason = self.reason.as_ref().map(|reason| format!(" ({reason})"));
        let message = self.message.as_ref().map(|message| format!(": {message}"));
        format!("{}{}{}", self.kind, reason.unwrap_or_default(), message.unwrap_or_default())
    }
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Lines(Vec<Line>);

impl Why {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        self.target.run(async |found, mut out| {
            let lines: Vec<_> =
                conditions(&found.kafka).into_iter().filter(|line| line.kind != "Ready").collect();
            if lines.is_empty() {
                let seen = found.kafka.status.is_some();
                note(match seen {
                    true => "nothing is awaited: the cluster is as it was asked for",
                    false => "the operator has not looked at the cluster yet: does it run?",
                });
            }
            out.view(&Lines(lines))
        })
    }
}

/// What the operator says of the cluster, what matters most first.
pub(super) fn conditions(kafka: &Kafka) -> Vec<Line> {
    let found = kafka.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut lines: Vec<_> = found
        .into_iter()
        .flatten()
        .filter_map(|condition| {
            Some(Line {
                kind: condition.kind.clone()?,
                reason: condition.reason.clone(),
                message: condition.message.clone(),
                since: condition.last_transition_time.clone(),
            })
        })
        .collect();
    let rank = |line: &Line| match line.kind.as_str() {
        "NotReady" => 0,
        "ReconciliationPaused" => 1,
        "Progressing" => 2,
        "Ready" => 3,
        _ => 4,
    };
    lines.sort_by_key(rank);
    lines
}

impl View for Lines {
    fn table(&self, width: Option<u16>) -> String {
        let mut grid = Grid::new(&["WHAT", "REASON", "SINCE", "WHY"]);
        for line in &self.0 {
            grid.row([
                line.kind.clone(),
                optional(line.reason.as_ref()),
                optional(line.since.as_ref()),
                optional(line.message.as_ref()),
            ]);
        }
        grid.take(width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_holds_a_cluster_up_comes_before_what_it_warns_of() {
        let kafka: Kafka = serde_json::from_value(json!({
            "apiVersion": "kafka.strimzi.io/v1",
            "kind": "Kafka",
            "metadata": { "name": "a" },
            "spec": { "kafka": { "listeners": [] } },
            "status": { "conditions": [
                { "type": "Warning", "status": "True", "reason": "UnknownFields" },
                { "type": "Ready", "status": "True" },
                { "type": "Progressing", "status": "True", "reason": "Rolling", "message": "node 3" },
            ] },
        }))
        .unwrap();
        let kinds: Vec<_> = conditions(&kafka).into_iter().map(|line| line.kind).collect();
        assert_eq!(kinds, ["Progressing", "Ready", "Warning"]);
        let table = Lines(conditions(&kafka)).table(None);
        assert!(table.contains("Rolling") && table.contains("node 3"), "{table}");
    }
}
