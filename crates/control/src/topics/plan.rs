//! What Kafka is asked to change for one resource, and what comes of it.

use std::collections::BTreeMap;

use model::TopicId;

use super::config::{self, Change, Difference, Setting};
use super::replicas::{Partition, Wanted};
use super::report::{Problem, Reason, ReplicasChange, Report, Warning};
use super::resource::{ConfigMode, Resource, Spec};
use super::settings::Settings;
use crate::annotations::Annotation;

/// The setting that says how many replicas have to be in sync for a write.
const MIN_IN_SYNC: &str = "min.insync.replicas";

/// What Kafka says of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum View {
    /// It does not exist.
    Absent,
    /// It exists.
    Found(Found),
    /// Kafka refuses to show it.
    Refused(Problem),
}

/// A topic in Kafka.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its id.
    pub id: TopicId,
    /// Its partitions.
    pub partitions: Vec<Partition>,
    /// All its settings.
    pub config: BTreeMap<String, Setting>,
}

/// A topic to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTopic {
    /// How many partitions; Kafka's default if unset.
    pub partitions: Option<i32>,
    /// How many replicas of each; Kafka's default if unset.
    pub replicas: Option<i16>,
    /// Its configuration.
    pub config: BTreeMap<String, String>,
}

/// What is done for one resource, in this order. Nothing in Kafka is changed before the writes to the resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Whether the finalizer is set (`true`) or removed.
    pub finalizer: Option<bool>,
    /// Whether the resource is annotated so that overrides stay from now on.
    pub notes_kept_config: bool,
    /// The topic is created.
    pub create: Option<NewTopic>,
    /// Its configuration is changed.
    pub config: Vec<Change>,
    /// It gets more partitions, this many in all.
    pub partitions: Option<i32>,
    /// Its partitions are to have another number of replicas.
    pub replicas: Option<Wanted>,
    /// Its id, if it exists.
    id: Option<TopicId>,
    /// What the spec asks for in vain. It does not keep the rest from being done.
    problem: Option<Problem>,
    warnings: Vec<Warning>,
}

/// What Kafka answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answers {
    /// The id of the topic that was created.
    pub created: Option<TopicId>,
    /// Whether the topic existed already when it was to be created: the view was outdated. The next pass compares it.
    pub existed: bool,
    /// The first request that failed.
    pub problem: Option<Problem>,
    /// How far the change of the number of replicas is.
    pub replicas: Option<ReplicasChange>,
}

/// Compares a resource with its topic.
#[must_use]
pub fn plan(resource: &Resource, view: &View, settings: &Settings) -> Plan {
    let Some(spec) = &resource.spec else { return Plan::default() };
    let wanted = settings.uses_finalizers;
    let finalizer = (resource.has_finalizer != wanted).then_some(wanted);
    let plan = Plan { finalizer, ..Plan::default() };
    match (view, config::values(spec)) {
        (View::Refused(problem), _) => Plan { problem: Some(problem.clone()), ..plan },
        (View::Absent, Ok(config)) => {
            let create = NewTopic { partitions: spec.partitions, replicas: spec.replicas, config };
            Plan { create: Some(create), ..plan }
        }
        (View::Absent, Err(problem)) => Plan { problem: Some(problem), ..plan },
        (View::Found(found), config) => {
            let plan = Plan { id: Some(found.id), ..plan };
            existing(resource, spec, (found, config), settings, plan)
        }
    }
}

fn existing(
    resource: &Resource,
    spec: &Spec,
    (found, config): (&Found, Result<BTreeMap<String, String>, Problem>),
    settings: &Settings,
    plan: Plan,
) -> Plan {
    let owns = resource.status.topic_id.as_deref() == Some(found.id.to_string().as_str());
    let (difference, invalid) = match config {
        Ok(desired) => {
            (config::difference(resource, &desired, &found.config, owns, settings), None)
        }
        Err(problem) => (Difference::default(), Some(problem)),
    };
    let count = i32::try_from(found.partitions.len()).unwrap_or(i32::MAX);
    let (partitions, lowered) = match spec.partitions {
        Some(wanted) if wanted > count => (Some(wanted), None),
        Some(wanted) if wanted < count => (None, Some(Problem::fewer_partitions(count))),
        Some(_) | None => (None, None),
    };
    let notes_kept_config = !difference.kept.is_empty() && resource.config_mode.is_none();
    let mut warnings = difference.warnings;
    if !difference.kept.is_empty() {
        warnings.push(Warning::kept_config(&difference.kept));
    }
    let replicas = other_replicas(spec, found, &difference.changes);
    Plan {
        notes_kept_config,
        config: difference.changes,
        partitions,
        replicas,
        problem: invalid.or(lowered),
        warnings,
        ..plan
    }
}

/// The partitions that have another number of replicas than the spec asks for.
fn other_replicas(spec: &Spec, found: &Found, changes: &[Change]) -> Option<Wanted> {
    let replicas = usize::try_from(spec.replicas?).ok()?;
    let differs = |one: &&Partition| one.replicas.len() != replicas;
    let partitions: Vec<_> = found.partitions.iter().filter(differs).cloned().collect();
    let min_in_sync = min_in_sync(found, changes);
    (!partitions.is_empty()).then_some(Wanted { replicas, min_in_sync, partitions })
}

/// How many replicas have to be in sync for a write, after these changes. What is inherited once an override is deleted is
/// known in the next pass; the override counts until then.
fn min_in_sync(found: &Found, changes: &[Change]) -> usize {
    let set = changes.iter().find_map(|change| match change {
        Change::Set(name, value) if name == MIN_IN_SYNC => Some(value.as_str()),
        Change::Set(..) | Change::Delete(_) => None,
    });
    let now = found.config.get(MIN_IN_SYNC).and_then(|setting| setting.value.as_deref());
    set.or(now).and_then(|text| text.trim().parse().ok()).unwrap_or(1)
}

impl Plan {
    /// The status of the resource after the plan was carried out with these answers. Of several problems the first
    /// counts.
    #[must_use]
    pub fn report(&self, resource: &Resource, answers: Answers) -> Report {
        let known = resource.status.topic_id.as_deref().filter(|_| answers.existed);
        let id = self.id.or(answers.created).or_else(|| known.and_then(|id| id.parse().ok()));
        let report = match self.problem.clone().or(answers.problem) {
            Some(problem) => Report::failed(resource, id, problem),
            None => Report::ready(resource, id, &self.warnings),
        };
        // What could not be looked at is kept as it was, if a change is still needed.
        let known = resource.status.replicas_change.clone().filter(|_| self.replicas.is_some());
        let replicas_change = answers.replicas.or(known).or(report.replicas_change);
        Report { replicas_change, ..report }
    }
}

impl Warning {
    fn kept_config(names: &[String]) -> Self {
        let message = format!(
            "The topic existed before this resource, which has no spec.config: {} kept. To manage the configuration, set \
             spec.config; to reset it to the defaults, set the annotation {} to {}",
            match names {
                [one] => format!("its override {one} is"),
                several => format!("its overrides {} are", several.join(", ")),
            },
            Annotation::TopicConfig.name(),
            ConfigMode::Replace.name(),
        );
        Self { reason: Reason::ConfigKept, message }
    }
}
