//! `gregor kafka groups`: consumer groups, how far they are behind, and their offsets.
//!
//! A reset of offsets is a dry run unless it is told otherwise, and what it would do is shown in the same form as what it
//! did.

mod describe;
mod reset;

use std::collections::BTreeSet;

use anyhow::{anyhow, bail};
use clap::{Args, Subcommand};
use kafka_admin::{Code, GroupListing, Outcome, Refusal};
use model::NodeId;
use serde::Serialize;

use self::describe::Describe;
use self::reset::Reset;
use super::after_change;
use super::connection::Session;
use crate::output::{Grid, Out, View, note, optional};

pub(super) const EXAMPLE: &str = "\
Examples:
  gregor kafka groups
  gregor kafka groups describe billing
  gregor kafka groups reset-offsets billing --topic orders --to-time 2026-11-18T06:00:00Z
  gregor kafka groups reset-offsets billing --topic orders --to-time 2026-11-18T06:00:00Z --execute";

/// Lists groups, or does something with some.
#[derive(Debug, Args)]
pub(super) struct Groups {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the groups
    List,
    /// Show what groups have committed, how far they are behind, and who reads what
    Describe(Describe),
    /// Change what a group has committed; only shows what it would do unless --execute is given
    ResetOffsets(Reset),
    /// Delete groups with their offsets; a group with members is refused
    Delete {
        /// The groups
        #[arg(value_name = "GROUP", required = true)]
        groups: Vec<String>,
    },
}

/// A group, as it is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupView {
    group: String,
    /// classic, consumer, share, streams, or other.
    #[serde(rename = "type")]
    kind: &'static str,
    protocol: String,
    state: String,
    coordinator: i32,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct GroupsView(Vec<GroupView>);

/// What became of one group, as it is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DeletedView {
    group: String,
    deleted: bool,
    error: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct AllDeletedView(Vec<DeletedView>);

impl Groups {
    pub(super) async fn run(self, session: &Session, out: &mut Out) -> anyhow::Result<()> {
        session.require_brokers("groups")?;
        match self.action {
            None | Some(Action::List) => list(session, out).await,
            Some(Action::Describe(describe)) => describe.run(session, out).await,
            Some(Action::ResetOffsets(reset)) => reset.run(session, out).await,
            Some(Action::Delete { groups }) => {
                delete(session, out, groups.into_iter().collect()).await
            }
        }
    }
}

async fn list(session: &Session, out: &mut Out) -> anyhow::Result<()> {
    let cluster = session.admin.describe_cluster().await?;
    let brokers = cluster.nodes.iter().filter(|node| !node.fenced).map(|node| node.id);
    let (mut groups, mut silent) = (Vec::new(), Vec::<NodeId>::new());
    for broker in brokers {
        match session.admin.list_groups(broker).await {
            Ok(found) => groups.extend(found),
            Err(error) => {
                note(&format!("broker {broker}: {:#}", anyhow!(error)));
                silent.push(broker);
            }
        }
    }
    if groups.is_empty() && silent.is_empty() {
        note("there are no groups");
    }
    out.view(&GroupsView::new(groups))?;
    if !silent.is_empty() {
        bail!("{} brokers did not list their groups", silent.len());
    }
    Ok(())
}

async fn delete(session: &Session, out: &mut Out, groups: BTreeSet<String>) -> anyhow::Result<()> {
    let what = "the groups were deleted";
    let results = session.admin.delete_groups(&groups).await.map_err(|error| {
        let outcome = error.outcome();
        after_change(anyhow!(error), outcome, what)
    })?;
    let failed = results.values().filter(|result| result.is_err()).count();
    let is_unknown = results
        .values()
        .any(|result| result.as_ref().is_err_and(|it| it.outcome() == Outcome::Unknown));
    let view = |(group, result): (&String, &Result<(), Refusal>)| DeletedView {
        group: group.clone(),
        deleted: result.is_ok(),
        error: result.as_ref().err().map(explained),
    };
    out.view(&AllDeletedView(results.iter().map(view).collect()))?;
    if failed > 0 {
        let outcome = if is_unknown { Outcome::Unknown } else { Outcome::NotDone };
        let error = anyhow!("{failed} of {} groups were not deleted", results.len());
        bail!(after_change(error, outcome, what));
    }
    Ok(())
}

/// What Kafka refused, with what to do where that is known.
fn explained(refusal: &Refusal) -> String {
    let advice = match refusal.code {
        Code::NON_EMPTY_GROUP | Code::UNKNOWN_MEMBER_ID => ": stop its members first",
        Code::GROUP_ID_NOT_FOUND => ": there is no such group, or it has no offsets",
        _ => "",
    };
    format!("{refusal}{advice}")
}

impl GroupsView {
    fn new(groups: Vec<GroupListing>) -> Self {
        let view = |group: GroupListing| GroupView {
            group: group.id,
            kind: group.kind.name(),
            protocol: group.protocol_type,
            state: group.state,
            coordinator: group.coordinator.get(),
        };
        let mut views: Vec<_> = groups.into_iter().map(view).collect();
        views.sort_by(|a, b| a.group.cmp(&b.group));
        Self(views)
    }
}

impl View for GroupsView {
    fn table(&self, width: Option<u16>) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let mut grid = Grid::new(&["GROUP", "TYPE", "PROTOCOL", "STATE", "COORDINATOR"]);
        for one in &self.0 {
            grid.row([
                one.group.clone(),
                one.kind.to_owned(),
                one.protocol.clone(),
                one.state.clone(),
                one.coordinator.to_string(),
            ]);
        }
        grid.take(width)
    }
}

impl View for AllDeletedView {
    fn table(&self, width: Option<u16>) -> String {
        let mut grid = Grid::new(&["GROUP", "DELETED", "ERROR"]).wrap(2);
        for one in &self.0 {
            let deleted = if one.deleted { "yes" } else { "no" };
            grid.row([one.group.clone(), deleted.to_owned(), optional(one.error.as_deref())]);
        }
        grid.take(width)
    }
}

#[cfg(test)]
mod tests {
    use kafka_admin::GroupKind;

    use super::*;

    #[test]
    fn groups_are_listed_by_name() {
        let group = |id: &str, kind| GroupListing {
            id: id.to_owned(),
            kind,
            protocol_type: String::new(),
            state: "Empty".to_owned(),
            coordinator: NodeId::new(2).unwrap(),
        };
        let view =
            GroupsView::new(vec![group("b", GroupKind::Classic), group("a", GroupKind::Share)]);
        let expected = "\
GROUP  TYPE     PROTOCOL  STATE  COORDINATOR
a      share    -         Empty  2
b      classic  -         Empty  2
";
        assert_eq!(view.table(None), expected);
        assert_eq!(serde_json::to_value(&view).unwrap()[0]["type"], "share");
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let refusal = |code| explained(&Refusal { code, message: None });
        let expected = "NON_EMPTY_GROUP (68): stop its members first";
        assert_eq!(refusal(Code::NON_EMPTY_GROUP), expected);
        assert_eq!(refusal(Code::NOT_COORDINATOR), "NOT_COORDINATOR (16)");
    }
}
