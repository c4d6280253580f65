//! `gregor user add`: creates a `KafkaUser`, and the file with which a client logs in.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use api::names::CLUSTER_LABEL;
use api::user::{UserAuthentication, UserAuthenticationType};
use api::{KafkaUser, KafkaUserSpec};
use clap::Args;
use control::annotations::Annotation;
use control::certificates::authority::Kind;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams, PostParams};
use operator::pki::{authority, names, user};
use operator::users;
use serde::Serialize;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::listener::{self, Entrance};
use super::properties::{self, Reserved, Shown};
use super::session::{Session, after_write};
use super::state::content;
use super::{Login, state};
use crate::output::{Out, View, moment, optional};

/// Poll interval for the status of the user.
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
    /// How long to wait until the user is ready
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
        state::check_name(&self.name)?;
        let login = if self.login.tls { Login::Tls } else { Login::Scram };
        let kafka = session.kafka().await?;
        let session = session.of_users(&kafka)?;
        let entrance = listener::choose(&kafka, login, self.listener.as_deref())?;
        let before = session.find_user(&self.name).await?;
        self.check_before(before.as_ref(), &session, login).await?;
        let trusted = trusted(&session, &entrance).await?;
        let path = self.out.clone();
        let path = path.unwrap_or_else(|| PathBuf::from(format!("{}.properties", self.name)));
        let file = Reserved::new(&path, self.force)?;
        let made = self.write(&session, before, login).await.inspect_err(|_| file.give_up())?;
        let ready = self.wait(&session, &made).await.inspect_err(|_| file.give_up())?;
        let text = properties_text(&entrance, &trusted, &ready.secret)?;
        file.fill(&text).context(
            "the user is ready, but its file is not written: use gregor user add again, with --force",
        )?;
        out.view(&AddedView {
            kind: login,
            secret: ready.secret.name_any(),
            file: path.display().to_string(),
            listener: entrance.name,
            bootstrap_servers: entrance.bootstrap,
            expires: state::not_after(&ready.secret).map(moment),
            principal: format!("User:{}", ready.username),
            name: self.name,
        })
    }

    /// Whether a user may be created, or get something new.
    async fn check_before(
        &self,
        before: Option<&KafkaUser>,
        session: &Session,
        login: Login,
    ) -> anyhow::Result<()> {
        let name = &self.name;
        let Some(before) = before else {
            // One that an earlier version created as a Secret: the KafkaUser takes it over, with its password.
            let Some(secret) = session.find_secret(name).await? else { return Ok(()) };
            state::check_ours(&secret, &session.cluster)?;
            return match state::login(&secret).filter(|other| *other != login) {
                Some(other) => {
                    bail!("the user {name} logs in by {}: remove it first", other.word())
                }
                None => Ok(()),
            };
        };
        state::check_cluster(before, &session.cluster)?;
        if before.metadata.deletion_timestamp.is_some() {
            bail!("the user {name} is being removed: retry when it is gone");
        }
        let other = before.spec.authentication.as_ref().map(|one| one.kind);
        if other != Some(login.kind()) {
            let other = other.map_or("nothing that is managed here", state::word);
            bail!("the user {name} logs in by {other}: remove it first");
        }
        match self.force {
            true => Ok(()),
            false => bail!("the user {name} exists: use --force to give it a new {}", new(login)),
        }
    }

    /// Creates the user, or asks for something new. Returned is the Secret that is no longer good.
    async fn write(
        &self,
        session: &Session,
        before: Option<KafkaUser>,
        login: Login,
    ) -> anyhow::Result<Option<Secret>> {
        let Some(before) = before else {
            let made = resource(&session.cluster, &self.name, login);
            let done = session.users().create(&PostParams::default(), &made).await;
            let what = format!("create the KafkaUser {}", self.name);
            done.map_err(|error| after_write(error, &what))?;
            return Ok(None);
        };
        let name = before.status.and_then(|status| status.secret);
        let name = name.with_context(|| format!("the user {} is not ready yet", self.name))?;
        let asked =
            json!({ "metadata": { "annotations": { Annotation::ForceRenew.name(): "true" } } });
        let params = PatchParams::default();
        let done = session.secrets().patch(&name, &params, &Patch::Merge(&asked)).await;
        let what = format!("ask for new credentials in the Secret {name}");
        Ok(Some(done.map_err(|error| after_write(error, &what))?))
    }

    /// Waits until the operator is done.
    async fn wait(&self, session: &Session, former: &Option<Secret>) -> anyhow::Result<Ready> {
        let name = &self.name;
        let until = Instant::now() + Duration::from_secs(self.wait);
        loop {
            let found = session.find_user(name).await?;
            let found = found.with_context(|| format!("the KafkaUser {name} was deleted"))?;
            let state = state::of(&found);
            if let state::State::Ready { username, secret } = &state
                && let Some(secret) = secret
                && let Some(secret) = session.find_secret(secret).await?
                && former.as_ref().is_none_or(|former| secret.data != former.data)
            {
                return Ok(Ready { username: username.clone(), secret });
            }
            if Instant::now() > until {
                match state {
                    state::State::NotReady(why) => bail!("the user {name} is not ready: {why}"),
                    state::State::Ready { .. } | state::State::Unknown => bail!(
                        "the user {name} is not ready yet: check it with gregor user list, and \
                         when it is ready write its file with gregor user add {name} --force"
                    ),
                }
            }
            sleep(POLL).await;
        }
    }
}

/// A user that can log in.
struct Ready {
    username: String,
    secret: Secret,
}

const fn new(login: Login) -> &'static str {
    match login {
        Login::Tls => "certificate",
        Login::Scram => "password",
    }
}

/// The resource of a user.
fn resource(cluster: &str, name: &str, login: Login) -> KafkaUser {
    let authentication = UserAuthentication {
        kind: login.kind(),
        password: None,
        validity_days: None,
        renewal_days: None,
        rest: api::Rest::default(),
    };
    let spec = KafkaUserSpec { authentication: Some(authentication), ..KafkaUserSpec::default() };
    let mut user = KafkaUser::new(name, spec);
    user.labels_mut().insert(CLUSTER_LABEL.to_owned(), cluster.to_owned());
    user
}

impl Login {
    const fn kind(self) -> UserAuthenticationType {
        match self {
            Self::Tls => UserAuthenticationType::Tls,
            Self::Scram => UserAuthenticationType::ScramSha512,
        }
    }
}

/// What a client has to trust at this listener, in PEM.
async fn trusted(session: &Session, entrance: &Entrance) -> anyhow::Result<String> {
    if !entrance.tls {
        return Ok(String::new());
    }
    // The Secret has also what will sign soon and what has signed before, which the status may not.
    let name = names::cert_secret(&session.cluster, Kind::Cluster);
    let stored = match entrance.own_certificate {
        true => None,
        false => session.find_cluster_secret(&name).await?,
    };
    let stored = stored.and_then(|stored| authority::trust_bundle(&content(&stored)));
    let of_status = || entrance.certificates.join("\n");
    let trusted = stored.unwrap_or_else(of_status);
    match trusted.contains("BEGIN CERTIFICATE") {
        true => Ok(trusted),
        false => bail!(
            "the certificate of listener {} is not known yet: wait until the cluster is ready",
            entrance.name
        ),
    }
}

fn properties_text(entrance: &Entrance, trusted: &str, secret: &Secret) -> anyhow::Result<String> {
    let content = content(secret);
    let entry = |name: &str| {
        let bytes = content.data.get(name).map(Vec::as_slice).unwrap_or_default();
        std::str::from_utf8(bytes).context("the Secret of the user does not contain text")
    };
    let chain = format!("{}{}", entry(user::USER_CRT)?, entry(user::CA_CRT)?);
    let shown = match content.data.contains_key(user::USER_CRT) {
        true => Shown::Certificate { chain: &chain, key: entry(user::USER_KEY)? },
        false => Shown::Login(entry(users::JAAS_CONFIG)?),
    };
    Ok(properties::text(entrance, trusted, shown))
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
