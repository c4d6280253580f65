//! `gregor user remove`: deletes a `KafkaUser`, or the Secret of a user that has none.

use anyhow::bail;
use clap::Args;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use operator::users;
use serde::Serialize;

use super::session::{Session, after_write};
use super::{Login, state};
use crate::output::{Out, View, moment, note};

/// A user.
#[derive(Debug, Args)]
pub(super) struct Remove {
    /// Name of the user
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RemovedView {
    name: String,
    removed: bool,
    /// Expiry of an issued certificate.
    valid_until: Option<String>,
}

impl Remove {
    pub(super) async fn run(self, session: &Session, out: &mut Out) -> anyhow::Result<()> {
        let name = &self.name;
        let kafka = session.find_kafka().await?;
        let session = match &kafka {
            Some(kafka) => session.of_users(kafka).unwrap_or_else(|_| session.clone()),
            None => session.clone(),
        };
        let (login, valid_until) = match session.find_user(name).await? {
            Some(user) => {
                state::check_cluster(&user, &session.cluster)?;
                let secret = user.status.as_ref().and_then(|status| status.secret.as_deref());
                let secret = session.find_secret(secret.unwrap_or(name)).await?;
                let uid = user.metadata.uid.clone();
                let done = session.users().delete(name, &only(uid)).await;
                done.map_err(|error| after_write(error, &format!("delete the KafkaUser {name}")))?;
                let kind = user.spec.authentication.as_ref().map(|one| one.kind);
                (kind.and_then(Login::of), secret.as_ref().and_then(state::not_after))
            }
            None => {
                let Some(stored) = session.find_secret(name).await? else {
                    bail!("there is no user {name} in namespace {}", session.namespace);
                };
                remove_secret(&session, name, &stored, kafka.is_some()).await?;
                (state::login(&stored), state::not_after(&stored))
            }
        };
        let valid_until = valid_until.map(moment);
        match (login, &valid_until) {
            (Some(Login::Tls), Some(until)) => note(&format!(
                "a copy of the certificate stays good until {until}, unless access rules deny \
                 User:CN={name}: certificates cannot be revoked"
            )),
            (Some(Login::Scram), _) => note(
                "the operator deletes the password in Kafka; connections that are open stay open",
            ),
            (Some(Login::Tls) | None, _) => {}
        }
        out.view(&RemovedView { name: self.name, removed: true, valid_until })
    }
}

/// Removes a user that an earlier version created as a Secret.
async fn remove_secret(
    session: &Session,
    name: &str,
    stored: &Secret,
    has_kafka: bool,
) -> anyhow::Result<()> {
    state::check_ours(stored, &session.cluster)?;
    let api = session.secrets();
    let what = format!("delete the Secret {name}");
    let done = api.delete(name, &only(stored.metadata.uid.clone())).await;
    done.map_err(|error| after_write(error, &what))?;
    if users::is_user(stored, &session.cluster) && !has_kafka {
        // No operator is left to remove it.
        if let Some(left) = session.find_secret(name).await? {
            let patch = Patch::Merge(users::released(&left));
            let done = api.patch(name, &PatchParams::default(), &patch).await;
            done.map_err(|error| after_write(error, &what))?;
        }
    }
    Ok(())
}

/// Only the object that was read.
fn only(uid: Option<String>) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions { uid, resource_version: None })
}

impl View for RemovedView {
    fn table(&self, _: Option<u16>) -> String {
        format!("user {} is removed\n", self.name)
    }
}
