//! What a request asks for, and whether it can be begun: what is in the way, apart from what the engine answers.

use placement::{Goal, Goals, InvalidGoal};
use serde::{Deserialize, Serialize};

use super::snapshot::{CruiseControl, Engine, Kafka, Snapshot};
use super::words::Hindrance;

/// The spec of a request, reduced to what decisions use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// Which brokers are rebalanced.
    pub mode: Mode,
    /// Whether brokers are named.
    pub has_brokers: bool,
    /// Whether volumes are named.
    pub has_volumes: bool,
    /// Whether replicas are moved between the disks of a broker.
    pub rebalance_disk: bool,
    /// The names of goals, most important first; the usual ones if there are none.
    pub goals: Vec<String>,
    /// Whether hard goals may be left out.
    pub skip_hard_goal_check: bool,
}

/// Which brokers are rebalanced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// All.
    #[default]
    Full,
    /// Those that are named get replicas of the others.
    AddBrokers,
    /// Those that are named give their replicas to the others.
    RemoveBrokers,
    /// Volumes of a broker are emptied to its others.
    RemoveDisks,
}

impl Spec {
    /// The goals, or the usual ones.
    ///
    /// # Errors
    /// A name is not a goal, or goals are missing.
    pub fn goals(&self) -> Result<Goals, InvalidGoal> {
        if self.goals.is_empty() {
            return Ok(Goals::default());
        }
        let goals = self.goals.iter().map(|name| name.parse::<Goal>());
        Goals::new(goals.collect::<Result<Vec<_>, _>>()?, self.skip_hard_goal_check)
    }

    /// What makes no sense. The words are Strimzi's where it has some.
    fn problem(&self) -> Option<String> {
        let problem = match self.mode {
            Mode::AddBrokers | Mode::RemoveBrokers if !self.has_brokers => {
                "The brokers list is mandatory when using the add-brokers or remove-brokers \
                 rebalancing mode"
            }
            Mode::RemoveDisks if !self.has_volumes => {
                "The volumes list is mandatory when using the remove-disks rebalancing mode"
            }
            Mode::Full if self.rebalance_disk && !self.goals.is_empty() => {
                "The goals list should be empty when using the `rebalanceDisk: true` configuration \
                 for intra-broker disk balancing"
            }
            Mode::Full | Mode::AddBrokers | Mode::RemoveBrokers | Mode::RemoveDisks => {
                return self.goals().err().map(|error| error.to_string());
            }
        };
        Some(problem.to_owned())
    }
}

/// What is in the way. `Some(None)` is nothing, `None` is unknown; so is `kafka`.
#[must_use]
pub fn hindrance(snapshot: &Snapshot, kafka: Option<Option<&Kafka>>) -> Option<Option<Hindrance>> {
    let resource = &snapshot.resource;
    if resource.cluster.is_none() {
        return Some(Some(Hindrance::NoClusterLabel));
    }
    let Some(kafka) = kafka?.filter(|kafka| !kafka.deleting) else {
        return Some(Some(Hindrance::NoKafka));
    };
    if !kafka.has_cruise_control {
        return Some(Some(Hindrance::NoCruiseControl));
    }
    if let Some(problem) = resource.spec.problem() {
        return Some(Some(Hindrance::InvalidSpec(problem)));
    }
    if kafka.is_hindering() {
        return Some(Some(Hindrance::KafkaNotReady));
    }
    match kafka.engine() {
        Engine::Native => Some(None),
        Engine::CruiseControl => Some(match snapshot.cruise_control.known()? {
            CruiseControl::Refused(refusal) => Some(Hindrance::CruiseControlUrl(refusal.clone())),
            CruiseControl::Missing(_) | CruiseControl::Asked(_) => None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use model::NodeId;

    use super::*;
    use crate::cluster::fact::Fact;
    use crate::rebalance::cruise_control::Refusal;
    use crate::rebalance::request::snapshot::{Answers, Readiness};

    fn found(cluster: bool, spec: Spec, kafka: Option<Option<Kafka>>) -> String {
        found_with(cluster, spec, kafka, Fact::default())
    }

    fn found_with(
        cluster: bool,
        spec: Spec,
        kafka: Option<Option<Kafka>>,
        cruise_control: Fact<CruiseControl>,
    ) -> String {
        let mut snapshot = Snapshot { cruise_control, ..Snapshot::default() };
        snapshot.resource.cluster = cluster.then(|| "c".to_owned());
        snapshot.resource.spec = spec;
        match hindrance(&snapshot, kafka.as_ref().map(Option::as_ref)) {
            None => "unknown".to_owned(),
            Some(None) => "nothing".to_owned(),
            Some(Some(Hindrance::InvalidSpec(why))) => why,
            Some(Some(other)) => format!("{other:?}"),
        }
    }

    fn ready() -> Kafka {
        Kafka { has_cruise_control: true, readiness: Readiness::Ready, ..Kafka::default() }
    }

    #[test]
    #[rustfmt::skip]
    fn the_first_thing_in_the_way_is_named() {
        let invalid = Spec { mode: Mode::AddBrokers, ..Spec::default() };
        let rows = [
            (false, Spec::default(), Some(None), "NoClusterLabel"),
            (false, invalid.clone(), None, "NoClusterLabel"),
            (true,  Spec::default(), None, "unknown"),
            (true,  Spec::default(), Some(None), "NoKafka"),
            (true,  Spec::default(), Some(Some(Kafka { deleting: true, ..ready() })), "NoKafka"),
            (true,  invalid.clone(), Some(Some(Kafka { has_cruise_control: false, ..ready() })), "NoCruiseControl"),
            (true,  Spec::default(), Some(Some(Kafka { readiness: Readiness::NotReady, ..ready() })), "KafkaNotReady"),
            (true,  Spec::default(), Some(Some(ready())), "nothing"),
            (true,  Spec::default(), Some(Some(Kafka { engine: Some("other".to_owned()), ..ready() })), "nothing"),
        ];
        for (cluster, spec, kafka, expected) in rows {
            assert_eq!(found(cluster, spec, kafka.clone()), expected, "{kafka:?}");
        }
        let not_ready = Kafka { readiness: Readiness::NotReady, ..ready() };
        assert!(found(true, invalid, Some(Some(not_ready))).starts_with("The brokers list"));
    }

    #[test]
    #[rustfmt::skip]
    fn nodes_that_leave_do_not_hinder_the_rebalance_that_drains_them() {
        let ids = |ids: &[i32]| ids.iter().map(|id| NodeId::new(*id).unwrap()).collect();
        use Readiness::{NotReady, Ready, RollFailed, RollStopped};
        // What its status says, the nodes that do not start, those that leave.
        let rows: [(Readiness, &[i32], &[i32], &str); 10] = [
            (RollStopped, &[3],    &[3],    "nothing"),
            (RollStopped, &[3],    &[3, 4], "nothing"),
            (RollStopped, &[3, 4], &[3, 4], "nothing"),
            (RollStopped, &[3, 4], &[3],    "KafkaNotReady"),
            (RollStopped, &[3],    &[4],    "KafkaNotReady"),
            (RollStopped, &[3],    &[],     "KafkaNotReady"),
            // Something else keeps it from being ready as well.
            (RollStopped, &[],     &[3],    "KafkaNotReady"),
            // The record is of an earlier pass: since then it was paused, its spec was refused, or a pass failed.
            (NotReady,    &[3],    &[3],    "KafkaNotReady"),
            (RollFailed,  &[3],    &[],     "nothing"),
            (Ready,       &[3],    &[],     "nothing"),
        ];
        for (readiness, stuck, leaving, expected) in rows {
            let (stuck_nodes, leaving) = (ids(stuck), ids(leaving));
            let kafka = Kafka { readiness, was_ready: true, stuck_nodes, leaving, ..ready() };
            let drain = Spec { mode: Mode::RemoveBrokers, has_brokers: true, ..Spec::default() };
            for spec in [Spec::default(), drain] {
                let found = found(true, spec, Some(Some(kafka.clone())));
                assert_eq!(found, expected, "{kafka:?}");
            }
        }
    }

    #[test]
    fn a_roll_that_failed_hinders_only_a_cluster_that_was_never_ready() {
        for (was_ready, expected) in [(true, "nothing"), (false, "KafkaNotReady")] {
            let kafka = Kafka { readiness: Readiness::RollFailed, was_ready, ..ready() };
            assert_eq!(found(true, Spec::default(), Some(Some(kafka))), expected);
        }
    }

    #[test]
    #[rustfmt::skip]
    fn a_status_says_whether_a_cluster_is_ready_and_whether_restarts_are_why_not() {
        use Readiness::{NotReady, Ready, RollFailed, RollStopped};
        type Condition<'a> = (Option<&'a str>, Option<&'a str>, Option<&'a str>);
        const fn one<'a>(kind: &'a str, status: &'a str, reason: Option<&'a str>) -> Condition<'a> {
            (Some(kind), Some(status), reason)
        }
        let warning = one("Warning", "True", Some("RollFailed"));
        let rows: [(&[Condition<'_>], Readiness); 12] = [
            (&[],                                                 NotReady),
            (&[one("Ready", "True", None)],                       Ready),
            (&[one("Ready", "False", None)],                      NotReady),
            (&[one("Ready", "True", None), warning],              Ready),
            (&[warning],                                          NotReady),
            (&[one("NotReady", "True", Some("RollFailed"))],      RollFailed),
            (&[one("NotReady", "True", Some("RollStopped"))],     RollStopped),
            (&[one("NotReady", "False", Some("RollStopped"))],    NotReady),
            (&[one("NotReady", "True", Some("Creating"))],        NotReady),
            (&[one("NotReady", "True", None)],                    NotReady),
            (&[one("ReconciliationPaused", "True", None)],        NotReady),
            (&[one("NotReady", "True", Some("RollFailed")), one("Ready", "True", None)], RollFailed),
        ];
        for (conditions, expected) in rows {
            assert_eq!(Readiness::of(conditions.iter().copied()), expected, "{conditions:?}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn a_cruise_control_that_must_not_be_contacted_is_in_the_way() {
        let rows = [
            (Fact::default(), "unknown"),
            (Fact::read(CruiseControl::Refused(Refusal::Scheme), 0), "CruiseControlUrl(Scheme)"),
            (Fact::read(CruiseControl::Missing("Secret".to_owned()), 0), "nothing"),
            (Fact::read(CruiseControl::Asked(Answers::default()), 0), "nothing"),
        ];
        let kafka = Kafka { engine: Some("cruise-control".to_owned()), ..ready() };
        for (answer, expected) in rows {
            let found = found_with(true, Spec::default(), Some(Some(kafka.clone())), answer.clone());
            assert_eq!(found, expected, "{answer:?}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn a_spec_that_makes_no_sense_is_refused() {
        let goals = || vec!["RackAwareGoal".to_owned()];
        let spec = |mode| Spec { mode, ..Spec::default() };
        let rows = [
            (spec(Mode::Full), "nothing"),
            (spec(Mode::AddBrokers), "The brokers list is mandatory"),
            (spec(Mode::RemoveBrokers), "The brokers list is mandatory"),
            (Spec { has_brokers: true, ..spec(Mode::RemoveBrokers) }, "nothing"),
            (spec(Mode::RemoveDisks), "The volumes list is mandatory"),
            (Spec { has_volumes: true, ..spec(Mode::RemoveDisks) }, "nothing"),
            (Spec { rebalance_disk: true, ..Spec::default() }, "nothing"),
            (Spec { rebalance_disk: true, goals: goals(), ..Spec::default() }, "The goals list should be empty"),
            (Spec { goals: vec!["NoGoal".to_owned()], ..Spec::default() }, "\"NoGoal\" is not a goal"),
            (Spec { goals: goals(), ..Spec::default() }, "hard goals are missing"),
            (Spec { goals: goals(), skip_hard_goal_check: true, ..Spec::default() }, "nothing"),
        ];
        for (spec, expected) in rows {
            let found = found(true, spec.clone(), Some(Some(ready())));
            assert!(found.starts_with(expected), "{spec:?}: {found}");
        }
    }
}
