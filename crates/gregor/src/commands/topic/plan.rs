//! `gregor topic plan`: what a change of the number of replicas would move.
//!
//! Kafka is asked as the operator asks it, and the decision is the operator's. Nothing is changed.

use anyhow::{Context as _, bail};
use api::KafkaTopic;
use api::names::CLUSTER_LABEL;
use clap::Args;
use kube::{Api, ResourceExt as _};
use model::{NodeId, TopicName};
use operator::topics::Foreseen;
use serde::Serialize;

use crate::commands::cluster::stage::{Staged, stage};
use crate::commands::hosts::Hosts;
use crate::commands::reach::Reach;
use crate::failure::Usage;
use crate::output::{Grid, Out, View, list, note};

/// Of which topic.
#[derive(Debug, Args)]
pub(super) struct Plan {
    /// The name of the KafkaTopic resource
    name: String,
    /// The number of replicas of each partition; that of the resource if omitted
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i64).range(1..=32767))]
    replicas: Option<i64>,
    #[command(flatten)]
    hosts: Hosts,
}

/// What would be moved, as it is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PlanView {
    topic: String,
    replicas: usize,
    /// Why the change would wait.
    waits: Option<String>,
    partitions: Vec<MoveView>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MoveView {
    partition: i32,
    before: Vec<i32>,
    after: Vec<i32>,
}

impl Plan {
    pub(super) async fn run(
        self,
        reach: &Reach,
        cluster: &str,
        out: &mut Out,
    ) -> anyhow::Result<()> {
        let (client, namespace) = reach.client().await?;
        let api: Api<KafkaTopic> = Api::namespaced(client, &namespace);
        let found = api.get_opt(&self.name).await.context("cannot read the KafkaTopic")?;
        let is_its =
            |one: &KafkaTopic| one.labels().get(CLUSTER_LABEL).is_some_and(|of| of == cluster);
        let Some(topic) = found.filter(is_its) else {
            bail!("there is no KafkaTopic {} of the cluster {cluster}", self.name)
        };
        let Some(replicas) = self.replicas.or(topic.spec.replicas) else {
            return Err(Usage::error(
                "the KafkaTopic has no spec.replicas: give a number with --replicas",
            ));
        };
        let replicas = usize::try_from(replicas).context("the number of replicas is negative")?;
        let name = topic.spec.topic_name.clone().unwrap_or_else(|| topic.name_any());
        let name = TopicName::new(name)?;
        let Staged { stage, names, .. } =
            stage((reach, &self.hosts), cluster, Some(&namespace), None).await?;
        stage.present(&names).await?.with_context(|| format!("there is no Kafka {cluster}"))?;
        let Some(foreseen) = stage.replicas_of(&names, &name, replicas).await? else {
            bail!("Kafka has no topic {name}")
        };
        out.view(&PlanView::of(&name, replicas, &foreseen))?;
        if foreseen.moves.is_empty() && foreseen.waits.is_none() {
            note(&format!("every partition of {name} has {replicas} replicas"));
        }
        Ok(())
    }
}

impl PlanView {
    fn of(topic: &TopicName, replicas: usize, foreseen: &Foreseen) -> Self {
        let numbers = |ids: &[NodeId]| ids.iter().map(|id| id.get()).collect::<Vec<_>>();
        let moves = foreseen.moves.iter().map(|(partition, before, after)| MoveView {
            partition: partition.partition.0,
            before: numbers(before),
            after: numbers(after),
        });
        Self {
            topic: topic.to_string(),
            replicas,
            waits: foreseen.waits.clone(),
            partitions: moves.collect(),
        }
    }
}

impl View for PlanView {
    fn table(&self, width: Option<u16>) -> String {
        let mut text = String::new();
        if let Some(why) = &self.waits {
            text.push_str(&format!("waits: {why}\n"));
        }
        if self.partitions.is_empty() {
            return text;
        }
        let mut grid = Grid::new(&["PARTITION", "BEFORE", "AFTER"]);
        for one in &self.partitions {
            grid.row([one.partition.to_string(), list(&one.before), list(&one.after)]);
        }
        text + &grid.take(width)
    }
}

#[cfg(test)]
mod tests {
    use model::TopicPartition;

    use super::*;

    #[test]
    fn a_plan_shows_the_brokers_before_and_after_or_why_it_waits() {
        let topic = TopicName::new("orders").unwrap();
        let nodes =
            |ids: &[i32]| ids.iter().map(|id| NodeId::new(*id).unwrap()).collect::<Vec<_>>();
        let one = (TopicPartition::new(topic.clone(), 0), nodes(&[1, 2]), nodes(&[1, 2, 3]));
        let moves = Foreseen { moves: vec![one], waits: None };
        let view = PlanView::of(&topic, 3, &moves);
        let expected = "\
PARTITION  BEFORE  AFTER
0          1,2     1,2,3
";
        assert_eq!(view.table(None), expected);
        assert_eq!(serde_json::to_value(&view).unwrap()["partitions"][0]["after"][2], 3);
        let waits = Foreseen { moves: vec![], waits: Some("no broker".to_owned()) };
        assert_eq!(PlanView::of(&topic, 3, &waits).table(None), "waits: no broker\n");
    }
}
