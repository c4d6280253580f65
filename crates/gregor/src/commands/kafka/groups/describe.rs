//! `gregor kafka groups describe`: commits, lag and members.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use clap::Args;
use kafka_admin::{CommittedOffsets, Group, OffsetAt, Offsets};
use model::TopicPartition;
use serde::Serialize;

use super::explained;
use crate::commands::kafka::connection::Session;
use crate::output::{Grid, Out, View, note, optional};

/// Which groups.
#[derive(Debug, Args)]
pub(super) struct Describe {
    /// The groups
    #[arg(value_name = "GROUP", required = true)]
    groups: Vec<String>,
}

/// A group, as it is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DescribedView {
    group: String,
    #[serde(rename = "type")]
    kind: &'static str,
    state: String,
    coordinator: i32,
    members: usize,
    /// The sum of what is known.
    lag: u64,
    partitions: Vec<PartitionView>,
}

/// A partition that a group has committed to, or reads.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PartitionView {
    topic: String,
    partition: i32,
    committed: Option<u64>,
    latest: Option<u64>,
    lag: Option<u64>,
    client: Option<String>,
    host: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct AllView(Vec<DescribedView>);

impl Describe {
    pub(super) async fn run(self, session: &Session, out: &mut Out) -> anyhow::Result<()> {
        let wanted: BTreeSet<String> = self.groups.into_iter().collect();
        let described = session.admin.describe_groups(&wanted).await?;
        let committed = session.admin.fetch_offsets(&wanted).await?;
        let mut found = Vec::new();
        let mut refused = 0;
        for (id, group) in described {
            let commits = committed.get(&id).cloned();
            match (group, commits) {
                (Ok(group), Some(Ok(commits))) => found.push((group, commits)),
                (Err(refusal), _) | (Ok(_), Some(Err(refusal))) => {
                    note(&format!("group {id}: {}", explained(&refusal)));
                    refused += 1;
                }
                (Ok(_), None) => {
                    note(&format!("group {id}: no answer"));
                    refused += 1;
                }
            }
        }
        let keys = found.iter().flat_map(|(group, commits)| keys(group, commits)).collect();
        let latest = session.admin.list_offsets(&keys, OffsetAt::Latest).await?;
        let view = |(group, commits): &(Group, CommittedOffsets)| {
            DescribedView::new(group, commits, &latest)
        };
        out.view(&AllView(found.iter().map(view).collect()))?;
        if refused > 0 {
            bail!("{refused} of {} groups are not shown", wanted.len());
        }
        Ok(())
    }
}

/// The partitions that a group has committed to, or reads.
fn keys(group: &Group, commits: &CommittedOffsets) -> BTreeSet<TopicPartition> {
    let assigned = group.members.iter().flat_map(|member| member.assigned.iter().flatten());
    assigned.chain(commits.keys()).cloned().collect()
}

impl DescribedView {
    fn new(group: &Group, commits: &CommittedOffsets, latest: &Offsets) -> Self {
        let readers: BTreeMap<&TopicPartition, _> = group
            .members
            .iter()
            .flat_map(|one| one.assigned.iter().flatten().map(move |key| (key, one)))
            .collect();
        let view = |key: TopicPartition| {
            let committed = commits.get(&key).copied();
            let latest = latest.get(&key).and_then(|found| found.clone().ok()).flatten();
            let reader = readers.get(&key);
            PartitionView {
                topic: key.topic.to_string(),
                partition: key.partition.0,
                committed,
                latest,
                lag: committed.zip(latest).map(|(at, end)| end.saturating_sub(at)),
                client: reader.map(|one| one.client.clone()),
                host: reader.map(|one| one.host.clone()),
            }
        };
        let partitions: Vec<_> = keys(group, commits).into_iter().map(view).collect();
        Self {
            group: group.id.clone(),
            kind: group.kind.name(),
            state: group.state.clone(),
            coordinator: group.coordinator.get(),
            members: group.members.len(),
            lag: partitions.iter().filter_map(|one| one.lag).sum(),
            partitions,
        }
    }
}

impl View for AllView {
    fn table(&self, width: Option<u16>) -> String {
        let mut text = String::new();
        let header = ["TOPIC", "PARTITION", "COMMITTED", "LATEST", "LAG", "CLIENT", "HOST"];
        for one in &self.0 {
            if !text.is_empty() {
                text.push('\n');
            }
            let DescribedView { group, kind, state, coordinator, members, lag, .. } = one;
            let count = if *members == 1 { "1 member" } else { &format!("{members} members") };
            text.push_str(&format!(
                "{group}: {kind}, {state}, {count}, lag {lag}, coordinator {coordinator}\n"
            ));
            let mut grid = Grid::new(&header);
            for one in &one.partitions {
                grid.row([
                    one.topic.clone(),
                    one.partition.to_string(),
                    optional(one.committed),
                    optional(one.latest),
                    optional(one.lag),
                    optional(one.client.as_deref()),
                    optional(one.host.as_deref()),
                ]);
            }
            if !one.partitions.is_empty() {
                text.push_str(&grid.take(width));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use kafka_admin::{Code, GroupKind, GroupMember, Refusal};
    use model::NodeId;

    use super::*;
    use crate::commands::kafka::parse_partition;

    #[test]
    fn a_group_is_shown_with_its_lag_and_who_reads_what() {
        let key = |text| parse_partition(text).unwrap();
        let member = GroupMember {
            id: "m".to_owned(),
            instance: None,
            client: "app".to_owned(),
            host: "/10.0.0.1".to_owned(),
            assigned: Some([key("a-0"), key("a-2")].into()),
        };
        let group = Group {
            id: "g".to_owned(),
            kind: GroupKind::Consumer,
            state: "Stable".to_owned(),
            assignor: "uniform".to_owned(),
            coordinator: NodeId::new(2).unwrap(),
            members: vec![member],
        };
        let commits = [(key("a-0"), 5), (key("a-1"), 9), (key("b-0"), 1)].into();
        let lost = Refusal { code: Code::LEADER_NOT_AVAILABLE, message: None };
        let latest = [
            (key("a-0"), Ok(Some(12))),
            (key("a-1"), Ok(Some(8))),
            (key("a-2"), Ok(Some(3))),
            (key("b-0"), Err(lost)),
        ];
        let view = AllView(vec![DescribedView::new(&group, &commits, &latest.into())]);
        let expected = "\
g: consumer, Stable, 1 member, lag 7, coordinator 2
TOPIC  PARTITION  COMMITTED  LATEST  LAG  CLIENT  HOST
a      0          5          12      7    app     /10.0.0.1
a      1          9          8       0    -       -
a      2          -          3       -    app     /10.0.0.1
b      0          1          -       -    -       -
";
        assert_eq!(view.table(None), expected);
        assert_eq!(serde_json::to_value(&view).unwrap()[0]["partitions"][0]["lag"], 7);
    }
}
