//! The Secret of a user: what we write, and what we read of those that others wrote.

use std::collections::BTreeMap;

use anyhow::bail;
use api::names::{CLUSTER_LABEL, KIND_LABEL, MANAGED_BY, MANAGER};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use operator::pki::{SecretContent, user};
use operator::users::{self, FINALIZER, JAAS_CONFIG, KIND, PASSWORD};

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

/// The content of the Secret of a user with this password.
pub(super) fn scram_content(name: &str, password: &str) -> SecretContent {
    let jaas = format!(
        "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"{name}\" \
         password=\"{password}\";"
    );
    let data = [(PASSWORD, password.to_owned()), (JAAS_CONFIG, jaas)];
    let data = data.map(|(entry, text)| (entry.to_owned(), text.into_bytes()));
    SecretContent { data: data.into(), annotations: BTreeMap::new() }
}

/// The Secret of a user. What another tool has put on the one that was there before stays.
pub(super) fn secret(
    (cluster, name): (&str, &str),
    login: Login,
    content: SecretContent,
    before: Option<&Secret>,
) -> Secret {
    let mut secret = before.cloned().unwrap_or_default();
    secret.metadata.name = Some(name.to_owned());
    let part_of = format!("strimzi-{name}");
    let labels = [
        (CLUSTER_LABEL, cluster),
        (KIND_LABEL, KIND),
        ("app.kubernetes.io/name", "strimzi-user-operator"),
        ("app.kubernetes.io/instance", name),
        ("app.kubernetes.io/part-of", &part_of),
        (MANAGED_BY, MANAGER),
    ];
    for (label, value) in labels {
        // A label has 63 letters at most.
        let value: String = value.chars().take(63).collect();
        let value = value.trim_end_matches(['-', '.', '_']).to_owned();
        secret.labels_mut().insert(label.to_owned(), value);
    }
    secret.annotations_mut().extend(content.annotations);
    let finalizers = secret.finalizers_mut();
    match login {
        Login::Scram if !finalizers.iter().any(|one| one == FINALIZER) => {
            finalizers.push(FINALIZER.to_owned());
        }
        Login::Scram | Login::Tls => {}
    }
    let data = content.data.into_iter().map(|(entry, bytes)| (entry, ByteString(bytes)));
    secret.data = Some(data.collect());
    secret.type_ = Some("Opaque".to_owned());
    secret
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

/// Fails if the Secret is not that of a user of the cluster, or is looked after by a KafkaUser.
pub(super) fn check_ours(secret: &Secret, cluster: &str) -> anyhow::Result<()> {
    let name = secret.name_any();
    let label = |label: &str| secret.labels().get(label).map(String::as_str);
    if label(KIND_LABEL) != Some(KIND) {
        bail!("the Secret {name} is not that of a user: it is left alone");
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
    fn a_user_with_a_password_is_held_until_the_operator_lets_go() {
        let content = scram_content("bob", "secret");
        let jaas = String::from_utf8(content.data[JAAS_CONFIG].clone()).unwrap();
        assert!(jaas.contains("required username=\"bob\" password=\"secret\";"), "{jaas}");
        let first = secret(("c", "bob"), Login::Scram, content, None);
        assert_eq!(first.finalizers(), [FINALIZER]);
        assert!(users::is_user(&first, "c"));
        assert_eq!(login(&first), Some(Login::Scram));
        assert_eq!(first.labels()["app.kubernetes.io/part-of"], "strimzi-bob");
        // Again, with what it remembers.
        let mut before = first.clone();
        before.annotations_mut().insert(users::MARK.to_owned(), "x".to_owned());
        let again =
            secret(("c", "bob"), Login::Scram, scram_content("bob", "other"), Some(&before));
        assert_eq!(again.annotations()[users::MARK], "x");
        assert_eq!(again.finalizers(), [FINALIZER]);
        assert_eq!(again.data.unwrap()[PASSWORD].0, b"other");
    }

    #[test]
    fn secrets_of_others_are_left_alone() {
        let own = secret(("c", "bob"), Login::Tls, SecretContent::default(), None);
        assert!(check_ours(&own, "c").is_ok());
        let error = |secret: &Secret, cluster| check_ours(secret, cluster).unwrap_err().to_string();
        assert!(error(&own, "d").contains("belongs to the cluster c, not to d"));
        assert!(error(&Secret::default(), "c").contains("not that of a user"));
        let mut owned = own.clone();
        owned.metadata.owner_references = serde_json::from_value(json!([{
            "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaUser", "name": "bob", "uid": "1",
        }]))
        .unwrap();
        assert!(error(&owned, "c").contains("belongs to a KafkaUser resource"));
    }
}
