//! Facts of the Secrets of users. Passwords and keys stay behind.

use std::collections::BTreeMap;

use api::names::CLUSTER_LABEL;
use control::users::{Owner, Stored};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use objects::hash;

use super::{FINALIZER, JAAS_CONFIG, KIND, PASSWORD};
use crate::pki::user;

/// A Secret, as the watch shows it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) uid: String,
    pub(super) version: String,
    pub(super) stored: Stored,
}

/// What is kept of a Secret.
pub(super) fn found(object: DynamicObject) -> Found {
    let metadata = object.metadata.clone();
    let read = serde_json::to_value(object).and_then(serde_json::from_value::<Secret>);
    let secret = read.unwrap_or_else(|_| Secret { metadata, ..Secret::default() });
    Found {
        uid: secret.uid().unwrap_or_default(),
        version: secret.resource_version().unwrap_or_default(),
        stored: stored(&secret),
    }
}

fn stored(secret: &Secret) -> Stored {
    let empty = BTreeMap::new();
    let data = secret.data.as_ref().unwrap_or(&empty);
    let entry = |name: &str| data.get(name).map(|bytes| bytes.0.as_slice());
    let password = entry(PASSWORD).and_then(|bytes| std::str::from_utf8(bytes).ok());
    let password = password.filter(|text| !text.is_empty());
    let login = entry(JAAS_CONFIG).and_then(|bytes| std::str::from_utf8(bytes).ok());
    let filled = data.iter().filter(|(_, ByteString(bytes))| !bytes.is_empty());
    let namespace = secret.namespace().unwrap_or_default();
    Stored {
        cluster: secret.labels().get(CLUSTER_LABEL).cloned(),
        owner: owner(secret),
        is_deleting: secret.metadata.deletion_timestamp.is_some(),
        is_held: secret.finalizers().iter().any(|one| one == FINALIZER),
        labels: secret.labels().clone(),
        annotations: secret.annotations().clone(),
        entries: filled.map(|(name, _)| name.clone()).collect(),
        authority: entry(user::CA_CRT).map(hash::long),
        not_after: entry(user::USER_CRT).and_then(user::not_after),
        password: password.map(|text| print(&namespace, &secret.name_any(), text)),
        login: login.zip(password).and_then(|(login, password)| who(login, password)),
    }
}

fn owner(secret: &Secret) -> Owner {
    let of_user = secret.owner_references().iter().find(|owner| owner.kind == KIND);
    match (of_user, secret.owner_references().first()) {
        (Some(user), _) => Owner::User(user.name.clone(), user.uid.clone()),
        (None, Some(other)) => Owner::Another(format!("{} {}", other.kind, other.name)),
        (None, None) => Owner::Unowned,
    }
}

/// A fingerprint of the password of a user, salted with the place of its Secret.
pub(super) fn print(namespace: &str, secret: &str, password: &str) -> String {
    hash::long(format!("{namespace}\0{secret}\0{password}").as_bytes())
}

/// What a Java client logs in with.
pub(super) fn login(user: &str, password: &str) -> String {
    let password = password.replace('\\', "\\\\").replace('"', "\\\"");
    format!(
        "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"{user}\" \
         password=\"{password}\";"
    )
}

/// Who logs in with this text, if it has this password.
fn who(text: &str, password: &str) -> Option<String> {
    let (_, rest) = text.split_once("username=\"")?;
    let (user, _) = rest.split_once('"')?;
    (text == login(user, password)).then(|| user.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(metadata: serde_json::Value, entries: &[(&str, &str)]) -> Stored {
        let data = entries
            .iter()
            .map(|(name, text)| ((*name).to_owned(), ByteString(text.as_bytes().to_vec())));
        stored(&Secret {
            metadata: serde_json::from_value(metadata).unwrap(),
            data: Some(data.collect()),
            ..Secret::default()
        })
    }

    #[test]
    fn no_password_and_no_key_is_kept() {
        let entries = [
            ("password", "open sesame"),
            ("sasl.jaas.config", &login("bob", "open sesame")),
            ("user.key", "THE KEY"),
            ("user.password", "open sesame"),
        ];
        let kept = of(json!({ "name": "bob", "namespace": "ns" }), &entries);
        assert_eq!(kept.login.as_deref(), Some("bob"));
        let shown = format!("{kept:?}");
        assert!(!shown.contains("sesame") && !shown.contains("THE KEY"), "{shown}");
    }

    #[test]
    fn fingerprints_differ_by_password_and_by_user() {
        let print = |name: &str, password: &str| {
            of(json!({ "name": name, "namespace": "ns" }), &[("password", password)]).password
        };
        assert_eq!(print("a", "x"), print("a", "x"));
        assert_ne!(print("a", "x"), print("a", "y"));
        assert_ne!(print("a", "x"), print("b", "x"));
        assert_eq!(print("a", ""), None, "U6.1");
    }

    #[test]
    fn a_login_is_that_of_the_user_only_with_the_password() {
        let login_of = |text: &str| {
            of(json!({}), &[("password", "a\"b\\c"), ("sasl.jaas.config", text)]).login
        };
        assert_eq!(login_of(&login("bob", "a\"b\\c")).as_deref(), Some("bob"));
        assert_eq!(login_of(&login("bob", "former")), None);
        assert_eq!(login_of("nonsense"), None);
        let expected = "org.apache.kafka.common.security.scram.ScramLoginModule required \
                        username=\"u\" password=\"p\";";
        assert_eq!(login("u", "p"), expected, "U5.7");
    }

    #[test]
    fn the_owner_is_the_resource_of_a_user_or_something_else() {
        let owned = |owners: serde_json::Value| of(json!({ "ownerReferences": owners }), &[]).owner;
        let owner = |kind: &str, name: &str| json!({ "apiVersion": "v1", "kind": kind, "name": name, "uid": "1" });
        assert_eq!(owned(json!([])), Owner::Unowned);
        let kafka = owner("Kafka", "c");
        assert_eq!(owned(json!([kafka])), Owner::Another("Kafka c".to_owned()));
        let user = Owner::User("bob".to_owned(), "1".to_owned());
        assert_eq!(owned(json!([kafka, owner("KafkaUser", "bob")])), user);
    }
}
