//! `gregor fleet token`: tokens where there is no identity provider. It writes to the manager's database, so that a first
//! administrator can be made; all others can be made by the API.

use anyhow::Context as _;
use clap::{Args, Subcommand};
use fleet::local_tokens::{self, DAYS_MAX, ROLES, TokenRole};
use fleet::store::Store;

use crate::output::{Format, Grid, Out, note, optional};

pub(crate) const EXAMPLES: &str = "\
The token is printed once; the database has a hash of it.

Examples:
  gregor fleet token create ops --role admin-full > admin-token
  gregor fleet token create plane-1 --role agent --data-plane 0199a3f2b1c4
  gregor fleet token list
  gregor fleet token revoke ID";

/// Options of `gregor fleet token`.
#[derive(Debug, Args)]
pub(crate) struct Token {
    /// Database of the fleet manager: sqlite:FILE, or postgres://…
    #[arg(
        long,
        value_name = "URL",
        env = "GREGOR_FLEET_DATABASE",
        hide_env_values = true,
        default_value = "sqlite:fleet.db",
        global = true
    )]
    database: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a token and print it
    Create(Create),
    /// List tokens
    List,
    /// Revoke a token
    Revoke {
        /// Id of the token
        id: String,
    },
}

#[derive(Debug, Args)]
struct Create {
    /// Name for people
    name: String,
    /// Role
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(ROLES))]
    role: String,
    /// Data plane of an agent
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    data_plane: String,
    /// Name of a user
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    username: String,
    /// Organisation of a user
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    organisation: String,
    /// Validity in days
    #[arg(long, value_name = "DAYS", default_value_t = 90,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(DAYS_MAX)))]
    days: u32,
}

impl Token {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.context("cannot start")?.block_on(self.act())
    }

    async fn act(self) -> anyhow::Result<()> {
        let store = Store::open(&self.database).await?;
        let mut out = Out::new(Format::Table);
        match self.command {
            Command::Create(create) => {
                let subject = (create.username, create.organisation, create.data_plane);
                let role = TokenRole::read(&create.role, subject).context(
                    "an agent needs --data-plane, a user needs --username and --organisation, \
                     and an administrator none of them",
                )?;
                let mut tx = store.begin().await?;
                let name = (create.name.as_str(), "gregor fleet token");
                let created = local_tokens::create(&mut tx, name, role, create.days).await?;
                let (stored, token) =
                    created.context("the operating system provides no random numbers")?;
                tx.audit("gregor fleet token", "POST", "token", 201).await?;
                tx.commit().await?;
                note(&format!("token {} is valid for {} days", stored.id, create.days));
                out.text(&format!("{token}\n"))?;
            }
            Command::List => {
                let mut grid = Grid::new(&["ID", "NAME", "ROLE", "FOR", "VALID"]).wrap(1);
                let now = fleet::store::now_ms();
                for token in store.api_tokens().await? {
                    let (username, organisation, plane) = token.role.subject();
                    let user = username.zip(organisation).map(|(name, of)| format!("{name}@{of}"));
                    let valid = match token.revoked_at {
                        Some(_) => "revoked",
                        None if token.expires_at <= now => "expired",
                        None => "yes",
                    };
                    grid.row([
                        token.id.clone(),
                        token.name.clone(),
                        token.role.name().to_owned(),
                        optional(user.or(plane.map(str::to_owned))),
                        valid.to_owned(),
                    ]);
                }
                out.text(&grid.take(crate::output::terminal_width()))?;
            }
            Command::Revoke { id } => {
                let mut tx = store.begin().await?;
                anyhow::ensure!(tx.revoke_api_token(&id).await?, "there is no token {id}");
                tx.audit("gregor fleet token", "DELETE", "token", 204).await?;
                tx.commit().await?;
            }
        }
        store.close().await;
        Ok(())
    }
}
