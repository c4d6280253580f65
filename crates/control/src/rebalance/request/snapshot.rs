//! The facts of a pass over one `KafkaRebalance`, as serializable data: the resource, its cluster, the moves of that
//! cluster, and what the engine answers. A fact that was not read is unknown, and no fact has a default value.

use std::collections::BTreeSet;

use model::NodeId;
use serde::{Deserialize, Serialize};

use super::machine::Recorded;
use super::spec::Spec;
use crate::cluster::fact::Fact;
use crate::conditions::{Kind, Reason};
use crate::rebalance::cruise_control::Refusal;
use crate::rebalance::execution;
use crate::rebalance::request::cruise_control::Task;

/// Everything that a pass over a request knows, apart from its record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// The time.
    pub now_ms: u64,
    /// How often a request is reconciled when no event asks for it.
    pub interval_ms: u64,
    /// The resource.
    pub resource: Resource,
    /// Its cluster; `None` if there is no such `Kafka`.
    pub kafka: Fact<Option<Kafka>>,
    /// The moves that run on the cluster, or ran last; `None` if there never were some.
    pub moves: Fact<Option<Moves>>,
    /// Whether the plan of the attempt is stored.
    pub plan_stored: Fact<bool>,
    /// How far the request is that the moves were made for; `None` if it is gone.
    pub other: Fact<Option<Recorded>>,
    /// The answers of Cruise Control, where that is the engine.
    pub cruise_control: Fact<CruiseControl>,
}

/// A `KafkaRebalance`, reduced to what decisions use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// Its uid.
    pub uid: String,
    /// The generation of its spec.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The cluster that its label names.
    pub cluster: Option<String>,
    /// Its annotations.
    pub annotations: Annotations,
    /// What it asks for.
    pub spec: Spec,
    /// Its status, for when its record was lost.
    pub status: Status,
    /// Fields that have no effect.
    pub ignored_fields: Vec<IgnoredField>,
}

/// The annotations that matter, with their values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// `strimzi.io/rebalance`.
    pub rebalance: Option<String>,
    /// `strimzi.io/rebalance-template`.
    pub template: Option<String>,
    /// `strimzi.io/rebalance-auto-approval`.
    pub auto_approval: Option<String>,
    /// `strimzi.io/pause-reconciliation`.
    pub pause: Option<String>,
}

impl Annotations {
    /// Whether they make a template: it is read by others and is no request itself.
    #[must_use]
    pub fn is_template(&self) -> bool {
        self.rebalance.as_deref() == Some("template") || is_true(self.template.as_deref())
    }

    /// Whether a plan is approved without asking.
    pub(super) fn is_auto_approval(&self) -> bool {
        is_true(self.auto_approval.as_deref())
    }

    /// Whether the user wants us to keep off.
    pub(super) fn is_paused(&self) -> bool {
        is_true(self.pause.as_deref())
    }
}

fn is_true(value: Option<&str>) -> bool {
    value == Some("true")
}

/// The status of a request as it was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The generation that it is about.
    pub observed_generation: Option<i64>,
    /// The types of its conditions with their messages.
    pub conditions: Vec<(String, String)>,
}

/// A field of a resource that has no effect, in words.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum IgnoredField {
    /// Gregor knows it and does not honour it.
    Unhonoured(String),
    /// Gregor does not know it.
    Unknown(String),
}

/// The `Kafka` of a request, reduced to what decisions use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kafka {
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether its spec has a `cruiseControl`, which turns rebalancing on.
    pub has_cruise_control: bool,
    /// What its status says of it.
    pub readiness: Readiness,
    /// Whether it was ever ready; from its record.
    pub was_ready: bool,
    /// The annotation `gregor.io/engine`.
    pub engine: Option<String>,
    /// Whether it has a record, which names its brokers.
    pub has_record: bool,
    /// Nodes that do not start, if nothing else kept it from being ready when that was last decided; from its record.
    pub stuck_nodes: BTreeSet<NodeId>,
    /// Brokers that are to leave; from its record.
    pub leaving: BTreeSet<NodeId>,
}

impl Kafka {
    /// Whether its state is in the way of a rebalance. A broker that is gone for good makes it not ready until it has
    /// left, and it leaves only when it is drained: the state of brokers that leave hinders nothing. Nor does a restart
    /// that is not possible: what a rebalance moves may be what makes it possible.
    ///
    /// The record says which nodes are stuck, as the last decision found them. Where there has been none since, because
    /// the cluster is paused, its spec is refused or a pass failed, the status says something else.
    pub(super) fn is_hindering(&self) -> bool {
        match self.readiness {
            Readiness::Ready => false,
            Readiness::RollFailed => !self.was_ready,
            Readiness::RollStopped => {
                self.stuck_nodes.is_empty() || !self.stuck_nodes.is_subset(&self.leaving)
            }
            Readiness::NotReady => true,
        }
    }

    pub(super) fn engine(&self) -> Engine {
        match self.engine.as_deref() {
            Some("cruise-control") => Engine::CruiseControl,
            Some(_) | None => Engine::Native,
        }
    }
}

/// What the status of a cluster says of it, the best first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "camelCase")]
pub enum Readiness {
    /// It is ready.
    Ready,
    /// It is not, because nodes could not be restarted.
    RollFailed,
    /// It is not, because nodes do not start.
    RollStopped,
    /// It is not, for another reason, or the status says nothing.
    #[default]
    NotReady,
}

impl Readiness {
    /// From the type, status and reason of each condition.
    pub fn of<'a>(
        conditions: impl IntoIterator<Item = (Option<&'a str>, Option<&'a str>, Option<&'a str>)>,
    ) -> Self {
        let holds = conditions.into_iter().filter(|(_, status, _)| *status == Some("True"));
        let said = holds.filter_map(|(kind, _, reason)| match kind? {
            kind if kind == Kind::Ready.name() => Some(Self::Ready),
            kind if kind == Kind::NotReady.name() => Some(match reason {
                Some(word) if word == Reason::RollFailed.name() => Self::RollFailed,
                Some(word) if word == Reason::RollStopped.name() => Self::RollStopped,
                Some(_) | None => Self::NotReady,
            }),
            _ => None,
        });
        // There is one of them; if there were more, the worst counts.
        said.max().unwrap_or_default()
    }
}

/// Who makes plans and carries them out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    /// The operator.
    Native,
    /// A Cruise Control that somebody else runs.
    CruiseControl,
}

/// The request that moves are for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claimant {
    /// The name of the request.
    pub name: String,
    /// The request itself.
    pub uid: String,
    /// Its attempt.
    pub attempt: u64,
}

/// Moves of the native engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Moves {
    /// Who they are for.
    pub by: Claimant,
    /// How far they are.
    pub recorded: execution::Recorded,
}

impl Moves {
    /// Whether nothing of them runs any more.
    pub(super) fn is_over(&self) -> bool {
        self.recorded.phase == execution::Phase::Ended
    }
}

/// Cruise Control, as far as it can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CruiseControl {
    /// It must not be contacted before the user changes something.
    Refused(Refusal),
    /// Something that it takes is missing.
    Missing(String),
    /// It was asked.
    Asked(Answers),
}

/// What Cruise Control answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answers {
    /// Whether it moves nothing.
    pub idle: Fact<bool>,
    /// The task that makes the plan.
    pub proposal: Fact<Task>,
    /// The task that moves.
    pub execution: Fact<Task>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_marks_make_a_template() {
        let rows = [
            (Some("template"), None, true),
            (Some("refresh"), Some("true"), true),
            (Some("refresh"), Some("false"), false),
            (None, Some("yes"), false),
            (None, None, false),
        ];
        for (rebalance, template, expected) in rows {
            let annotations = Annotations {
                rebalance: rebalance.map(str::to_owned),
                template: template.map(str::to_owned),
                ..Annotations::default()
            };
            assert_eq!(annotations.is_template(), expected, "{rebalance:?} {template:?}");
        }
    }
}
