//! The state machines of a cluster, with what is in which state: as its record and its rebalances say.

use std::fmt::Debug;

use api::KafkaRebalance;
use console::page::{Machine, Subject};
use control::cluster::record::Record;
use control::quorum::migrate;
use control::rebalance::{auto, request};
use control::rolling::node;
use control::scaling::guard;
use kube::ResourceExt as _;

use super::rebalance::state;

/// All machines, in the order in which they are shown.
pub(super) fn machines(record: &Record, requests: &[KafkaRebalance]) -> Vec<Machine> {
    vec![
        Machine {
            name: "auto-rebalance",
            title: "Automatic rebalancing",
            edges: edges(auto::TRANSITIONS),
            subjects: record.auto_rebalance.iter().map(automatic).collect(),
        },
        Machine {
            name: "rebalance",
            title: "KafkaRebalance",
            edges: edges(request::TRANSITIONS),
            subjects: requests.iter().filter_map(of_request).collect(),
        },
        Machine {
            name: "leaving-broker",
            title: "Brokers that leave",
            edges: edges(guard::TRANSITIONS),
            subjects: leaving(record),
        },
        Machine {
            name: "node-restart",
            title: "Restarts of nodes",
            edges: edges(node::TRANSITIONS),
            subjects: restarts(record),
        },
        Machine {
            name: "kraft-migration",
            title: "Migration to a dynamic quorum",
            edges: edges(migrate::TRANSITIONS),
            subjects: vec![subject("quorum", &record.quorum_migration, None)],
        },
    ]
}

fn edges<P: Debug, E: Debug>(transitions: &[(P, E, P)]) -> Vec<[String; 3]> {
    let edge =
        |(from, on, to): &(P, E, P)| [from as &dyn Debug, on, to].map(|one| format!("{one:?}"));
    transitions.iter().map(edge).collect()
}

fn subject(name: &str, state: &dyn Debug, since_ms: Option<u64>) -> Subject {
    let since_ms = since_ms.filter(|ms| *ms > 0);
    Subject { name: name.to_owned(), state: format!("{state:?}"), since_ms }
}

fn automatic(recorded: &auto::Recorded) -> Subject {
    subject("cluster", &recorded.phase, Some(recorded.since_ms))
}

fn of_request(kr: &KafkaRebalance) -> Option<Subject> {
    let found = state(kr)?;
    let phase = request::Phase::from_name(found.kind.as_deref()?)?;
    let since = found.last_transition_time.as_deref().and_then(since_ms);
    Some(subject(&kr.name_any(), &phase, since))
}

fn since_ms(text: &str) -> Option<u64> {
    let time = time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339);
    u64::try_from(time.ok()?.unix_timestamp()).ok().map(|seconds| seconds * 1_000)
}

fn leaving(record: &Record) -> Vec<Subject> {
    let broker = |(id, one): (&model::NodeId, &control::scaling::leaving::Leaving)| {
        subject(&format!("broker {id}"), &one.phase, None)
    };
    record.leaving.iter().map(broker).collect()
}

/// Nodes that are not at rest.
fn restarts(record: &Record) -> Vec<Subject> {
    let moving = record.roll.nodes.iter().filter(|(_, one)| one.phase != node::Phase::default());
    moving.map(|(id, one)| subject(&format!("node {id}"), &one.phase, Some(one.since_ms))).collect()
}

#[cfg(test)]
mod tests {
    use control::scaling::leaving::{Kind, Leaving};
    use model::NodeId;
    use serde_json::json;

    use super::*;

    fn states(machines: &[Machine]) -> Vec<(&str, String, String)> {
        let all = machines.iter();
        all.flat_map(|m| m.subjects.iter().map(|s| (m.name, s.name.clone(), s.state.clone())))
            .collect()
    }

    #[test]
    fn every_state_is_a_state_of_its_machine() {
        let id = NodeId::new(3).unwrap();
        let mut record = Record {
            auto_rebalance: Some(auto::Recorded {
                phase: auto::Phase::RebalanceOnScaleUp,
                since_ms: 5,
                ..auto::Recorded::default()
            }),
            quorum_migration: migrate::Phase::Rolling,
            ..Record::default()
        };
        let leaving =
            Leaving { phase: guard::Phase::Draining, kind: Kind::Node, pool: "p".to_owned() };
        record.leaving.insert(id, leaving);
        let kr: KafkaRebalance = serde_json::from_value(json!({
            "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaRebalance",
            "metadata": { "name": "r" }, "spec": {},
            "status": { "conditions": [
                { "type": "Warning", "status": "True" },
                { "type": "Rebalancing", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" },
            ] },
        }))
        .unwrap();
        let template: KafkaRebalance = serde_json::from_value(json!({
            "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaRebalance",
            "metadata": { "name": "t" }, "spec": {},
        }))
        .unwrap();
        let machines = machines(&record, &[kr, template]);
        let found = states(&machines);
        let expected = [
            ("auto-rebalance", "cluster", "RebalanceOnScaleUp"),
            ("rebalance", "r", "Rebalancing"),
            ("leaving-broker", "broker 3", "Draining"),
            ("kraft-migration", "quorum", "Rolling"),
        ];
        let expected = expected.map(|(m, s, state)| (m, s.to_owned(), state.to_owned()));
        assert_eq!(found, expected);
        for machine in &machines {
            for subject in &machine.subjects {
                let is_end =
                    |edge: &[String; 3]| edge[0] == subject.state || edge[2] == subject.state;
                assert!(machine.edges.iter().any(is_end), "{} {}", machine.name, subject.state);
            }
        }
        assert_eq!(machines[0].subjects[0].since_ms, Some(5));
        assert_eq!(machines[1].subjects[0].since_ms, Some(1_767_225_600_000));
    }
}
