//! `gregor kafka groups reset-offsets`: other offsets for a group without members.
//!
//! What each partition gets is decided by [`changes`], from what was read; new offsets lie between the first and the last
//! that the partition has. Nothing is committed without `--execute`.

use std::collections::BTreeSet;

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use kafka_admin::{Code, CommittedOffsets, OffsetAt, Offsets, Outcome};
use model::{TopicName, TopicPartition};
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::explained;
use crate::commands::kafka::after_change;
use crate::commands::kafka::connection::Session;
use crate::failure::Usage;
use crate::output::{Grid, Out, View, note, optional};

/// Of which group and topics, and to where.
#[derive(Debug, Args)]
pub(super) struct Reset {
    /// The group
    #[arg(value_name = "GROUP")]
    group: String,
    /// A topic, all partitions of it; may be repeated
    #[arg(long = "topic", value_name = "TOPIC", required_unless_present = "all_topics")]
    topics: Vec<TopicName>,
    /// All partitions that the group has committed to
    #[arg(long, conflicts_with = "topics")]
    all_topics: bool,
    #[command(flatten)]
    to: To,
    /// Commit the offsets; without it they are only shown
    #[arg(long)]
    execute: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct To {
    /// To the first offsets that are still there
    #[arg(long)]
    to_earliest: bool,
    /// To the ends of the partitions
    #[arg(long)]
    to_latest: bool,
    /// To this offset
    #[arg(long, value_name = "OFFSET")]
    to_offset: Option<u64>,
    /// To the first record at or after this time, such as 2026-11-18T06:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    to_time: Option<u64>,
    /// By this many records, forward or back
    #[arg(long, value_name = "RECORDS", allow_negative_numbers = true)]
    shift_by: Option<i64>,
}

/// Where to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Earliest,
    Latest,
    Offset(u64),
    Time(u64),
    By(i64),
}

impl To {
    fn target(&self) -> anyhow::Result<Target> {
        let offset = self.to_offset.map(Target::Offset);
        let rest = self.to_time.map(Target::Time).or(self.shift_by.map(Target::By));
        let given = [
            self.to_earliest.then_some(Target::Earliest),
            self.to_latest.then_some(Target::Latest),
            offset,
            rest,
        ];
        given.into_iter().flatten().next().ok_or_else(|| Usage::error("which offsets?"))
    }
}

/// A time as ms since 1970.
fn parse_time(text: &str) -> Result<u64, String> {
    let wrong = || format!("\"{text}\" is no time such as 2026-11-18T06:00:00Z");
    let time = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| wrong())?;
    u64::try_from(time.unix_timestamp_nanos() / 1_000_000).map_err(|_| wrong())
}

/// What Kafka says of the partitions.
struct Seen {
    committed: CommittedOffsets,
    earliest: Offsets,
    latest: Offsets,
    /// Where the records of a time begin, if a time was asked for.
    at: Offsets,
}

/// The change of one partition, as it is printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ChangeView {
    topic: String,
    partition: i32,
    committed: Option<u64>,
    /// The new offset; `null` if there is an error.
    new: Option<u64>,
    /// Whether it is committed.
    applied: bool,
    error: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct ChangesView(Vec<ChangeView>);

impl Reset {
    pub(super) async fn run(self, session: &Session, out: &mut Out) -> anyhow::Result<()> {
        let target = self.to.target()?;
        let group = self.group.as_str();
        let members = members(session, group).await?;
        let only = BTreeSet::from([group.to_owned()]);
        let mut fetched = session.admin.fetch_offsets(&only).await?;
        let committed = fetched.remove(group).context("no answer for the group")?;
        // A group that does not exist has committed nothing; it comes to be with its first offsets.
        let committed = match committed {
            Err(refusal) if refusal.code == Code::GROUP_ID_NOT_FOUND => CommittedOffsets::new(),
            other => other.map_err(|refusal| anyhow!("group {group}: {}", explained(&refusal)))?,
        };
        let keys = self.partitions(session, &committed).await?;
        let seen = Seen::read(session, committed, &keys, target).await?;
        let mut changes = changes(&keys, &seen, target);
        let failed = changes.iter().filter(|(_, one)| one.error.is_some()).count();
        if !self.execute {
            out.view(&ChangesView::of(changes))?;
            note("dry run: nothing was committed; add --execute to commit these offsets");
            if members > 0 {
                note(&format!("the group has {members} members: stop them first"));
            }
        } else if members > 0 {
            bail!("group {group} has {members} members: stop them first");
        } else if failed == 0 {
            return commit(session, out, group, changes).await;
        } else {
            // All or nothing: a group that is reset in part is worse than one that is not.
            changes.iter_mut().for_each(|(_, one)| one.applied = false);
            out.view(&ChangesView::of(changes))?;
        }
        if failed > 0 {
            bail!(
                "{failed} of {} partitions have no new offset; nothing was committed",
                keys.len()
            );
        }
        Ok(())
    }

    /// All partitions of the topics, or those that the group has committed to.
    async fn partitions(
        &self,
        session: &Session,
        committed: &CommittedOffsets,
    ) -> anyhow::Result<BTreeSet<TopicPartition>> {
        if self.all_topics {
            if committed.is_empty() {
                bail!("group {} has committed no offsets", self.group);
            }
            return Ok(committed.keys().cloned().collect());
        }
        let page = session.admin.describe_topics(&self.topics).await?;
        if let Some((name, refusal)) = page.refused.first() {
            bail!("topic {name}: {refusal}");
        }
        let of_topic = |topic: kafka_admin::Topic| {
            let key =
                move |p: kafka_admin::Partition| TopicPartition::new(topic.name.clone(), p.id.0);
            topic.partitions.into_iter().map(key)
        };
        Ok(page.topics.into_iter().flat_map(of_topic).collect())
    }
}

/// How many members a group has; none if it does not exist.
async fn members(session: &Session, group: &str) -> anyhow::Result<usize> {
    let only = BTreeSet::from([group.to_owned()]);
    let mut described = session.admin.describe_groups(&only).await?;
    match described.remove(group).context("no answer for the group")? {
        Ok(group) => Ok(group.members.len()),
        Err(refusal) if refusal.code == Code::GROUP_ID_NOT_FOUND => Ok(0),
        Err(refusal) => bail!("group {group}: {}", explained(&refusal)),
    }
}

impl Seen {
    async fn read(
        session: &Session,
        committed: CommittedOffsets,
        keys: &BTreeSet<TopicPartition>,
        target: Target,
    ) -> anyhow::Result<Self> {
        let earliest = session.admin.list_offsets(keys, OffsetAt::Earliest).await?;
        let latest = session.admin.list_offsets(keys, OffsetAt::Latest).await?;
        let at = match target {
            Target::Time(ms) => session.admin.list_offsets(keys, OffsetAt::Time(ms)).await?,
            Target::Earliest | Target::Latest | Target::Offset(_) | Target::By(_) => Offsets::new(),
        };
        Ok(Self { committed, earliest, latest, at })
    }
}

/// What each partition gets.
fn changes(
    keys: &BTreeSet<TopicPartition>,
    seen: &Seen,
    target: Target,
) -> Vec<(TopicPartition, ChangeView)> {
    let change = |key: &TopicPartition| {
        let new = new_offset(key, seen, target);
        let view = ChangeView {
            topic: key.topic.to_string(),
            partition: key.partition.0,
            committed: seen.committed.get(key).copied(),
            new: new.as_ref().ok().copied(),
            applied: false,
            error: new.err(),
        };
        (key.clone(), view)
    };
    keys.iter().map(change).collect()
}

fn new_offset(key: &TopicPartition, seen: &Seen, target: Target) -> Result<u64, String> {
    let read = |all: &Offsets| match all.get(key) {
        Some(Ok(offset)) => Ok(*offset),
        Some(Err(refusal)) => Err(refusal.to_string()),
        None => Err("no answer".to_owned()),
    };
    let (first, end) = (read(&seen.earliest)?, read(&seen.latest)?);
    let (Some(first), Some(end)) = (first, end) else { return Err("no offsets".to_owned()) };
    let wanted = match target {
        Target::Earliest => first,
        Target::Latest => end,
        Target::Offset(offset) => offset,
        // No record is that young: whatever comes next is.
        Target::Time(_) => read(&seen.at)?.unwrap_or(end),
        Target::By(records) => {
            let committed = seen.committed.get(key).ok_or("the group has committed no offset")?;
            committed.saturating_add_signed(records)
        }
    };
    Ok(wanted.clamp(first, end.max(first)))
}

async fn commit(
    session: &Session,
    out: &mut Out,
    group: &str,
    mut changes: Vec<(TopicPartition, ChangeView)>,
) -> anyhow::Result<()> {
    let what = "the offsets were committed";
    let offsets: CommittedOffsets =
        changes.iter().filter_map(|(key, one)| Some((key.clone(), one.new?))).collect();
    let results = session.admin.commit_offsets(group, &offsets).await.map_err(|error| {
        let outcome = error.outcome();
        after_change(anyhow!(error), outcome, what)
    })?;
    let mut is_unknown = false;
    for (key, view) in &mut changes {
        match results.get(key) {
            Some(Ok(())) => view.applied = true,
            Some(Err(refusal)) => {
                is_unknown |= refusal.outcome() == Outcome::Unknown
                    || refusal.code == Code::COORDINATOR_NOT_AVAILABLE;
                view.error = Some(explained(refusal));
            }
            None => {
                is_unknown = true;
                view.error = Some("no answer".to_owned());
            }
        }
    }
    let failed = changes.iter().filter(|(_, one)| !one.applied).count();
    let count = changes.len();
    out.view(&ChangesView::of(changes))?;
    if failed > 0 {
        let outcome = if is_unknown { Outcome::Unknown } else { Outcome::NotDone };
        let error = anyhow!("{failed} of {count} offsets were not committed");
        bail!(after_change(error, outcome, what));
    }
    Ok(())
}

impl ChangesView {
    fn of(changes: Vec<(TopicPartition, ChangeView)>) -> Self {
        Self(changes.into_iter().map(|(_, view)| view).collect())
    }
}

impl View for ChangesView {
    fn table(&self, width: Option<u16>) -> String {
        let header = ["TOPIC", "PARTITION", "COMMITTED", "NEW", "APPLIED", "ERROR"];
        let mut grid = Grid::new(&header).wrap(5);
        for one in &self.0 {
            grid.row([
                one.topic.clone(),
                one.partition.to_string(),
                optional(one.committed),
                optional(one.new),
                if one.applied { "yes" } else { "no" }.to_owned(),
                optional(one.error.as_deref()),
            ]);
        }
        grid.take(width)
    }
}

#[cfg(test)]
mod tests {
    use kafka_admin::Refusal;

    use super::*;
    use crate::commands::kafka::parse_partition;

    fn key() -> TopicPartition {
        parse_partition("a-0").unwrap()
    }

    fn seen(committed: Option<u64>, at: Option<u64>) -> Seen {
        let one = |offset| Offsets::from([(key(), Ok(offset))]);
        Seen {
            committed: committed.into_iter().map(|offset| (key(), offset)).collect(),
            earliest: one(Some(10)),
            latest: one(Some(100)),
            at: one(at),
        }
    }

    #[test]
    fn new_offsets_lie_between_the_first_and_the_last() {
        let none = "the group has committed no offset";
        #[rustfmt::skip]
        let rows = [
            (Target::Earliest,    Some(50), None,     Ok(10)),
            (Target::Latest,      None,     None,     Ok(100)),
            (Target::Offset(60),  Some(50), None,     Ok(60)),
            (Target::Offset(3),   Some(50), None,     Ok(10)),
            (Target::Offset(300), Some(50), None,     Ok(100)),
            (Target::Time(7),     Some(50), Some(42), Ok(42)),
            (Target::Time(7),     Some(50), None,     Ok(100)),
            (Target::By(-20),     Some(50), None,     Ok(30)),
            (Target::By(-200),    Some(50), None,     Ok(10)),
            (Target::By(i64::MAX), Some(50), None,    Ok(100)),
            (Target::By(1),       None,     None,     Err(none.to_owned())),
        ];
        for (target, committed, at, expected) in rows {
            assert_eq!(new_offset(&key(), &seen(committed, at), target), expected, "{target:?}");
        }
        let refusal = Refusal { code: Code::LEADER_NOT_AVAILABLE, message: None };
        let dark = Seen { latest: [(key(), Err(refusal))].into(), ..seen(Some(50), None) };
        let found = new_offset(&key(), &dark, Target::Earliest);
        assert_eq!(found, Err("LEADER_NOT_AVAILABLE (5)".to_owned()), "unknown is not absent");
    }

    #[test]
    fn a_dry_run_looks_like_what_is_done() {
        let view = ChangesView::of(changes(&[key()].into(), &seen(Some(50), None), Target::Latest));
        let expected = "\
TOPIC  PARTITION  COMMITTED  NEW  APPLIED  ERROR
a      0          50         100  no       -
";
        assert_eq!(view.table(None), expected);
        assert_eq!(serde_json::to_value(&view).unwrap()[0]["new"], 100);
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        assert_eq!(parse_time("1970-01-01T00:00:01.5Z"), Ok(1500));
        assert_eq!(parse_time("1970-01-01T01:00:00+01:00"), Ok(0));
        for wrong in ["yesterday", "2026-11-18", "1969-12-31T23:59:59Z"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }
}
