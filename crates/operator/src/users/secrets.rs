//! Users with a password: brings what is in their Secrets to Kafka, and takes it away again.
//!
//! `gregor user add --scram` makes such a Secret. Secrets without our finalizer are those of other tools
//! and are not touched.

use std::collections::BTreeSet;

use api::names::{CLUSTER_LABEL, KIND_LABEL};
use control::annotations::Annotation;
use control::users::{Mark, User};
use k8s_openapi::api::core::v1::Secret;
use kafka_admin::{Admin, AlterScramError, DescribeScramError, Outcome};
use kube::{Api, ResourceExt as _};
use model::ClusterId;
use objects::hash;
use serde_json::json;

use crate::write::{KafkaWriteError, WriteError, Writer};

/// The value of the label that says for which kind an object was made, on Secrets of users.
pub const KIND: &str = "KafkaUser";
/// Holds a Secret back until its credential is gone from Kafka.
pub const FINALIZER: &str = "gregor.io/scram-user";
/// Remembers what Kafka was given.
pub const MARK: &str = Annotation::ScramCredential.name();
/// The entry with the password.
pub const PASSWORD: &str = "password";
/// The entry with what a Java client logs in with.
pub const JAAS_CONFIG: &str = "sasl.jaas.config";

/// Before the fingerprint of a password that is about to be given.
const SETTING: &str = "setting ";

/// Why users were not brought to Kafka, or not all.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// Kafka did not say whom it knows.
    #[error("cannot ask Kafka for its users")]
    Describe(#[source] DescribeScramError),
    /// A credential was not changed, or may not have been.
    #[error("cannot change the credential of a user")]
    Change(#[source] KafkaWriteError<AlterScramError>),
    /// A Secret was not written.
    #[error("cannot write the Secret of a user")]
    Secret(#[source] WriteError),
}

/// Whether this is a Secret of a user of the cluster whose password we bring to Kafka.
#[must_use]
pub fn is_user(secret: &Secret, cluster: &str) -> bool {
    let has = |label: &str, value: &str| secret.labels().get(label).is_some_and(|it| it == value);
    has(KIND_LABEL, KIND) && has(CLUSTER_LABEL, cluster) && has_finalizer(secret)
}

/// The users for whom Kafka has a credential such as we make.
///
/// # Errors
/// If Kafka does not answer, or not for all users.
pub async fn known(admin: &Admin) -> Result<BTreeSet<String>, UsersError> {
    let known = admin.describe_scram_users().await.map_err(UsersError::Describe)?;
    let known = known.into_iter().filter(|user| user.sha_512_iterations.is_some());
    Ok(known.map(|user| user.name).collect())
}

/// Marks the Secret of a user. Returns it as it is afterwards; `None` if nothing had to be sent.
///
/// # Errors
/// If the Secret could not be written, also because it has changed since it was read.
pub async fn remember(
    writer: &Writer,
    api: &Api<Secret>,
    secret: &Secret,
    mark: &Mark,
) -> Result<Option<Secret>, UsersError> {
    let patch = json!({ "metadata": {
        "annotations": { MARK: mark_text(mark) },
        "resourceVersion": secret.metadata.resource_version,
    }});
    let written = writer.patch(api, &secret.name_any(), &patch, Some(secret)).await;
    written.map_err(UsersError::Secret)
}

/// Sets the credential of a user from its Secret.
///
/// # Errors
/// If it was not set, or may not have been.
pub async fn set(writer: &Writer, admin: &Admin, secret: &Secret) -> Result<(), UsersError> {
    let Some(password) = password(secret) else { return Ok(()) };
    let (user, password) = (secret.name_any(), kafka_admin::Secret::new(password));
    let what = format!("set the SCRAM credential of {user}");
    let call = admin.set_scram_password(&user, &password);
    let done = writer.kafka("AlterUserScramCredentials", &what, call, outcome).await;
    done.map_err(UsersError::Change)
}

/// Deletes the credential of a user.
///
/// # Errors
/// If it was not deleted, or may not have been.
pub async fn delete(writer: &Writer, admin: &Admin, user: &str) -> Result<(), UsersError> {
    let what = format!("delete the SCRAM credential of {user}");
    let call = async {
        match admin.delete_scram_credential(user).await {
            Err(AlterScramError::NotFound { .. }) | Ok(()) => Ok(()),
            Err(error) => Err(error),
        }
    };
    let done = writer.kafka("AlterUserScramCredentials", &what, call, outcome).await;
    done.map_err(UsersError::Change)
}

/// Lets go of the Secrets of users whose credentials are gone, so that they can be deleted, now or later. Those of a cluster
/// that is gone are gone with it.
///
/// # Errors
/// If a Secret could not be written.
pub async fn release(
    writer: &Writer,
    api: &Api<Secret>,
    secrets: &[&Secret],
) -> Result<(), UsersError> {
    for secret in secrets {
        let patch = released(secret);
        let name = secret.name_any();
        writer.patch(api, &name, &patch, Some(*secret)).await.map_err(UsersError::Secret)?;
    }
    Ok(())
}

/// The patch that takes our finalizer off.
#[must_use]
pub fn released(secret: &Secret) -> serde_json::Value {
    let others: Vec<_> = secret.finalizers().iter().filter(|one| *one != FINALIZER).collect();
    let version = &secret.metadata.resource_version;
    json!({ "metadata": { "finalizers": others, "resourceVersion": version } })
}

/// Whether this cluster was given the password that is in the Secret now, as far as the Secret says.
#[must_use]
pub fn is_given(secret: &Secret, cluster: &ClusterId) -> bool {
    let user = user(secret, cluster);
    user.wanted.is_some_and(|wanted| user.mark == Mark::Set(wanted))
}

/// Whether a change of a credential that failed may have happened.
pub(crate) fn outcome(error: &AlterScramError) -> Outcome {
    match error {
        AlterScramError::Call { source, .. } => source.outcome(),
        AlterScramError::NotFound { .. }
        | AlterScramError::NoRandomness
        | AlterScramError::Refused { .. } => Outcome::NotDone,
    }
}

/// The Secret of a user, as decisions see it.
#[must_use]
pub fn user(secret: &Secret, cluster: &ClusterId) -> User {
    let name = secret.name_any();
    let wanted = password(secret).map(|password| {
        // With the cluster in it, so that a new cluster by the same name is given the password too.
        let text = format!("{}\0{name}\0{password}", cluster.as_str());
        hash::long(text.as_bytes())
    });
    User {
        ours: has_finalizer(secret),
        deleting: secret.metadata.deletion_timestamp.is_some(),
        wanted,
        mark: mark(secret),
        name,
    }
}

fn password(secret: &Secret) -> Option<&str> {
    let bytes = secret.data.as_ref()?.get(PASSWORD)?;
    std::str::from_utf8(&bytes.0).ok().filter(|password| !password.is_empty())
}

fn has_finalizer(secret: &Secret) -> bool {
    secret.finalizers().iter().any(|one| one == FINALIZER)
}

fn mark(secret: &Secret) -> Mark {
    match secret.annotations().get(MARK) {
        None => Mark::None,
        Some(text) => match text.strip_prefix(SETTING) {
            Some(print) => Mark::Setting(print.to_owned()),
            None => Mark::Set(text.clone()),
        },
    }
}

fn mark_text(mark: &Mark) -> Option<String> {
    match mark {
        Mark::None => None,
        Mark::Setting(print) => Some(format!("{SETTING}{print}")),
        Mark::Set(print) => Some(print.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(annotations: serde_json::Value, password: &str) -> Secret {
        let mut secret: Secret = serde_json::from_value(json!({
            "metadata": {
                "name": "bob",
                "finalizers": ["other", FINALIZER],
                "resourceVersion": "7",
                "labels": { KIND_LABEL: KIND, CLUSTER_LABEL: "c" },
                "annotations": annotations,
            },
        }))
        .unwrap();
        let bytes = k8s_openapi::ByteString(password.as_bytes().to_vec());
        secret.data = Some([(PASSWORD.to_owned(), bytes)].into());
        secret
    }

    #[test]
    fn a_mark_is_read_as_it_was_written_and_shows_no_password() {
        let cluster = ClusterId::new("abc").unwrap();
        for make in [Mark::Setting, Mark::Set] {
            let first = user(&secret(json!({}), "open sesame"), &cluster);
            assert_eq!(first.mark, Mark::None);
            let mark = make(first.wanted.unwrap());
            let text = mark_text(&mark).unwrap();
            assert!(!text.contains("sesame"));
            let again = user(&secret(json!({ MARK: text }), "open sesame"), &cluster);
            assert_eq!(again.mark, mark);
        }
        assert_eq!(mark_text(&Mark::None), None);
    }

    #[test]
    fn another_password_and_another_cluster_are_noticed() {
        let cluster = |name| ClusterId::new(name).unwrap();
        let print = |name, password| user(&secret(json!({}), password), &cluster(name)).wanted;
        assert_eq!(print("abc", "x"), print("abc", "x"));
        assert_ne!(print("abc", "x"), print("abc", "y"));
        assert_ne!(print("abc", "x"), print("abd", "x"));
        assert_eq!(print("abc", ""), None);
    }

    #[test]
    fn only_secrets_of_the_cluster_with_our_finalizer_are_ours() {
        let good = secret(json!({}), "x");
        assert!(is_user(&good, "c") && !is_user(&good, "d"));
        let mut theirs = good.clone();
        theirs.metadata.finalizers = None;
        assert!(!is_user(&theirs, "c"));
        let mut other = good.clone();
        other.labels_mut().insert(KIND_LABEL.to_owned(), "Kafka".to_owned());
        assert!(!is_user(&other, "c"));
        let patch = released(&good);
        let expected = json!({ "metadata": { "finalizers": ["other"], "resourceVersion": "7" } });
        assert_eq!(patch, expected);
    }
}
