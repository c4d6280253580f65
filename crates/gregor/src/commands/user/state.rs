//! How users are: their `KafkaUser` resources, and the Secrets of those that have none.

use anyhow::bail;
use api::KafkaUser;
use api::names::{CLUSTER_LABEL, KIND_LABEL};
use api::user::UserAuthenticationType;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use operator::pki::{SecretContent, user};
use operator::users::{self, KIND, PASSWORD};

use super::Login;
use crate::failure::Usage;

/// The longest common name that a certificate may have.
const NAME_LETTERS_MAX: usize = 64;

/// Whether a user can be called so: as a Secret, and in a certificate.
pub(super) fn check_name(name: &str) -> anyhow::Result<()> {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let fits = ends(name.chars().next())
        && ends(name.chars().next_back())
        && name.chars().all(inside)
        && !name.contains("..")
        && name.len() <= NAME_LETTERS_MAX;
    match fits {
        true => Ok(()),
        false => Err(Usage::error(format!(
            "\"{name}\" cannot be the name of a user: at most {NAME_LETTERS_MAX} of a-z, 0-9, - and ., \
             with a letter or digit at both ends"
        ))),
    }
}

/// What is in a Secret of Kubernetes.
pub(super) fn content(secret: &Secret) -> SecretContent {
    let data = secret.data.clone().unwrap_or_default();
    SecretContent {
        data: data.into_iter().map(|(name, ByteString(bytes))| (name, bytes)).collect(),
        annotations: secret.annotations().clone(),
    }
}

/// How a `KafkaUser` is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// The operator is done with the present spec.
    Ready {
        /// How Kafka knows the user.
        username: String,
        /// The Secret with its credentials, if it has one.
        secret: Option<String>,
    },
    /// The operator cannot do what the present spec asks for.
    NotReady(String),
    /// The operator has not looked at the present spec yet.
    Unknown,
}

/// How a `KafkaUser` is, by its status.
pub(super) fn of(user: &KafkaUser) -> State {
    let Some(status) = &user.status else { return State::Unknown };
    if status.observed_generation != user.metadata.generation {
        return State::Unknown;
    }
    let holds = |kind: &str| {
        let mut all = status.conditions.iter().flatten();
        all.find(|one| one.kind.as_deref() == Some(kind) && one.status.as_deref() == Some("True"))
    };
    match (holds("Ready"), holds("NotReady"), &status.username) {
        (Some(_), None, Some(username)) => {
            State::Ready { username: username.clone(), secret: status.secret.clone() }
        }
        (_, Some(why), _) => State::NotReady(why.message.clone().unwrap_or_default()),
        _ => State::Unknown,
    }
}

/// A kind of authentication, as it is written in a spec.
pub(super) const fn word(kind: UserAuthenticationType) -> &'static str {
    match kind {
        UserAuthenticationType::Tls => "tls",
        UserAuthenticationType::TlsExternal => "tls-external",
        UserAuthenticationType::ScramSha512 => "scram-sha-512",
    }
}

/// Fails if the resource is does not belong to a user of the cluster.
pub(super) fn check_cluster(user: &KafkaUser, cluster: &str) -> anyhow::Result<()> {
    match user.labels().get(CLUSTER_LABEL) {
        Some(label) if label == cluster => Ok(()),
        other => {
            let other = other.map_or("none", String::as_str);
            bail!("the user {} belongs to the cluster {other}, not to {cluster}", user.name_any())
        }
    }
}

/// How a user logs in, from what is in the Secret.
pub(super) fn login(secret: &Secret) -> Option<Login> {
    let data = secret.data.as_ref()?;
    match (data.contains_key(user::USER_CRT), data.contains_key(PASSWORD)) {
        (true, _) => Some(Login::Tls),
        (false, true) => Some(Login::Scram),
        (false, false) => None,
    }
}

/// When the certificate of a user ends, in seconds since 1970.
pub(super) fn not_after(secret: &Secret) -> Option<i64> {
    user::not_after(&secret.data.as_ref()?.get(user::USER_CRT)?.0)
}

/// Fails if the Secret is does not belong to a user of the cluster, or is managed by a KafkaUser.
pub(super) fn check_ours(secret: &Secret, cluster: &str) -> anyhow::Result<()> {
    let name = secret.name_any();
    let label = |label: &str| secret.labels().get(label).map(String::as_str);
    if label(KIND_LABEL) != Some(KIND) {
        bail!("the Secret {name} does not belong to a user: it is left unchanged");
    }
    if label(CLUSTER_LABEL) != Some(cluster) {
        let other = label(CLUSTER_LABEL).unwrap_or("none");
        bail!("the user {name} belongs to the cluster {other}, not to {cluster}");
    }
    if secret.owner_references().iter().any(|owner| owner.kind == users::KIND) {
        bail!("the user {name} belongs to a KafkaUser resource: change or delete that");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_those_that_a_secret_and_a_certificate_can_have() {
        for good in ["a", "alice", "a-b.c1", &"x".repeat(64)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for wrong in ["", "-a", "a-", "A", "a b", "a..b", "a_b", "ä", &"x".repeat(65)] {
            assert!(check_name(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_user_is_ready_only_for_its_present_spec() {
        let user = |generation: i64, kind: &str| -> KafkaUser {
            serde_json::from_value(json!({
                "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaUser",
                "metadata": { "name": "bob", "generation": generation },
                "spec": {},
                "status": {
                    "observedGeneration": 2, "username": "bob", "secret": "s",
                    "conditions": [{ "type": kind, "status": "True", "message": "why" }],
                },
            }))
            .unwrap()
        };
        let secret = Some("s".to_owned());
        assert_eq!(of(&user(2, "Ready")), State::Ready { username: "bob".to_owned(), secret });
        assert_eq!(of(&user(3, "Ready")), State::Unknown);
        assert_eq!(of(&user(2, "NotReady")), State::NotReady("why".to_owned()));
        assert_eq!(of(&user(2, "ReconciliationPaused")), State::Unknown);
    }

    #[test]
    fn secrets_of_others_are_left_alone() {
        let own: Secret = serde_json::from_value(json!({ "metadata": {
            "name": "bob", "labels": { KIND_LABEL: KIND, CLUSTER_LABEL: "c" },
        }}))
        .unwrap();
        assert!(check_ours(&own, "c").is_ok());
        let error = |secret: &Secret, cluster| check_ours(secret, cluster).unwrap_err().to_string();
        assert!(error(&own, "d").contains("belongs to the cluster c, not to d"));
        assert!(error(&Secret::default(), "c").contains("does not belong to a user"));
        let mut owned = own.clone();
        owned.metadata.owner_references = serde_json::from_value(json!([{
            "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaUser", "name": "bob", "uid": "1",
        }]))
        .unwrap();
        assert!(error(&owned, "c").contains("belongs to a KafkaUser resource"));
    }
}
