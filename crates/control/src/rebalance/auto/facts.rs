//! What auto-rebalancing rests on: the cluster's brokers, its settings, and its requests.

use serde::{Deserialize, Serialize};

use super::{Brokers, PerMode, Why};
use crate::rebalance::request::{self, Command, snapshot::Annotations};

/// How a mode is set in the cluster's spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Setting {
    /// It is not listed.
    Off,
    /// It is listed, without a template.
    Plain,
    /// It is listed with a template, and this is whether there is one of that name.
    Template(Option<bool>),
    /// It is listed with a template, and the resource of that name is a request of somebody: it has no annotation that
    /// makes it a template.
    Unmarked,
}

impl Setting {
    /// A mode that is listed with a template, by the annotations of the resource that the template's name leads to.
    #[must_use]
    pub fn of_template(found: Option<&Annotations>) -> Self {
        match found {
            None => Self::Template(Some(false)),
            Some(annotations) if annotations.is_template() => Self::Template(Some(true)),
            Some(_) => Self::Unmarked,
        }
    }

    /// Whether a request can be made; `None` if that is not known.
    pub(super) fn is_usable(self) -> Option<bool> {
        match self {
            Self::Off | Self::Unmarked => Some(false),
            Self::Plain => Some(true),
            Self::Template(found) => found,
        }
    }

    /// Whether a template is wanted and there is none.
    pub(super) fn lacks_template(self) -> bool {
        match self {
            Self::Off | Self::Plain => false,
            Self::Template(found) => found == Some(false),
            Self::Unmarked => true,
        }
    }
}

/// The `KafkaRebalance` of a mode, under the name that is ours.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Partner {
    /// There is none. Only a read past every cache may say so.
    Missing,
    /// There is one that we did not make: it has neither our finalizer nor a round.
    Foreign,
    /// There is one of ours.
    Present(Request),
}

/// A `KafkaRebalance` of ours.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The round that it was made in.
    pub round: Option<u64>,
    /// The brokers in its spec.
    pub brokers: Brokers,
    /// Whether it is being deleted, and only our finalizer keeps it.
    pub deleting: bool,
    /// Whether it has been asked to stop.
    pub stopping: bool,
    /// Whether it has been asked to refresh, or its spec is newer than what it says of itself.
    pub outdated: bool,
    /// What it says of itself; `None` if it has no status yet.
    pub recorded: Option<request::Recorded>,
}

/// A `KafkaRebalance` under the name that is ours, as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Whether it has our finalizer.
    pub has_finalizer: bool,
    /// The round in its annotation.
    pub round: Option<u64>,
    /// The brokers in its spec.
    pub brokers: Brokers,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its generation.
    pub generation: i64,
    /// The annotation `strimzi.io/rebalance`.
    pub annotation: Option<String>,
}

impl Seen {
    /// Whether we made it. A user may remove either mark.
    #[must_use]
    pub const fn is_ours(&self) -> bool {
        self.has_finalizer || self.round.is_some()
    }
}

impl Partner {
    /// A resource with the record of it, which was read after the resource: it is not older.
    #[must_use]
    pub fn of(seen: Seen, recorded: Option<request::Recorded>) -> Self {
        match seen.is_ours() {
            true => Self::Present(Request::of(seen, recorded)),
            false => Self::Foreign,
        }
    }
}

impl Request {
    /// A resource of ours. What it is asked for is in its annotation until it is recorded.
    fn of(seen: Seen, recorded: Option<request::Recorded>) -> Self {
        let annotation = request::Annotation::read(seen.annotation.as_deref());
        let commands = |command: Command| {
            let is_recorded = recorded.as_ref().is_some_and(|one| one.command == Some(command));
            annotation == request::Annotation::Command(command) || is_recorded
        };
        let newer = recorded.as_ref().is_none_or(|one| one.generation != seen.generation);
        Self {
            round: seen.round,
            brokers: seen.brokers,
            deleting: seen.deleting,
            stopping: commands(Command::Stop),
            outdated: commands(Command::Refresh) || newer,
            recorded,
        }
    }

    pub(super) fn phase(&self) -> request::Phase {
        self.recorded.as_ref().map_or(request::Phase::New, |recorded| recorded.phase)
    }

    pub(super) fn may_run(&self) -> bool {
        self.recorded.as_ref().is_some_and(request::Recorded::may_run)
    }

    pub(super) fn recovers(&self) -> bool {
        self.recorded.as_ref().is_some_and(request::Recorded::recovers)
    }

    pub(super) fn why(&self) -> Why {
        let failure = self.recorded.as_ref().and_then(|recorded| recorded.failure.as_ref());
        let said = failure.map(ToString::to_string);
        Why::Failed(said.unwrap_or_else(|| "no reason given".to_owned()))
    }
}

/// What the decision rests on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Facts {
    /// All nodes with the broker role, those that are to leave included.
    pub brokers: Option<Brokers>,
    /// Those of them that the user wants to be gone.
    pub leaving: Option<Brokers>,
    /// Brokers that hold replicas, or are to get some.
    pub holding: Option<Brokers>,
    /// Brokers that run.
    pub running: Option<Brokers>,
    /// Brokers that moves which run or are approved are for, whoever asked for them: a request may
    /// have other brokers in its spec by now, or be gone.
    pub moving: Option<Brokers>,
    /// Whether the user waives the check for replicas on brokers that leave
    /// (`strimzi.io/skip-broker-scaledown-check`).
    pub waived: bool,
    /// How the modes are set.
    pub settings: PerMode<Setting>,
    /// The requests that are there.
    pub partners: PerMode<Option<Partner>>,
    /// The time.
    pub now_ms: u64,
}

/// Fields of the spec of a `KafkaRebalance` that a request does not take over from its template: which brokers it is for
/// is the cluster's to say, and disks have nothing to do with it.
const NOT_COPIED: [&str; 4] = ["mode", "brokers", "rebalanceDisk", "moveReplicasOffVolumes"];

/// Whether a request takes over a field of the spec of its template: goals and options, also those that this operator
/// does not know.
#[must_use]
pub fn is_copied(field: &str) -> bool {
    !NOT_COPIED.contains(&field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_resource_that_is_marked_is_a_template() {
        let annotations = |rebalance: &str, template: &str| {
            let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            let (rebalance, template) = (text(rebalance), text(template));
            Some(Annotations { rebalance, template, ..Annotations::default() })
        };
        // The resource that is named, how the mode is set, whether a request can be made.
        let rows = [
            (None, Setting::Template(Some(false)), false),
            (annotations("template", ""), Setting::Template(Some(true)), true),
            (annotations("", "true"), Setting::Template(Some(true)), true),
            (annotations("", ""), Setting::Unmarked, false),
            (annotations("approve", "false"), Setting::Unmarked, false),
        ];
        for (found, expected, is_usable) in rows {
            let setting = Setting::of_template(found.as_ref());
            assert_eq!(setting, expected, "{found:?}");
            assert_eq!(setting.is_usable(), Some(is_usable), "{found:?}");
            assert_eq!(setting.lacks_template(), !is_usable, "{found:?}");
        }
        assert!(!Setting::Off.lacks_template() && !Setting::Plain.lacks_template());
        assert!(!Setting::Template(None).lacks_template(), "unknown is not absent");
    }

    #[test]
    fn a_resource_without_our_marks_is_not_ours() {
        let of = |has_finalizer, round| {
            Partner::of(Seen { has_finalizer, round, ..Seen::default() }, None)
        };
        assert_eq!(of(false, None), Partner::Foreign);
        for (has_finalizer, round) in [(true, None), (false, Some(7)), (true, Some(7))] {
            let Partner::Present(request) = of(has_finalizer, round) else { panic!("not ours") };
            assert_eq!(request.round, round);
        }
    }

    #[test]
    #[rustfmt::skip]
    fn a_request_is_outdated_until_it_speaks_of_what_it_is_asked_now() {
        let recorded = |generation, command| {
            Some(request::Recorded { generation, command, ..request::Recorded::default() })
        };
        // The annotation of a resource of generation 2, its record, whether it stops, whether it is outdated.
        let rows = [
            (None,            recorded(2, None),                false, false),
            (None,            recorded(1, None),                false, true),
            (None,            None,                             false, true),
            (None,            recorded(2, Some(Command::Refresh)), false, true),
            (None,            recorded(2, Some(Command::Stop)),    true,  false),
            (None,            recorded(2, Some(Command::Approve)), false, false),
            (Some("refresh"), recorded(2, None),                false, true),
            (Some("stop"),    recorded(2, None),                true,  false),
            (Some("approve"), recorded(2, None),                false, false),
            (Some("stop"),    recorded(2, Some(Command::Refresh)), true,  true),
            (Some("Stop"),    recorded(2, None),                false, false),
        ];
        for (annotation, recorded, stopping, outdated) in rows {
            let annotation = annotation.map(str::to_owned);
            let seen = Seen { generation: 2, annotation: annotation.clone(), ..Seen::default() };
            let found = Request::of(seen, recorded.clone());
            assert_eq!((found.stopping, found.outdated), (stopping, outdated), "{annotation:?} {recorded:?}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn goals_and_options_are_copied_and_what_is_to_be_moved_is_not() {
        let rows = [
            ("goals",                                   true),
            ("skipHardGoalCheck",                       true),
            ("excludedTopics",                          true),
            ("concurrentPartitionMovementsPerBroker",   true),
            ("concurrentIntraBrokerPartitionMovements", true),
            ("concurrentLeaderMovements",               true),
            ("replicationThrottle",                     true),
            ("replicaMovementStrategies",               true),
            ("fieldOfTheFuture",                        true),
            ("mode",                                    false),
            ("brokers",                                 false),
            ("rebalanceDisk",                           false),
            ("moveReplicasOffVolumes",                  false),
        ];
        for (field, expected) in rows {
            assert_eq!(is_copied(field), expected, "{field}");
        }
    }
}
