//! What a resource needs, before Kafka is asked.

use model::{TopicId, TopicName};

use super::ownership::Ownership;
use super::report::{Problem, Report};
use super::resource::Resource;

/// What a resource needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Triage {
    /// Nothing, not even a status.
    Ignore,
    /// Only a status.
    Report(Report),
    /// The finalizer goes; the topic stays, or never existed.
    Release,
    /// The topic goes, and then the finalizer.
    Delete {
        /// Which one.
        topic: TopicName,
        /// Its id, if it is known. Then no topic with another id is deleted.
        id: Option<TopicId>,
    },
    /// It is compared with the topic in Kafka.
    Reconcile {
        /// Which one.
        topic: TopicName,
    },
}

/// Decides what a resource of a cluster needs.
#[must_use]
pub fn triage(resource: &Resource, ownership: &Ownership) -> Triage {
    if resource.spec.is_none() {
        return Triage::Ignore;
    }
    if resource.is_deleting {
        return deleted(resource, ownership);
    }
    if !resource.is_managed {
        return Triage::Report(Report::unmanaged(resource));
    }
    if resource.is_renamed() {
        return Triage::Report(renamed(resource));
    }
    let owner = ownership.owner(resource.topic());
    if let Some(owner) = owner.filter(|owner| *owner != resource.name) {
        let problem = Problem::conflict(&resource.namespace, owner);
        return Triage::Report(Report::failed(resource, None, problem));
    }
    if resource.is_paused {
        return Triage::Report(Report::paused(resource));
    }
    match TopicName::new(resource.topic()) {
        Ok(topic) => Triage::Reconcile { topic },
        Err(error) => {
            let problem = Problem::invalid_name(&error.to_string());
            Triage::Report(Report::failed(resource, None, problem))
        }
    }
}

fn renamed(resource: &Resource) -> Report {
    let problem = Problem::renamed(resource.claimed_topic(), resource.topic());
    Report::failed(resource, None, problem)
}

/// A resource that is being deleted: its topic goes first, unless another resource has it.
fn deleted(resource: &Resource, ownership: &Ownership) -> Triage {
    if !resource.has_finalizer {
        return Triage::Ignore;
    }
    if !resource.is_managed {
        return Triage::Release;
    }
    if resource.is_renamed() {
        return Triage::Report(renamed(resource));
    }
    // Of several that are all being deleted, the owner deletes the topic.
    if ownership.owner(resource.topic()) != Some(&resource.name) {
        return Triage::Release;
    }
    match TopicName::new(resource.topic()) {
        Ok(topic) => Triage::Delete { topic, id: known_id(resource) },
        Err(_) => Triage::Release,
    }
}

/// The topic to delete for a resource that is gone and had no finalizer; `None` if it is to stay.
///
/// Without a finalizer the only evidence is that the resource was here: so only a topic is deleted that the resource
/// managed by its id, and that no other resource claims.
#[must_use]
pub fn of_vanished(resource: &Resource, ownership: &Ownership) -> Option<TopicId> {
    let is_owned = ownership.owner(resource.claimed_topic()).is_some();
    if !resource.is_managed || resource.spec.is_none() || resource.is_renamed() || is_owned {
        return None;
    }
    known_id(resource)
}

fn known_id(resource: &Resource) -> Option<TopicId> {
    resource.status.topic_id.as_deref().and_then(|id| id.parse().ok())
}
