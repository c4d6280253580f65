//! What a request rests on, read from its resource and from its cluster.

use api::rebalance::RebalanceMode;
use api::{Kafka, KafkaRebalance, KafkaRebalanceSpec};
use control::rebalance::is_template;
use control::rebalance::request::{Annotation, Failure, Hindrance, Phase, Recorded};
use kube::ResourceExt as _;
use placement::{Goal, Goals};

use super::{AUTO_APPROVAL, TEMPLATE, WISH};
use crate::context::PAUSE;
use crate::rebalance::store::{Moves, RequestRecord};

fn annotation<'a>(kr: &'a KafkaRebalance, name: &str) -> Option<&'a str> {
    kr.annotations().get(name).map(String::as_str)
}

pub(super) fn wish(kr: &KafkaRebalance) -> Annotation {
    Annotation::read(annotation(kr, WISH))
}

pub(super) fn template(kr: &KafkaRebalance) -> bool {
    is_template(annotation(kr, WISH), annotation(kr, TEMPLATE))
}

pub(super) fn auto_approval(kr: &KafkaRebalance) -> bool {
    annotation(kr, AUTO_APPROVAL) == Some("true")
}

pub(super) fn paused(kr: &KafkaRebalance) -> bool {
    annotation(kr, PAUSE) == Some("true")
}

/// What is in the way, apart from the engine.
pub(super) fn hindrance(
    spec: &KafkaRebalanceSpec,
    cluster: Option<&str>,
    kafka: Option<&Kafka>,
) -> Option<Hindrance> {
    if cluster.is_none() {
        return Some(Hindrance::NoClusterLabel);
    }
    let Some(kafka) = kafka.filter(|kafka| kafka.metadata.deletion_timestamp.is_none()) else {
        return Some(Hindrance::NoKafka);
    };
    if kafka.spec.cruise_control.is_none() {
        return Some(Hindrance::NoCruiseControl);
    }
    if let Err(why) = check(spec) {
        return Some(Hindrance::InvalidSpec(why));
    }
    let conditions = kafka.status.as_ref().and_then(|status| status.conditions.as_ref());
    let is_ready = conditions
        .into_iter()
        .flatten()
        .any(|one| one.kind.as_deref() == Some("Ready") && one.status.as_deref() == Some("True"));
    (!is_ready).then_some(Hindrance::KafkaNotReady)
}

/// Whether a spec makes sense. The words are Strimzi's where it has some.
fn check(spec: &KafkaRebalanceSpec) -> Result<(), String> {
    let mode = spec.mode();
    let no_brokers = spec.brokers.as_ref().is_none_or(Vec::is_empty);
    let no_volumes = spec.move_replicas_off_volumes.as_ref().is_none_or(Vec::is_empty);
    let no_goals = spec.goals.as_ref().is_none_or(Vec::is_empty);
    match mode {
        RebalanceMode::AddBrokers | RebalanceMode::RemoveBrokers if no_brokers => {
            return Err("The brokers list is mandatory when using the add-brokers or \
                        remove-brokers rebalancing mode"
                .to_owned());
        }
        RebalanceMode::RemoveDisks if no_volumes => {
            return Err("The volumes list is mandatory when using the remove-disks rebalancing \
                        mode"
                .to_owned());
        }
        RebalanceMode::Full if spec.rebalance_disk == Some(true) && !no_goals => {
            return Err("The goals list should be empty when using the `rebalanceDisk: true` \
                        configuration for intra-broker disk balancing"
                .to_owned());
        }
        RebalanceMode::Full
        | RebalanceMode::AddBrokers
        | RebalanceMode::RemoveBrokers
        | RebalanceMode::RemoveDisks => {}
    }
    goals(spec).map(|_| ()).map_err(|error| error.to_string())
}

/// The goals of a spec, or the usual ones.
pub(crate) fn goals(spec: &KafkaRebalanceSpec) -> Result<Goals, placement::InvalidGoal> {
    let names = spec.goals.as_deref().unwrap_or_default();
    if names.is_empty() {
        return Ok(Goals::default());
    }
    let list = names.iter().map(|name| name.parse::<Goal>()).collect::<Result<Vec<_>, _>>()?;
    Goals::new(list, spec.skip_hard_goal_check.unwrap_or(false))
}

/// A record for a request that has none: it is new, or its record was lost. What is done is not begun again,
/// and what runs is not forgotten.
pub(super) fn rebuild(kr: &KafkaRebalance, moves: Option<&Moves>) -> RequestRecord {
    let status = kr.status.as_ref();
    let generation = status.and_then(|status| status.observed_generation).unwrap_or_default();
    let own = moves.filter(|moves| Some(moves.by.uid.clone()) == kr.uid());
    if let Some(moves) = own.filter(|moves| !moves.is_over()) {
        let attempt = moves.by.attempt;
        let request =
            Recorded { phase: Phase::Rebalancing, attempt, generation, ..Default::default() };
        return RequestRecord { request, ..RequestRecord::default() };
    }
    let conditions = status.and_then(|status| status.conditions.clone()).unwrap_or_default();
    let said = conditions.iter().find_map(|condition| {
        let phase = Phase::from_name(condition.kind.as_deref()?)?;
        Some((phase, condition.message.clone().unwrap_or_default()))
    });
    let (phase, failure) = match said {
        Some((phase @ (Phase::Ready | Phase::Stopped), _)) => (phase, None),
        Some((Phase::NotReady, message)) => (Phase::NotReady, Some(Failure::Final(message))),
        _ => return RequestRecord::default(),
    };
    let attempt = own.map_or(0, |moves| moves.by.attempt);
    let request = Recorded { phase, generation, failure, attempt, ..Recorded::default() };
    RequestRecord { request, ..RequestRecord::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(value: Value) -> KafkaRebalanceSpec {
        serde_json::from_value(value).unwrap()
    }

    fn kafka(value: Value) -> Kafka {
        serde_json::from_value(json!({
            "apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka", "metadata": { "name": "c" },
            "spec": { "kafka": { "listeners": [] }, "cruiseControl": {} },
            "status": { "conditions": value },
        }))
        .unwrap()
    }

    #[test]
    fn what_is_in_the_way_is_told() {
        let ready = kafka(json!([{ "type": "Ready", "status": "True" }]));
        let not = kafka(json!([{ "type": "NotReady", "status": "True" }]));
        let mut none = ready.clone();
        none.spec.cruise_control = None;
        let full = spec(json!({}));
        assert_eq!(hindrance(&full, None, None), Some(Hindrance::NoClusterLabel));
        assert_eq!(hindrance(&full, Some("c"), None), Some(Hindrance::NoKafka));
        assert_eq!(hindrance(&full, Some("c"), Some(&none)), Some(Hindrance::NoCruiseControl));
        assert_eq!(hindrance(&full, Some("c"), Some(&not)), Some(Hindrance::KafkaNotReady));
        assert_eq!(hindrance(&full, Some("c"), Some(&ready)), None);
        let wrong = [
            json!({ "mode": "add-brokers" }),
            json!({ "mode": "remove-brokers", "brokers": [] }),
            json!({ "mode": "remove-disks" }),
            json!({ "rebalanceDisk": true, "goals": ["RackAwareGoal"] }),
            json!({ "goals": ["NoGoal"] }),
            json!({ "goals": ["RackAwareGoal"] }),
        ];
        for value in wrong {
            let found = hindrance(&spec(value.clone()), Some("c"), Some(&ready));
            assert!(matches!(found, Some(Hindrance::InvalidSpec(_))), "{value}");
        }
        let skipped = json!({ "goals": ["RackAwareGoal"], "skipHardGoalCheck": true });
        assert_eq!(hindrance(&spec(skipped), Some("c"), Some(&ready)), None);
    }

    #[test]
    fn a_lost_record_neither_repeats_what_is_done_nor_forgets_what_runs() {
        let kr = |condition: &str| -> KafkaRebalance {
            serde_json::from_value(json!({
                "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaRebalance",
                "metadata": { "name": "r", "uid": "u" }, "spec": {},
                "status": { "observedGeneration": 4,
                            "conditions": [{ "type": condition, "status": "True" }] },
            }))
            .unwrap()
        };
        for (said, phase) in [
            ("Ready", Phase::Ready),
            ("Stopped", Phase::Stopped),
            ("NotReady", Phase::NotReady),
            ("ProposalReady", Phase::New),
            ("Rebalancing", Phase::New),
        ] {
            assert_eq!(rebuild(&kr(said), None).request.phase, phase, "{said}");
        }
        assert_eq!(rebuild(&kr("Ready"), None).request.generation, 4);
        let moves: Moves = serde_json::from_value(json!({
            "by": { "name": "r", "uid": "u", "attempt": 7 }, "parts": 1, "brokers": [],
            "recorded": control::rebalance::execution::Recorded::default(),
        }))
        .unwrap();
        let found = rebuild(&kr("Rebalancing"), Some(&moves)).request;
        assert_eq!((found.phase, found.attempt), (Phase::Rebalancing, 7));
    }
}
