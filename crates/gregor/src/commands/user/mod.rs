//! `gregor user`: users of a cluster, who log in by a certificate or by a password.
//!
//! A user is a `KafkaUser`. The commands read and write Kubernetes only: the operator creates the Secret and changes
//! Kafka. Users that earlier versions created as Secrets are listed and removed too.

mod add;
mod list;
mod listener;
mod properties;
mod remove;
mod session;
mod state;

use anyhow::Context as _;
use api::user::UserAuthenticationType;
use clap::{Args, Subcommand};

use self::session::Target;
use crate::failure::EXIT_CODES;
use crate::output::{Format, Out};

/// Users of a cluster.
#[derive(Debug, Args)]
#[command(after_long_help = after_help())]
pub(crate) struct User {
    #[command(flatten)]
    target: Target,
    /// Output format
    #[arg(short, long, global = true, value_name = "FORMAT", default_value = "table")]
    output: Format,
    #[command(subcommand)]
    command: Command,
}

fn after_help() -> String {
    format!(
        "Examples:\n  \
         gregor user add alice --tls --cluster my-cluster\n  \
         gregor user add bob --scram --cluster my-cluster -n kafka --out bob.properties\n  \
         gregor user list --cluster my-cluster -o json\n  \
         gregor user remove alice --cluster my-cluster\n\n{EXIT_CODES}"
    )
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a KafkaUser, and a properties file for Java clients
    #[command(after_help = "Example:\n  gregor user add alice --tls --cluster my-cluster")]
    Add(add::Add),
    /// List the users of a cluster
    #[command(after_help = "Example:\n  gregor user list --cluster my-cluster")]
    List,
    /// Delete a user
    #[command(after_help = "Example:\n  gregor user remove alice --cluster my-cluster")]
    Remove(remove::Remove),
}

impl User {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let mut out = Out::new(self.output);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("cannot start the runtime")?;
        runtime.block_on(async {
            let session = self.target.session().await?;
            match self.command {
                Command::Add(add) => add.run(&session, &mut out).await,
                Command::List => list::run(&session, &mut out).await,
                Command::Remove(remove) => remove.run(&session, &mut out).await,
            }
        })
    }
}

/// Authentication of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
enum Login {
    /// With a certificate.
    Tls,
    /// With a password.
    #[serde(rename = "scram-sha-512")]
    Scram,
}

impl Login {
    /// The one of a kind of authentication, if it has credentials.
    const fn of(kind: UserAuthenticationType) -> Option<Self> {
        match kind {
            UserAuthenticationType::Tls => Some(Self::Tls),
            UserAuthenticationType::ScramSha512 => Some(Self::Scram),
            UserAuthenticationType::TlsExternal => None,
        }
    }

    /// The word that listeners and tables use.
    const fn word(self) -> &'static str {
        match self {
            Login::Tls => "tls",
            Login::Scram => "scram-sha-512",
        }
    }
}
