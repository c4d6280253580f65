//! The Secret of a user: what is known of one that exists, and the labels and annotations that it should have.

use std::collections::{BTreeMap, BTreeSet};

use super::report::Problem;
use super::resource::Resource;
use super::settings::{Exclusion, PROGRAM};
use crate::annotations::Annotation;

/// What only operators may set.
const RESERVED: &str = "strimzi.io/";
/// How the names of the labels begin that users may set although only operators may set others.
const PERMITTED: &str = "cluster";

/// What is known of the Secret of a user. No secret is in it; fingerprints are salted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stored {
    /// The cluster that its label names.
    pub cluster: Option<String>,
    /// Which resource it belongs to.
    pub owner: Owner,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// Whether a finalizer is on it with which users without a resource are managed.
    pub is_held: bool,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its entries that are not empty.
    pub entries: BTreeSet<String>,
    /// A fingerprint of the certificate of the authority in it.
    pub authority: Option<String>,
    /// When the certificate in it expires, in seconds since 1970; `None` if it cannot be read.
    pub not_after: Option<i64>,
    /// A fingerprint of the password in it.
    pub password: Option<String>,
    /// Who logs in with what is in it for Java clients; `None` if that has not the password.
    pub login: Option<String>,
}

/// Which resource a Secret belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Owner {
    /// None.
    #[default]
    Unowned,
    /// A `KafkaUser` of this name, with this uid.
    User(String, String),
    /// Something else.
    Another(String),
}

impl Stored {
    /// An annotation.
    #[must_use]
    pub fn annotation(&self, annotation: Annotation) -> Option<&str> {
        self.annotations.get(annotation.name()).map(String::as_str)
    }

    /// Whether its user asks for new credentials.
    #[must_use]
    pub fn asks_for_new(&self) -> bool {
        self.annotation(Annotation::ForceRenew) == Some("true")
    }

    /// Whether it belongs to this resource.
    #[must_use]
    pub(super) fn is_of(&self, resource: &Resource) -> bool {
        matches!(&self.owner, Owner::User(_, uid) if *uid == resource.uid)
    }
}

/// Whether a Secret may be written for a resource.
///
/// # Errors
/// It belongs to something else.
pub(super) fn check(resource: &Resource, name: &str, stored: &Stored) -> Result<(), Problem> {
    if stored.cluster != resource.cluster {
        let other = stored.cluster.as_deref().unwrap_or("none");
        return Err(Problem::foreign_secret(name, &format!("it belongs to the cluster {other}")));
    }
    match &stored.owner {
        // A former resource of this name: the Secret would be deleted with it.
        Owner::User(of, _) if *of == resource.name => Ok(()),
        Owner::Unowned => Ok(()),
        Owner::User(of, _) => {
            Err(Problem::foreign_secret(name, &format!("it belongs to the KafkaUser {of}")))
        }
        Owner::Another(of) => Err(Problem::foreign_secret(name, &format!("it belongs to {of}"))),
    }
}

/// Labels and annotations of a Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Labelled {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
}

/// The labels and annotations that the Secret of a resource should have. Those of others stay; those that the resource had
/// asked for before, and no longer does, go.
///
/// # Errors
/// The resource has labels that only operators may set.
pub(super) fn labelled(
    resource: &Resource,
    stored: Option<&Stored>,
    not_copied: &Exclusion,
) -> Result<Labelled, Problem> {
    let own = own(resource, not_copied)?;
    let names = |of: &BTreeMap<String, String>| of.keys().cloned().collect::<Vec<_>>().join(",");
    let note = format!("{};{}", names(&own.labels), names(&own.annotations));
    let mut all = Labelled::default();
    if let Some(stored) = stored {
        (all.labels, all.annotations) = (stored.labels.clone(), stored.annotations.clone());
        let former = stored.annotation(Annotation::SecretMetadata).unwrap_or_default();
        let (labels, annotations) = former.split_once(';').unwrap_or_default();
        labels.split(',').for_each(|name| drop(all.labels.remove(name)));
        annotations.split(',').for_each(|name| drop(all.annotations.remove(name)));
        all.annotations.remove(Annotation::ForceRenew.name());
    }
    all.labels.extend(own.labels);
    all.annotations.extend(own.annotations);
    all.annotations.insert(Annotation::SecretMetadata.name().to_owned(), note);
    Ok(all)
}

fn own(resource: &Resource, not_copied: &Exclusion) -> Result<Labelled, Problem> {
    let is_foreign = |name: &&String| {
        name.strip_prefix(RESERVED).is_some_and(|rest| !rest.starts_with(PERMITTED))
    };
    if let Some(name) = resource.labels.keys().find(is_foreign) {
        return Err(Problem::reserved_label(name));
    }
    let spec = resource.spec.as_ref();
    let empty = BTreeMap::new();
    let added = spec.map_or(&empty, |spec| &spec.secret_labels);
    let annotations = spec.map_or(&empty, |spec| &spec.secret_annotations);
    let mut names = added.keys().chain(annotations.keys());
    if let Some(name) = names.find(|name| name.starts_with(RESERVED)) {
        return Err(Problem::reserved_template(name));
    }
    let copied = resource.labels.iter().filter(|(name, _)| not_copied.copies(name));
    let mut labels: BTreeMap<_, _> =
        copied.map(|(name, value)| (name.clone(), value.clone())).collect();
    labels.extend(resource.own_labels.clone());
    let is_free = |(name, _): &(&String, &String)| !name.starts_with(PROGRAM);
    let free = |of: &BTreeMap<String, String>| {
        of.iter()
            .filter(is_free)
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect::<BTreeMap<_, _>>()
    };
    labels.extend(free(added));
    Ok(Labelled { labels, annotations: free(annotations) })
}
