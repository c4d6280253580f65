//! Groups of consumers that run, and what is left of them: members, commits, other offsets, deletion.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail, ensure};
use kafka_admin::{Admin, Code, CommittedOffsets, Group, GroupKind, OffsetAt, Refusal};
use testkit::Cluster;

use crate::common::{brokers, consume, eventually, nodes, partition, so, topic};

/// The groups, each with its protocol and its type.
const GROUPS: [(&str, &str, GroupKind); 2] = [
    ("readers-old", "classic", GroupKind::Classic),
    ("readers-new", "consumer", GroupKind::Consumer),
];

fn ids(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|id| (*id).to_owned()).collect()
}

fn code<T>(result: Option<&Result<T, Refusal>>) -> Option<Code> {
    Some(result?.as_ref().err()?.code)
}

/// The topic `plain` has 1000 records in three partitions.
pub(crate) async fn of_both_protocols(cluster: &Cluster) -> anyhow::Result<()> {
    let admin = brokers(cluster);
    let none = admin.fetch_offsets(&ids(&["nobody"])).await?;
    assert!(none["nobody"].as_ref().is_ok_and(BTreeMap::is_empty), "{none:?}");
    for (group, protocol, kind) in GROUPS {
        tokio::select! {
            biased;
            seen = while_it_reads(&admin, group, kind) => seen?,
            done = consume(cluster, "plain", group, protocol) => {
                done?;
                bail!("{group} has read all before it was seen");
            }
        }
    }
    admin_of_nobody(&admin).await?;
    topics_in_one_request(&admin).await
}

/// A group with a member: described, its offsets protected, not deleted.
async fn while_it_reads(admin: &Admin, id: &str, kind: GroupKind) -> anyhow::Result<()> {
    let only = ids(&[id]);
    let group: Group = eventually("the group reads all three partitions", async || {
        let found = admin.describe_groups(&only).await?.remove(id);
        let assigned = |group: &Group| {
            let of = group.members.iter().filter_map(|member| member.assigned.as_ref());
            of.flatten().count()
        };
        Ok(match found {
            Some(Ok(group)) if assigned(&group) == 3 => Ok(group),
            other => Err(format!("{other:?}")),
        })
    })
    .await?;
    assert_eq!((group.kind, group.members.len()), (kind, 1), "{group:?}");
    assert!(!group.members[0].host.is_empty() && !group.members[0].client.is_empty(), "{group:?}");
    let mut listed = Vec::new();
    for broker in nodes(&[100, 101, 102]) {
        listed.extend(admin.list_groups(broker).await?);
    }
    let listed: Vec<_> = listed.iter().filter(|group| group.id == id).collect();
    ensure!(listed.len() == 1, "one broker coordinates it: {listed:?}");
    assert_eq!((listed[0].kind, listed[0].coordinator), (kind, group.coordinator));
    let offsets = CommittedOffsets::from([(partition("plain", 0), 1)]);
    let refused = admin.commit_offsets(id, &offsets).await?;
    assert_eq!(code(refused.get(&partition("plain", 0))), Some(Code::UNKNOWN_MEMBER_ID));
    let refused = admin.delete_groups(&only).await?;
    assert_eq!(code(refused.get(id)), Some(Code::NON_EMPTY_GROUP));
    eventually("all records are committed", async || {
        let found = admin.fetch_offsets(&only).await?;
        let sum: u64 = found[id].as_ref().map_or(0, |offsets| offsets.values().sum());
        so(sum == 1000, format!("{found:?}"))
    })
    .await
}

/// Offsets that nobody reads any more are set and deleted by an administrator.
async fn admin_of_nobody(admin: &Admin) -> anyhow::Result<()> {
    let made = "made-by-hand";
    let offsets = CommittedOffsets::from([(partition("plain", 0), 5), (partition("plain", 2), 7)]);
    let results = admin.commit_offsets(made, &offsets).await?;
    assert!(results.len() == 2 && results.values().all(Result::is_ok), "{results:?}");
    let all = ids(&[made, "readers-old", "nobody"]);
    let found = admin.fetch_offsets(&all).await?;
    assert_eq!(found[made], Ok(offsets));
    let described = admin.describe_groups(&all).await?;
    let empty = described[made].clone()?;
    assert_eq!((empty.kind, empty.members.len()), (GroupKind::Classic, 0));
    assert_eq!(code(described.get("nobody")), Some(Code::GROUP_ID_NOT_FOUND));
    let missing = CommittedOffsets::from([(partition("missing", 0), 5)]);
    let results = admin.commit_offsets(made, &missing).await?;
    let refused = code(results.get(&partition("missing", 0)));
    assert_eq!(refused, Some(Code::UNKNOWN_TOPIC_OR_PARTITION));
    let deleted = admin.delete_groups(&ids(&[made, "nobody"])).await?;
    assert_eq!(deleted[made], Ok(()));
    assert_eq!(code(deleted.get("nobody")), Some(Code::GROUP_ID_NOT_FOUND));
    let found = admin.fetch_offsets(&ids(&[made])).await?;
    assert_eq!(found[made], Ok(CommittedOffsets::new()));
    Ok(())
}

/// All topics at once are what pages of them show, and leaders that are known are not looked up.
async fn topics_in_one_request(admin: &Admin) -> anyhow::Result<()> {
    let all = admin.all_topics().await?;
    assert!(all.refused.is_empty(), "{:?}", all.refused);
    let plain = all.topics.iter().find(|one| one.name == topic("plain"));
    let plain = plain.context("the topic is listed")?;
    let page = admin.describe_topics(&[topic("plain")]).await?;
    let seen = |topic: &kafka_admin::Topic| -> Vec<_> {
        let of = |p: &kafka_admin::Partition| (p.id, p.replicas.clone(), p.isr.len());
        topic.partitions.iter().map(of).collect()
    };
    assert_eq!((plain.id, seen(plain)), (page.topics[0].id, seen(&page.topics[0])));
    let mut leaders: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for one in &plain.partitions {
        let leader = one.leader.context("a partition has a leader")?;
        leaders.entry(leader).or_default().push(partition("plain", one.id.0));
    }
    let offsets = admin.list_offsets_of(&leaders, OffsetAt::Latest).await?;
    let sum: u64 = offsets.values().filter_map(|one| one.clone().ok().flatten()).sum();
    assert_eq!((offsets.len(), sum), (3, 1000));
    let stranger = nodes(&[100, 101, 102]).into_iter().find(|node| {
        let led = leaders.get(node).is_some_and(|all| all.contains(&partition("plain", 0)));
        !led
    });
    let wrong = [(stranger.context("three brokers")?, vec![partition("plain", 0)])].into();
    let refused = admin.list_offsets_of(&wrong, OffsetAt::Latest).await?;
    assert_eq!(code(refused.get(&partition("plain", 0))), Some(Code::NOT_LEADER_OR_FOLLOWER));
    Ok(())
}
