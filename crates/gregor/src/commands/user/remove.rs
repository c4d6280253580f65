//! `gregor user remove`: takes a user away, as far as that can be done.

use anyhow::bail;
use clap::Args;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use operator::users;
use serde::Serialize;

use super::session::{Session, after_write};
use super::{Login, secret};
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
        let Some(stored) = session.find_secret(name).await? else {
            bail!("there is no user {name} in namespace {}", session.namespace);
        };
        secret::check_ours(&stored, &session.cluster)?;
        let api = session.secrets();
        let uid = stored.metadata.uid.clone();
        let params =
            DeleteParams::default().preconditions(Preconditions { uid, resource_version: None });
        let what = format!("delete the Secret {name}");
        api.delete(name, &params).await.map_err(|error| after_write(error, &what))?;
        if users::is_user(&stored, &session.cluster) && session.find_kafka().await?.is_none() {
            // Nobody is left who would let go of it.
            if let Some(left) = session.find_secret(name).await? {
                let patch = Patch::Merge(users::released(&left));
                let done = api.patch(name, &PatchParams::default(), &patch).await;
                done.map_err(|error| after_write(error, &what))?;
            }
        }
        let valid_until = secret::not_after(&stored).map(moment);
        match (secret::login(&stored), &valid_until) {
            (Some(Login::Tls), Some(until)) => note(&format!(
                "a copy of the certificate stays good until {until}, unless access rules deny \
                 User:CN={name}: certificates cannot be called back"
            )),
            (Some(Login::Scram), _) => note(
                "the operator takes the password out of Kafka and the Secret goes after that; \
                 connections that are open stay open",
            ),
            (Some(Login::Tls) | None, _) => {}
        }
        out.view(&RemovedView { name: self.name, removed: true, valid_until })
    }
}

impl View for RemovedView {
    fn table(&self, _: Option<u16>) -> String {
        format!("user {} is removed\n", self.name)
    }
}
