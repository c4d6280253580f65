//! `gregor kafka add-controller` and `remove-controller`: changing who votes.
//!
//! Both show the quorum before and after. Where Kafka leaves open what happened, so do they.

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use kafka_admin::{Admin, Endpoint, Quorum, VoterChangeError, VoterListener};
use model::{ClusterId, DirectoryId, NodeId};
use serde::Serialize;

use super::after_change;
use super::connection::Session;
use super::quorum::{QuorumView, read_kraft_version};
use crate::failure::EXIT_CODES;
use crate::output::{Format, Out, View, note, terminal_width};

pub(super) const ADD_EXAMPLE: &str = "\
Example:
  gregor kafka add-controller 3 --directory-id E1cBpRZqQ0WqXQ6kUzOo3A \\
      --listener CONTROLLER://c3:9093 --controllers c0:9093";

pub(super) const REMOVE_EXAMPLE: &str = "\
Example:
  gregor kafka remove-controller 3 --directory-id E1cBpRZqQ0WqXQ6kUzOo3A --bootstrap kafka:9092";

/// A voter that was last caught up longer ago, by the leader's clock, counts as lagging. This is the time
/// after which a follower looks for another leader.
const CAUGHT_UP_WITHIN_MS: u64 = 2000;

pub(super) fn add_help() -> String {
    format!("{ADD_EXAMPLE}\n\n{EXIT_CODES}")
}

pub(super) fn remove_help() -> String {
    format!("{REMOVE_EXAMPLE}\n\n{EXIT_CODES}")
}

/// A running observer.
#[derive(Debug, Args)]
pub(super) struct AddController {
    /// Node id
    #[arg(value_name = "ID")]
    id: NodeId,
    /// Directory id of its metadata log, as `quorum` prints it
    #[arg(long, value_name = "DIRECTORY-ID", allow_hyphen_values = true)]
    directory_id: DirectoryId,
    /// Its advertised listener; may be repeated
    #[arg(long, value_name = "NAME://HOST:PORT", required = true, value_parser = parse_listener)]
    listener: Vec<VoterListener>,
}

/// A voter.
#[derive(Debug, Args)]
pub(super) struct RemoveController {
    /// Node id
    #[arg(value_name = "ID")]
    id: NodeId,
    /// Directory id of its metadata log, as `quorum` prints it
    #[arg(long, value_name = "DIRECTORY-ID", allow_hyphen_values = true)]
    directory_id: DirectoryId,
    /// Also remove it if the remaining voters would lose their majority
    #[arg(long)]
    force: bool,
}

/// A change of voters, as printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ChangeView {
    /// `done`, `refused` or `unknown`.
    outcome: &'static str,
    before: QuorumView,
    /// `null` if unknown.
    after: Option<QuorumView>,
}

impl AddController {
    pub(super) async fn run(self, session: &Session, out: &mut Out) -> anyhow::Result<()> {
        let Self { id, directory_id, listener } = self;
        let before = Before::read(&session.admin).await?;
        // A voter of that id is for Kafka to refuse.
        let known = |replica: &kafka_admin::QuorumReplica| {
            replica.id == id && replica.directory == Some(directory_id)
        };
        let votes = before.quorum.voters.iter().any(|voter| voter.id == id);
        if !votes && !before.quorum.observers.iter().any(known) {
            note(&format!(
                "no observer has the id {id} and the directory id {directory_id}: Kafka will \
                 treat it as a voter that lags"
            ));
        }
        before.show(out)?;
        let change = session.admin.add_voter(Some(&before.cluster), id, directory_id, &listener);
        let result = change.await;
        finish(session, out, before, result, &format!("controller {id} is a voter now")).await
    }
}

impl RemoveController {
    pub(super) async fn run(self, session: &Session, out: &mut Out) -> anyhow::Result<()> {
        let Self { id, directory_id, force } = self;
        let before = Before::read(&session.admin).await?;
        before.show(out)?;
        match check_removal(&before.quorum, id, directory_id) {
            Ok(()) => {}
            Err(reason) if force => note(&format!("--force: continuing although {reason}")),
            Err(reason) => bail!("controller {id} was not removed: {reason}"),
        }
        let result = session.admin.remove_voter(Some(&before.cluster), id, directory_id).await;
        finish(session, out, before, result, &format!("controller {id} is still a voter")).await
    }
}

/// The quorum before the change.
struct Before {
    cluster: ClusterId,
    quorum: Quorum,
    kraft_version: Option<i16>,
}

impl Before {
    async fn read(admin: &Admin) -> anyhow::Result<Self> {
        let cluster = admin.describe_cluster().await?.id;
        let quorum = admin.describe_quorum().await?;
        Ok(Self { cluster, quorum, kraft_version: read_kraft_version(admin).await })
    }

    /// Printed at once as a table, or with the result as JSON.
    fn show(&self, out: &mut Out) -> anyhow::Result<()> {
        match out.format {
            Format::Table => out.text(&titled("Before", &self.view())),
            Format::Json => Ok(()),
        }
    }

    fn view(&self) -> QuorumView {
        QuorumView::new(&self.quorum, self.kraft_version)
    }
}

fn titled(title: &str, view: &QuorumView) -> String {
    format!("{title}:\n\n{}\n", view.table(terminal_width()))
}

/// Shows the current quorum, whatever the result of the change.
async fn finish(
    session: &Session,
    out: &mut Out,
    before: Before,
    result: Result<(), VoterChangeError>,
    what: &str,
) -> anyhow::Result<()> {
    let after = session.admin.describe_quorum().await;
    let after = after.map(|quorum| QuorumView::new(&quorum, before.kraft_version));
    let (after, unread) = match after {
        Ok(view) => (Some(view), None),
        Err(error) => (None, Some(anyhow!(error).context("cannot show the quorum as it is now"))),
    };
    let outcome = match result.as_ref().map_err(VoterChangeError::outcome) {
        Ok(()) => "done",
        Err(kafka_admin::Outcome::NotDone) => "refused",
        Err(kafka_admin::Outcome::Unknown) => "unknown",
    };
    match out.format {
        Format::Json => out.view(&ChangeView { outcome, before: before.view(), after })?,
        Format::Table => {
            let title = if outcome == "done" { "After" } else { "Now" };
            out.text(&after.map(|view| titled(title, &view)).unwrap_or_default())?;
        }
    }
    if let Err(error) = result {
        if let Some(unread) = unread {
            note(&format!("{unread:#}"));
        }
        let outcome = error.outcome();
        return Err(after_change(anyhow!(error), outcome, what));
    }
    unread.map_or(Ok(()), Err).context("the change was made")
}

impl View for ChangeView {
    fn table(&self, _: Option<u16>) -> String {
        let after = self.after.as_ref().map(|view| titled("After", view)).unwrap_or_default();
        titled("Before", &self.before) + &after
    }
}

/// Whether the remaining voters keep a majority; the error says why not.
///
/// Kafka removes a voter regardless of the others. If less than a majority of them has all committed records,
/// nothing can be committed until they have caught up, and never if they are down.
fn check_removal(quorum: &Quorum, id: NodeId, directory: DirectoryId) -> Result<(), String> {
    let goes = |voter: &&kafka_admin::QuorumReplica| {
        // A static quorum knows no directories; Kafka refuses the change itself then.
        voter.id == id && voter.directory.is_none_or(|its| its == directory)
    };
    if !quorum.voters.iter().any(|voter| goes(&voter)) {
        let same = quorum.voters.iter().find(|voter| voter.id == id);
        return Err(match same.and_then(|voter| voter.directory) {
            Some(other) => format!("the voter {id} has the directory id {other}, not {directory}"),
            None => format!("{id} is not a voter"),
        });
    }
    let remaining: Vec<_> = quorum.voters.iter().filter(|voter| !goes(voter)).collect();
    if remaining.is_empty() {
        return Err("it is the last voter".to_owned());
    }
    let now = quorum.leader_replica().and_then(|leader| leader.last_caught_up_ms);
    let now = now.ok_or("the leader does not report the lag of the other voters")?;
    let caught_up = |voter: &kafka_admin::QuorumReplica| {
        let recent = |then: u64| now.saturating_sub(then) <= CAUGHT_UP_WITHIN_MS;
        quorum.lag(voter).is_some() && voter.last_caught_up_ms.is_some_and(recent)
    };
    let (count, needed) = (remaining.len(), remaining.len() / 2 + 1);
    let (ready, behind): (Vec<_>, Vec<_>) = remaining.into_iter().partition(|v| caught_up(v));
    if ready.len() >= needed {
        return Ok(());
    }
    let behind: Vec<_> = behind.iter().map(|voter| voter.id.to_string()).collect();
    Err(format!(
        "of the {count} voters that would remain {} are caught up and {needed} must be; behind or \
         silent: {}. Start those first, or use --force",
        ready.len(),
        behind.join(", ")
    ))
}

/// Parses `NAME://HOST:PORT`.
fn parse_listener(text: &str) -> Result<VoterListener, String> {
    let wrong = || format!("\"{text}\" is not NAME://HOST:PORT, such as CONTROLLER://c3:9093");
    let (name, endpoint) = text.split_once("://").ok_or_else(wrong)?;
    let endpoint: Endpoint = endpoint.parse().map_err(|_| wrong())?;
    if name.is_empty() || name.contains(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        return Err(wrong());
    }
    // Kafka compares the names in capitals.
    let name = name.to_ascii_uppercase();
    Ok(VoterListener { name, host: endpoint.host, port: endpoint.port })
}

#[cfg(test)]
mod tests {
    use super::super::quorum::tests::{quorum, replica};
    use super::*;

    /// Voters 0, 1, … that were caught up this many ms ago; 0 is the leader.
    fn voters(ago: &[Option<u64>]) -> Quorum {
        let replicas = (0..).zip(ago).map(|(id, ago)| replica(id, *ago, 0));
        quorum(0, replicas.collect(), vec![])
    }

    fn check(quorum: &Quorum, id: i32) -> Result<(), String> {
        let voter = quorum.voters.iter().find(|voter| voter.id.get() == id).unwrap();
        check_removal(quorum, voter.id, voter.directory.unwrap())
    }

    #[test]
    fn a_voter_may_go_while_a_majority_of_the_rest_is_caught_up() {
        let rows: [(&[Option<u64>], i32, bool); 8] = [
            (&[Some(0), Some(300), Some(300)], 2, true),
            // The one that is down is taken out: just what this is for.
            (&[Some(0), Some(300), None], 2, true),
            // One of two is no majority.
            (&[Some(0), Some(300), None], 1, false),
            (&[Some(0), Some(300), Some(2001)], 1, false),
            (&[Some(0), Some(300), Some(2000)], 1, true),
            (&[Some(0), Some(300), Some(300), None], 1, true),
            (&[Some(0), Some(300), Some(300), None, None], 1, false),
            (&[Some(0)], 0, false),
        ];
        for (ago, id, allowed) in rows {
            let result = check(&voters(ago), id);
            assert_eq!(result.is_ok(), allowed, "{ago:?} without {id}: {result:?}");
        }
    }

    #[test]
    fn a_refusal_says_why() {
        let quorum = voters(&[Some(0), Some(300), None, Some(60_000)]);
        let error = check(&quorum, 1).unwrap_err();
        assert!(
            error.starts_with("of the 3 voters that would remain 1 are caught up and 2 must be")
        );
        assert!(error.contains("behind or silent: 2, 3."), "{error}");
        assert_eq!(check(&voters(&[Some(0)]), 0).unwrap_err(), "it is the last voter");

        let node = |id| NodeId::new(id).unwrap();
        let other = DirectoryId::from_bytes([77; 16]).unwrap();
        let error = check_removal(&quorum, node(1), other).unwrap_err();
        assert!(error.starts_with("the voter 1 has the directory id AgIC"), "{error}");
        assert_eq!(check_removal(&quorum, node(9), other).unwrap_err(), "9 is not a voter");
    }

    #[test]
    fn a_leader_that_does_not_tell_lets_nobody_go() {
        let mut quorum = voters(&[None, Some(1), Some(1)]);
        assert!(check(&quorum, 2).unwrap_err().contains("does not report"));
        quorum.leader = NodeId::new(50).unwrap();
        assert!(check(&quorum, 2).unwrap_err().contains("does not report"));
    }

    #[test]
    fn listeners_are_written_as_in_the_configuration() {
        let listener = parse_listener("controller://[::1]:9093").unwrap();
        assert_eq!((listener.name.as_str(), listener.host.as_str()), ("CONTROLLER", "::1"));
        for wrong in ["c:9093", "://c:9093", "A B://c:9093", "A://c", "A://c:0"] {
            assert!(parse_listener(wrong).is_err(), "{wrong}");
        }
    }
}
