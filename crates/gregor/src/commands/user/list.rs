//! `gregor user list`: the users of a cluster.

use anyhow::Context as _;
use api::Kafka;
use api::names::{CLUSTER_LABEL, KIND_LABEL};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::ListParams;
use operator::users::KIND;
use serde::Serialize;

use super::session::Session;
use super::{Login, listener, secret};
use crate::output::{Grid, Out, View, list, moment, note, optional};

/// A user, as it is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct UserView {
    name: String,
    /// How it logs in; `null` for a Secret that does not say.
    kind: Option<Login>,
    /// When its certificate ends.
    expires: Option<String>,
    /// The listeners that take its login.
    listeners: Vec<String>,
    /// Whether it is on its way out.
    removing: bool,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct UsersView(Vec<UserView>);

pub(super) async fn run(session: &Session, out: &mut Out) -> anyhow::Result<()> {
    let kafka = session.find_kafka().await?;
    if kafka.is_none() {
        note(&format!("there is no Kafka {} in namespace {}", session.cluster, session.namespace));
    }
    let labels = format!("{KIND_LABEL}={KIND},{CLUSTER_LABEL}={}", session.cluster);
    let found = session.secrets().list(&ListParams::default().labels(&labels)).await;
    let found = found.context("cannot list the Secrets of users")?;
    if found.items.is_empty() {
        note("there are no users");
    }
    out.view(&UsersView::new(&found.items, kafka.as_ref()))
}

impl UsersView {
    fn new(secrets: &[Secret], kafka: Option<&Kafka>) -> Self {
        let view = |one: &Secret| {
            let kind = secret::login(one);
            let listeners = kafka.zip(kind).map(|(kafka, kind)| listener::fitting(kafka, kind));
            UserView {
                name: one.name_any(),
                kind,
                expires: secret::not_after(one).map(moment),
                listeners: listeners.unwrap_or_default(),
                removing: one.metadata.deletion_timestamp.is_some(),
            }
        };
        let mut users: Vec<_> = secrets.iter().map(view).collect();
        users.sort_by(|a, b| a.name.cmp(&b.name));
        Self(users)
    }
}

impl View for UsersView {
    fn table(&self, width: Option<u16>) -> String {
        let mut grid = Grid::new(&["NAME", "KIND", "EXPIRES", "LISTENER"]);
        for user in &self.0 {
            let kind = optional(user.kind.map(Login::word));
            let kind = if user.removing { format!("{kind}, being removed") } else { kind };
            let expires = optional(user.expires.as_ref());
            grid.row([user.name.clone(), kind, expires, list(&user.listeners)]);
        }
        grid.take(width)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::listener::tests::kafka;
    use super::*;

    #[test]
    fn users_are_shown_with_the_listeners_that_take_them() {
        let sasl = json!([{ "name": "sasl", "port": 9095, "type": "internal", "tls": false,
            "authentication": { "type": "scram-sha-512" } }]);
        let kafka = kafka(&sasl, &json!([]));
        let bob = secret::secret(
            ("c", "bob"),
            Login::Scram,
            secret::scram_content("bob", "hidden"),
            None,
        );
        let mut odd = bob.clone();
        odd.metadata.name = Some("a-odd".to_owned());
        odd.data = None;
        let view = UsersView::new(&[bob, odd], Some(&kafka));
        let expected = "NAME   KIND           EXPIRES  LISTENER\n\
                        a-odd  -              -        -\n\
                        bob    scram-sha-512  -        sasl\n";
        assert_eq!(view.table(None), expected);
        let json = serde_json::to_value(&view).unwrap();
        assert_eq!(json[1]["kind"], "scram-sha-512");
        assert!(!json.to_string().contains("hidden"));
    }
}
