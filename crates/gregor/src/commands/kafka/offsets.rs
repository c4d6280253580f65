//! `gregor kafka offsets`: where partitions begin and end.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use clap::Args;
use kafka_admin::{OffsetAt, Refusal};
use model::{TopicName, TopicPartition};
use serde::Serialize;

use super::connection::Session;
use crate::output::{Grid, Out, View, note, optional};

/// Topics to query.
#[derive(Debug, Args)]
pub(super) struct Offsets {
    /// Names of topics
    #[arg(value_name = "TOPIC", required = true)]
    topics: Vec<TopicName>,
}

/// A partition, as printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OffsetsView {
    topic: String,
    partition: i32,
    /// The first available offset.
    earliest: Option<u64>,
    /// The offset of the next record.
    latest: Option<u64>,
    /// The offsets between them; a compacted topic has fewer records.
    count: Option<u64>,
    error: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct AllView(Vec<OffsetsView>);

type Answers = BTreeMap<TopicPartition, Result<Option<u64>, Refusal>>;

impl Offsets {
    pub(super) async fn run(self, session: &Session, out: &mut Out) -> anyhow::Result<()> {
        session.require_brokers("offsets")?;
        let page = session.admin.describe_topics(&self.topics).await?;
        for (name, refusal) in &page.refused {
            note(&format!("topic {name}: {refusal}"));
        }
        let keys = page.topics.iter().flat_map(|topic| {
            let key = |p: &kafka_admin::Partition| TopicPartition::new(topic.name.clone(), p.id.0);
            topic.partitions.iter().map(key)
        });
        let partitions: BTreeSet<_> = keys.collect();
        let earliest = session.admin.list_offsets(&partitions, OffsetAt::Earliest).await?;
        let latest = session.admin.list_offsets(&partitions, OffsetAt::Latest).await?;
        let view = AllView::new(&partitions, &earliest, &latest);
        let failed = view.0.iter().filter(|one| one.error.is_some()).count();
        out.view(&view)?;
        if failed + page.refused.len() > 0 {
            let refused = page.refused.len();
            bail!("Kafka refused to describe {refused} topics and {failed} partitions");
        }
        Ok(())
    }
}

impl AllView {
    fn new(partitions: &BTreeSet<TopicPartition>, earliest: &Answers, latest: &Answers) -> Self {
        let view = |key: &TopicPartition| {
            let read = |answers: &Answers| match answers.get(key) {
                Some(Ok(offset)) => Ok(*offset),
                Some(Err(refusal)) => Err(refusal.to_string()),
                None => Err("no answer".to_owned()),
            };
            let (first, last) = (read(earliest), read(latest));
            let error = first.as_ref().err().or(last.as_ref().err()).cloned();
            let (first, last) = (first.ok().flatten(), last.ok().flatten());
            OffsetsView {
                topic: key.topic.to_string(),
                partition: key.partition.0,
                earliest: first,
                latest: last,
                count: first.zip(last).map(|(first, last)| last.saturating_sub(first)),
                error,
            }
        };
        Self(partitions.iter().map(view).collect())
    }
}

impl View for AllView {
    fn table(&self, width: Option<u16>) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let mut grid =
            Grid::new(&["TOPIC", "PARTITION", "EARLIEST", "LATEST", "COUNT", "ERROR"]).wrap(5);
        for one in &self.0 {
            grid.row([
                one.topic.clone(),
                one.partition.to_string(),
                optional(one.earliest),
                optional(one.latest),
                optional(one.count),
                optional(one.error.as_deref()),
            ]);
        }
        grid.take(width)
    }
}

#[cfg(test)]
mod tests {
    use kafka_admin::Code;

    use super::super::parse_partition;
    use super::*;

    #[test]
    fn a_partition_without_a_leader_is_shown_with_the_reason() {
        let key = |text| parse_partition(text).unwrap();
        let refused = Refusal { code: Code::LEADER_NOT_AVAILABLE, message: None };
        let earliest = [(key("a-0"), Ok(Some(5))), (key("a-1"), Err(refused.clone()))].into();
        let latest = [(key("a-0"), Ok(Some(12))), (key("a-1"), Err(refused))].into();
        let view = AllView::new(&[key("a-0"), key("a-1")].into(), &earliest, &latest);
        let expected = "\
TOPIC  PARTITION  EARLIEST  LATEST  COUNT  ERROR
a      0          5         12      7      -
a      1          -         -       -      LEADER_NOT_AVAILABLE (5)
";
        assert_eq!(view.table(None), expected);
        assert_eq!(serde_json::to_value(&view).unwrap()[0]["count"], 7);
    }
}
