//! `gregor user add`: makes a user, and the file with which a client logs in.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use api::Kafka;
use clap::Args;
use control::certificates::authority::Kind;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use model::ClusterId;
use operator::pki::{SecretContent, Signer, authority, names, user};
use operator::users;
use serde::Serialize;
use time::OffsetDateTime;
use tokio::time::{Instant, sleep};

use super::listener::{self, Entrance};
use super::properties::{self, Reserved, Shown};
use super::session::{Session, after_write};
use super::{Login, secret};
use crate::output::{Out, View, moment, note, optional};

/// Poll interval for the password in Kafka.
const POLL: Duration = Duration::from_millis(300);

/// The user and its authentication.
#[derive(Debug, Args)]
pub(super) struct Add {
    /// Name of the user
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    login: LoginFlags,
    /// Listener to connect to [default: the first one with this authentication]
    #[arg(long, value_name = "NAME")]
    listener: Option<String>,
    /// Client properties file to write, with the keys [default: NAME.properties]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite the file, and issue a new certificate or password for an existing user
    #[arg(long)]
    force: bool,
    /// How long to wait until the operator has set the password in Kafka
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct LoginFlags {
    /// Use a certificate of the clients CA
    #[arg(long)]
    tls: bool,
    /// Use a SCRAM-SHA-512 password
    #[arg(long)]
    scram: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AddedView {
    name: String,
    kind: Login,
    secret: String,
    file: String,
    listener: String,
    bootstrap_servers: String,
    /// Expiry of the certificate; `null` for a password.
    expires: Option<String>,
    /// The principal, for ACLs.
    principal: String,
}

impl Add {
    pub(super) async fn run(self, session: &Session, out: &mut Out) -> anyhow::Result<()> {
        secret::check_name(&self.name)?;
        let login = if self.login.tls { Login::Tls } else { Login::Scram };
        let kafka = session.kafka().await?;
        let entrance = listener::choose(&kafka, login, self.listener.as_deref())?;
        let before = session.find_secret(&self.name).await?;
        self.check_before(before.as_ref(), session, login)?;
        let trusted = trusted(session, &entrance).await?;
        let content = match login {
            Login::Tls => certificate(session, &kafka, &self.name).await?,
            Login::Scram => secret::scram_content(&self.name, &user::password()?),
        };
        let text = properties_text(&entrance, &trusted, &content)?;
        let path = self.out.clone();
        let path = path.unwrap_or_else(|| PathBuf::from(format!("{}.properties", self.name)));
        let file = Reserved::new(&path, self.force)?;
        let names = (session.cluster.as_str(), self.name.as_str());
        let made = secret::secret(names, login, content, before.as_ref());
        let stored =
            write(session, &made, before.is_some()).await.inspect_err(|_| file.give_up())?;
        file.fill(&text).context(
            "the user is made, but its file is not: use gregor user add again, with --force",
        )?;
        if login == Login::Scram {
            wait(session, &kafka, &self.name, Duration::from_secs(self.wait)).await?;
        }
        out.view(&AddedView {
            kind: login,
            secret: self.name.clone(),
            file: path.display().to_string(),
            listener: entrance.name,
            bootstrap_servers: entrance.bootstrap,
            expires: secret::not_after(&stored).map(moment),
            principal: match login {
                Login::Tls => format!("User:CN={}", self.name),
                Login::Scram => format!("User:{}", self.name),
            },
            name: self.name,
        })
    }

    /// Whether a user may be created where this Secret is.
    fn check_before(
        &self,
        before: Option<&Secret>,
        session: &Session,
        login: Login,
    ) -> anyhow::Result<()> {
        let Some(before) = before else { return Ok(()) };
        let name = &self.name;
        secret::check_ours(before, &session.cluster)?;
        if before.metadata.deletion_timestamp.is_some() {
            bail!("the user {name} is being removed: try again when it is gone");
        }
        if let Some(other) = secret::login(before).filter(|other| *other != login) {
            bail!("the user {name} logs in by {}: remove it first", other.word());
        }
        match self.force {
            true => Ok(()),
            false => bail!("the user {name} exists: use --force to give it a new {}", new(login)),
        }
    }
}

const fn new(login: Login) -> &'static str {
    match login {
        Login::Tls => "certificate",
        Login::Scram => "password",
    }
}

/// Trusted certificates for this listener, in PEM.
async fn trusted(session: &Session, entrance: &Entrance) -> anyhow::Result<String> {
    if !entrance.tls {
        return Ok(String::new());
    }
    // The Secret has also what will sign soon and what has signed before, which the status may not.
    let name = names::cert_secret(&session.cluster, Kind::Cluster);
    let stored = match entrance.own_certificate {
        true => None,
        false => session.find_secret(&name).await?,
    };
    let stored = stored.and_then(|stored| authority::trust_bundle(&secret::content(&stored)));
    let of_status = || entrance.certificates.join("\n");
    let trusted = stored.unwrap_or_else(of_status);
    match trusted.contains("BEGIN CERTIFICATE") {
        true => Ok(trusted),
        false => bail!(
            "no certificate to trust at listener {} is known: wait until the cluster is ready",
            entrance.name
        ),
    }
}

/// A key and a certificate of the clients CA.
async fn certificate(
    session: &Session,
    kafka: &Kafka,
    name: &str,
) -> anyhow::Result<SecretContent> {
    let cluster = &session.cluster;
    let mut stored = Vec::new();
    for one in
        [names::key_secret(cluster, Kind::Clients), names::cert_secret(cluster, Kind::Clients)]
    {
        let found = session.find_secret(&one).await?;
        let found = found.with_context(|| {
            format!("the Secret {one} is not there: wait until the cluster is ready")
        })?;
        stored.push(secret::content(&found));
    }
    let [keys, certificates] = stored.as_slice() else { bail!("two Secrets make an authority") };
    let signer = Signer::load(Kind::Clients, keys, certificates).with_context(|| {
        format!(
            "the Secrets {cluster}-clients-ca and {cluster}-clients-ca-cert do not fit together"
        )
    })?;
    let wishes = kafka.spec.clients_ca.clone().unwrap_or_default();
    let now = OffsetDateTime::now_utc().unix_timestamp();
    Ok(user::issue(&signer, name, wishes.validity_days(), now)?)
}

fn properties_text(
    entrance: &Entrance,
    trusted: &str,
    content: &SecretContent,
) -> anyhow::Result<String> {
    let entry = |name: &str| {
        let bytes = content.data.get(name).map(Vec::as_slice).unwrap_or_default();
        std::str::from_utf8(bytes).context("what was made is no text")
    };
    let chain = format!("{}{}", entry(user::USER_CRT)?, entry(user::CA_CRT)?);
    let shown = match content.data.contains_key(user::USER_CRT) {
        true => Shown::Certificate { chain: &chain, key: entry(user::USER_KEY)? },
        false => Shown::Login(entry(users::JAAS_CONFIG)?),
    };
    Ok(properties::text(entrance, trusted, shown))
}

async fn write(session: &Session, made: &Secret, replaces: bool) -> anyhow::Result<Secret> {
    let api = session.secrets();
    let params = PostParams::default();
    let name = made.metadata.name.clone().unwrap_or_default();
    let result = match replaces {
        true => api.replace(&name, &params, made).await,
        false => api.create(&params, made).await,
    };
    result.map_err(|error| after_write(error, &format!("write the Secret {name}")))
}

/// Waits until the operator has set the password in Kafka.
async fn wait(
    session: &Session,
    kafka: &Kafka,
    name: &str,
    patience: Duration,
) -> anyhow::Result<()> {
    let cluster = kafka.status.as_ref().and_then(|status| status.cluster_id.clone());
    let cluster = cluster.and_then(|id| ClusterId::new(&id).ok());
    let until = Instant::now() + patience;
    while let Some(cluster) = &cluster {
        let stored = session.find_secret(name).await?;
        if stored.is_some_and(|stored| users::is_given(&stored, cluster)) {
            return Ok(());
        }
        if Instant::now() > until {
            break;
        }
        sleep(POLL).await;
    }
    note("the operator has not given the password to Kafka yet; it will when the cluster is ready");
    Ok(())
}

impl View for AddedView {
    fn table(&self, _: Option<u16>) -> String {
        let Self { name, kind, secret, file, listener, bootstrap_servers, expires, principal } =
            self;
        let expires = optional(expires.as_ref().map(|time| format!(", until {time}")));
        format!(
            "user {name} logs in by {} at listener {listener} ({bootstrap_servers}){expires}\n\
             Secret {secret}, client properties in {file}; access rules know it as {principal}\n",
            kind.word()
        )
    }
}
