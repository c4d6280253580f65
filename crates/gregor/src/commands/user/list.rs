//! `gregor user list`: the users of a cluster.

use std::collections::BTreeMap;

use anyhow::Context as _;
use api::names::{CLUSTER_LABEL, KIND_LABEL};
use api::{Kafka, KafkaUser};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::ListParams;
use operator::users::KIND;
use serde::Serialize;

use super::session::Session;
use super::{Login, listener, state};
use crate::output::{Grid, Out, View, list, moment, note, optional};

/// A user, as it is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct UserView {
    name: String,
    /// How it logs in; `null` if that is not managed here.
    kind: Option<&'static str>,
    /// Whether it is as its `KafkaUser` asks for; `null` if the operator has not looked at it yet, or if it has none.
    ready: Option<bool>,
    /// Why it is not ready.
    message: Option<String>,
    /// When its certificate ends.
    expires: Option<String>,
    /// The listeners that take its login.
    listeners: Vec<String>,
    /// Whether it has a `KafkaUser`. Without one it is a Secret that an earlier version created.
    resource: bool,
    /// Whether it is leaving.
    removing: bool,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct UsersView(Vec<UserView>);

pub(super) async fn run(session: &Session, out: &mut Out) -> anyhow::Result<()> {
    let kafka = session.find_kafka().await?;
    let session = match &kafka {
        Some(kafka) => session.of_users(kafka).unwrap_or_else(|error| {
            note(&format!("{error:#}"));
            session.clone()
        }),
        None => {
            let (cluster, namespace) = (&session.cluster, &session.namespace);
            note(&format!("there is no Kafka {cluster} in namespace {namespace}"));
            session.clone()
        }
    };
    let of_cluster = format!("{CLUSTER_LABEL}={}", session.cluster);
    let users = session.users().list(&ListParams::default().labels(&of_cluster)).await;
    let users = users.context("cannot list the KafkaUsers")?;
    let labels = format!("{KIND_LABEL}={KIND},{of_cluster}");
    let secrets = session.secrets().list(&ListParams::default().labels(&labels)).await;
    let secrets = secrets.context("cannot list the Secrets of users")?;
    let view = UsersView::new(&users.items, secrets.items, kafka.as_ref());
    if view.0.is_empty() {
        note("there are no users");
    }
    out.view(&view)
}

impl UsersView {
    fn new(users: &[KafkaUser], secrets: Vec<Secret>, kafka: Option<&Kafka>) -> Self {
        let mut secrets: BTreeMap<_, _> =
            secrets.into_iter().map(|secret| (secret.name_any(), secret)).collect();
        let mut all: Vec<_> = users
            .iter()
            .map(|user| {
                let secret = user.status.as_ref().and_then(|status| status.secret.clone());
                let secret = secrets.remove(&secret.unwrap_or_else(|| user.name_any()));
                UserView::of_resource(user, secret.as_ref(), kafka)
            })
            .collect();
        let is_free =
            |secret: &&Secret| !secret.owner_references().iter().any(|owner| owner.kind == KIND);
        let rest = secrets.values().filter(is_free);
        all.extend(rest.map(|secret| UserView::of_secret(secret, kafka)));
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Self(all)
    }
}

impl UserView {
    fn of_resource(user: &KafkaUser, secret: Option<&Secret>, kafka: Option<&Kafka>) -> Self {
        let kind = user.spec.authentication.as_ref().map(|one| one.kind);
        let (ready, message) = match state::of(user) {
            state::State::Ready { .. } => (Some(true), None),
            state::State::NotReady(why) => (Some(false), Some(why)),
            state::State::Unknown => (None, None),
        };
        Self {
            name: user.name_any(),
            kind: kind.map(state::word),
            ready,
            message,
            expires: secret.and_then(state::not_after).map(moment),
            listeners: listeners(kafka, kind.and_then(Login::of)),
            resource: true,
            removing: user.metadata.deletion_timestamp.is_some(),
        }
    }

    fn of_secret(secret: &Secret, kafka: Option<&Kafka>) -> Self {
        let kind = state::login(secret);
        Self {
            name: secret.name_any(),
            kind: kind.map(Login::word),
            ready: None,
            message: None,
            expires: state::not_after(secret).map(moment),
            listeners: listeners(kafka, kind),
            resource: false,
            removing: secret.metadata.deletion_timestamp.is_some(),
        }
    }
}

fn listeners(kafka: Option<&Kafka>, kind: Option<Login>) -> Vec<String> {
    let fitting = kafka.zip(kind).map(|(kafka, kind)| listener::fitting(kafka, kind));
    fitting.unwrap_or_default()
}

impl View for UsersView {
    fn table(&self, width: Option<u16>) -> String {
        let mut grid = Grid::new(&["NAME", "KIND", "READY", "EXPIRES", "LISTENER", "MESSAGE"]);
        for user in &self.0 {
            let ready = match (user.removing, user.resource, user.ready) {
                (true, _, _) => "being removed",
                (false, false, _) => "Secret only",
                (false, true, Some(true)) => "yes",
                (false, true, Some(false)) => "no",
                (false, true, None) => "-",
            };
            grid.row([
                user.name.clone(),
                optional(user.kind),
                ready.to_owned(),
                optional(user.expires.as_ref()),
                list(&user.listeners),
                optional(user.message.as_ref()),
            ]);
        }
        grid.take(width)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::listener::tests::kafka;
    use super::*;

    fn user(name: &str, kind: &str, status: serde_json::Value) -> KafkaUser {
        serde_json::from_value(json!({
            "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaUser",
            "metadata": { "name": name, "generation": 1 },
            "spec": { "authentication": { "type": kind } },
            "status": status,
        }))
        .unwrap()
    }

    fn secret(name: &str, owner: &str) -> Secret {
        let owner = json!([{ "apiVersion": "v1", "kind": owner, "name": name, "uid": "1" }]);
        serde_json::from_value(json!({
            "metadata": { "name": name, "ownerReferences": owner },
            "data": { "password": "aGlkZGVu" },
        }))
        .unwrap()
    }

    #[test]
    fn users_are_shown_with_the_listeners_that_take_them() {
        let sasl = json!([{ "name": "sasl", "port": 9095, "type": "internal", "tls": false,
            "authentication": { "type": "scram-sha-512" } }]);
        let kafka = kafka(&sasl, &json!([]));
        let status = |kind: &str| {
            json!({
                "observedGeneration": 1, "username": "u",
                "conditions": [{ "type": kind, "status": "True", "message": "why" }],
            })
        };
        let users = [
            user("bob", "scram-sha-512", status("Ready")),
            user("eve", "tls-external", status("NotReady")),
            user("new", "tls", json!(null)),
        ];
        let secrets = vec![secret("bob", KIND), secret("left", KIND), secret("old", "Other")];
        let view = UsersView::new(&users, secrets, Some(&kafka));
        let expected = "\
NAME  KIND           READY        EXPIRES  LISTENER  MESSAGE
bob   scram-sha-512  yes          -        sasl      -
eve   tls-external   no           -        -         why
new   tls            -            -        -         -
old   scram-sha-512  Secret only  -        sasl      -
";
        assert_eq!(view.table(None), expected);
        assert!(!serde_json::to_value(&view).unwrap().to_string().contains("hidden"));
    }
}
