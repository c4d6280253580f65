//! `gregor kafka`: looking at a cluster, and the few changes that a person makes by hand.
//!
//! Every command reads with [`kafka_admin`], turns what it read into views of its own (whose JSON is a
//! contract with scripts) and prints those. It must not leave out silently what it could not read:
//! that is a line on stderr and an exit code.

mod access;
mod configs;
pub(crate) mod connection;
mod describe;
mod elect_leaders;
mod features;
mod groups;
mod health;
mod log_dirs;
mod offsets;
mod quorum;
mod reassignments;
mod topics;
mod unregister;
mod voters;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use kafka_admin::Outcome;
use model::{TopicName, TopicPartition};

use self::connection::{Connection, Session};
use crate::failure::{EXIT_CODES, OutcomeUnknown, Usage};
use crate::output::{Format, Out};

/// A command and the connection options.
#[derive(Debug, Args)]
#[command(after_long_help = after_help())]
pub(crate) struct Kafka {
    #[command(flatten)]
    connection: Connection,
    /// Output format
    #[arg(short, long, global = true, value_name = "FORMAT", default_value = "table")]
    #[arg(help_heading = "Connection")]
    output: Format,
    #[command(subcommand)]
    command: Command,
}

fn after_help() -> String {
    format!(
        "Examples:\n  \
         gregor kafka describe --bootstrap kafka:9092\n  \
         gregor kafka quorum --controllers c0:9093,c1:9093 --ca ca.pem --cert me.pem --key me.key\n  \
         GREGOR_BOOTSTRAP=kafka:9092 gregor kafka topics --unhealthy\n\n{EXIT_CODES}"
    )
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show a summary of the cluster: nodes, quorum, unhealthy partitions
    #[command(after_help = "Example:\n  gregor kafka describe --bootstrap kafka:9092")]
    Describe,
    /// Show the controller quorum: leader, voters, observers and their lag
    #[command(after_help = "Example:\n  gregor kafka quorum --controllers c0:9093,c1:9093")]
    Quorum,
    /// Show topics or partitions, and their problems
    #[command(after_help = topics::EXAMPLE)]
    Topics(topics::Topics),
    /// Show or change settings of a node, a topic or all nodes
    #[command(after_help = configs::EXAMPLE)]
    Configs(configs::Configs),
    /// Show finalized and supported feature levels, or upgrade one
    #[command(after_help = features::EXAMPLE)]
    Features(features::Features),
    /// Show log directories of brokers: content and free space
    #[command(after_help = "Example:\n  gregor kafka log-dirs --node 100 --node 101")]
    LogDirs(log_dirs::LogDirs),
    /// List or cancel partition reassignments
    #[command(after_help = reassignments::EXAMPLE)]
    Reassignments(reassignments::Reassignments),
    /// Elect preferred leaders of partitions, or any leader at all
    #[command(after_help = elect_leaders::EXAMPLE)]
    ElectLeaders(elect_leaders::ElectLeaders),
    /// Show the first and last offsets of partitions
    #[command(after_help = "Example:\n  gregor kafka offsets orders payments")]
    Offsets(offsets::Offsets),
    /// Manage consumer groups: list, describe with lag, reset offsets, delete
    #[command(after_help = groups::EXAMPLE)]
    Groups(groups::Groups),
    /// Add a controller to the voters of the quorum
    #[command(after_help = voters::ADD_EXAMPLE, after_long_help = voters::add_help())]
    AddController(voters::AddController),
    /// Remove a voter from the quorum
    #[command(after_help = voters::REMOVE_EXAMPLE, after_long_help = voters::remove_help())]
    RemoveController(voters::RemoveController),
    /// Unregister a broker that was removed permanently
    #[command(after_help = "Example:\n  gregor kafka unregister-broker 103")]
    UnregisterBroker(unregister::UnregisterBroker),
    /// List ACLs
    #[command(after_help = "Example:\n  gregor kafka acls -o json")]
    Acls,
    /// List users with SCRAM credentials
    #[command(after_help = "Example:\n  gregor kafka users")]
    Users,
}

impl Kafka {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let mut out = Out::new(self.output);
        let session = self.connection.session(&|name| std::env::var(name).ok())?;
        // One connection at a time does all the work there is.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("cannot start the runtime")?;
        runtime.block_on(self.command.run(&session, &mut out))
    }
}

impl Command {
    async fn run(self, session: &Session, out: &mut Out) -> anyhow::Result<()> {
        match self {
            Command::Describe => describe::run(session, out).await,
            Command::Quorum => quorum::run(session, out).await,
            Command::Topics(topics) => topics.run(session, out).await,
            Command::Configs(configs) => configs.run(session, out).await,
            Command::Features(features) => features.run(session, out).await,
            Command::LogDirs(log_dirs) => log_dirs.run(session, out).await,
            Command::Reassignments(reassignments) => reassignments.run(session, out).await,
            Command::ElectLeaders(elect) => elect.run(session, out).await,
            Command::Offsets(offsets) => offsets.run(session, out).await,
            Command::Groups(groups) => groups.run(session, out).await,
            Command::AddController(add) => add.run(session, out).await,
            Command::RemoveController(remove) => remove.run(session, out).await,
            Command::UnregisterBroker(unregister) => unregister.run(session, out).await,
            Command::Acls => access::acls(session, out).await,
            Command::Users => access::users(session, out).await,
        }
    }
}

/// Parses `TOPIC-PARTITION`.
fn parse_partition(text: &str) -> Result<TopicPartition, String> {
    let wrong = || format!("\"{text}\" is not TOPIC-PARTITION, such as orders-0");
    let (topic, number) = text.rsplit_once('-').ok_or_else(wrong)?;
    // A sign would parse as well.
    let digits = Some(number).filter(|number| number.bytes().all(|b| b.is_ascii_digit()));
    let number = digits.and_then(|digits| digits.parse::<i32>().ok());
    let topic = TopicName::new(topic).map_err(|_| wrong())?;
    Ok(TopicPartition::new(topic, number.ok_or_else(wrong)?))
}

/// Marks the error of a change that may have happened, for the exit code.
fn after_change(error: anyhow::Error, outcome: Outcome, what: &str) -> anyhow::Error {
    match outcome {
        Outcome::NotDone => error,
        Outcome::Unknown => error.context(OutcomeUnknown(format!("it is unknown whether {what}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_written_like_their_directories() {
        assert_eq!(parse_partition("a-b-12").unwrap().to_string(), "a-b-12");
        for wrong in ["orders", "orders-", "-1", "orders-+1", "orders-x", "a b-1", ""] {
            let error = parse_partition(wrong).unwrap_err();
            assert!(error.contains("is not TOPIC-PARTITION"), "{wrong}: {error}");
        }
    }
}
