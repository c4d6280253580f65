//! Edits and what would come of them, as stories.

use super::*;

fn id(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

/// `a:0-2b c:3-5c`: pools with their nodes: brokers, controllers, combined.
fn nodes(text: &str) -> BTreeMap<NodeId, Member> {
    let mut nodes = BTreeMap::new();
    for token in text.split_whitespace() {
        let (pool, range) = token.split_once(':').unwrap();
        let (range, role) = range.split_at(range.len() - 1);
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let roles = match role {
            "b" => Roles::Broker,
            "c" => Roles::Controller,
            _ => Roles::Combined,
        };
        for n in first.parse().unwrap()..=last.parse().unwrap() {
            nodes.insert(id(n), Member { pool: pool.to_owned(), roles });
        }
    }
    nodes
}

/// A healthy dynamic cluster whose first controller leads; every broker that there is has 5 partitions.
fn facts(now: &str, desired: &str) -> Facts {
    let now = nodes(now);
    let voters: Vec<Replica> = controllers(&now)
        .into_iter()
        .map(|id| Replica {
            id,
            directory: new_disk(id),
            log_end: Some(9_000),
            last_fetch_ms: Some(9_000),
            last_caught_up_ms: Some(9_000),
        })
        .collect();
    let disks = voters.iter().map(|voter| (voter.id, voter.directory.unwrap())).collect();
    let brokers = now.iter().filter(|(_, one)| one.roles.is_broker());
    Facts {
        partitions: Some(brokers.map(|(id, _)| (*id, 5)).collect()),
        desired: nodes(desired),
        invalid: vec![],
        mode: QuorumMode::Dynamic,
        quorum: Some(QuorumView {
            leader: voters[0].id,
            epoch: 1,
            high_watermark: Some(9_000),
            voters,
            observers: vec![],
            fetch_timeout_ms: 2000,
        }),
        disks,
        now,
        skip_check: false,
        drains: true,
        fills: true,
        upkeep: Upkeep::default(),
    }
}

fn down(facts: &mut Facts, node: i32) {
    let voters = &mut facts.quorum.as_mut().unwrap().voters;
    voters.iter_mut().find(|voter| voter.id == id(node)).unwrap().last_caught_up_ms = Some(1);
}

#[track_caller]
fn check(facts: &Facts, outcome: Outcome, expected: &[&str]) {
    let plan = explain(facts);
    let lines: Vec<String> = plan.lines.iter().map(ToString::to_string).collect();
    assert_eq!(lines, expected);
    assert_eq!(plan.outcome(), outcome);
}

const SHAPE: &str = "c:0-2c b:3-5b";

#[test]
fn nothing_changes() {
    check(&facts(SHAPE, SHAPE), Outcome::Nothing, &[]);
    assert_eq!(explain(&facts(SHAPE, SHAPE)).to_string(), "nothing would change\n");
    let mut silent = facts(SHAPE, SHAPE);
    silent.quorum = None;
    check(&silent, Outcome::Nothing, &[]);
}

#[test]
fn brokers_come() {
    let expected = ["start nodes 6 and 7 of b", "move partitions to the new brokers 6 and 7"];
    check(&facts(SHAPE, "c:0-2c b:3-7b"), Outcome::Changes, &expected);
    let mut manual = facts(SHAPE, "c:0-2c b:3-7b");
    manual.fills = false;
    check(&manual, Outcome::Changes, &expected[..1]);
}

#[test]
fn brokers_go() {
    let mut edit = facts(SHAPE, "c:0-2c b:3b");
    edit.partitions.as_mut().unwrap().insert(id(5), 0);
    check(
        &edit,
        Outcome::Changes,
        &[
            "move 5 partitions from broker 4 to others",
            "stop node 4",
            "unregister broker 4",
            "stop node 5",
            "unregister broker 5",
        ],
    );
    edit.drains = false;
    check(
        &edit,
        Outcome::Refused,
        &[
            "refused for node 4: it still has 5 partitions, and no rebalance is set up to move them to \
             other brokers (spec.cruiseControl.autoRebalance, mode remove-brokers)",
            "stop node 5",
            "unregister broker 5",
        ],
    );
    edit.partitions = None;
    let unknown = "it is unknown whether it still has partitions";
    check(
        &edit,
        Outcome::Refused,
        &[&format!("refused for node 4: {unknown}"), &format!("refused for node 5: {unknown}")],
    );
    edit.skip_check = true;
    let all = ["stop node 4", "unregister broker 4", "stop node 5", "unregister broker 5"];
    check(&edit, Outcome::Changes, &all);
}

#[test]
fn controllers_come_and_go() {
    check(
        &facts(SHAPE, "c:0-2c c:6-7c b:3-5b"),
        Outcome::Changes,
        &[
            "start nodes 6 and 7 of c",
            "add controller 6 to the voters",
            "add controller 7 to the voters",
        ],
    );
    check(
        &facts("c:0-4c b:5b", "c:2-4c b:5b"),
        Outcome::Changes,
        &[
            "remove controller 1 from the voters",
            "remove controller 0 from the voters",
            "stop node 0",
            "stop node 1",
        ],
    );
}

#[test]
fn a_pool_is_replaced_by_another() {
    check(
        &facts("old:0-2c b:3b", "new:4-6c b:3b"),
        Outcome::Changes,
        &[
            "start nodes 4, 5 and 6 of new",
            "add controller 4 to the voters",
            "add controller 5 to the voters",
            "add controller 6 to the voters",
            "remove controller 1 from the voters",
            "remove controller 2 from the voters",
            "remove controller 0 from the voters",
            "stop node 0",
            "stop node 1",
            "stop node 2",
        ],
    );
}

#[test]
fn a_dead_controller_is_replaced() {
    let mut edit = facts("c:0-2c b:3b", "c:0-1c c:4c b:3b");
    down(&mut edit, 2);
    check(
        &edit,
        Outcome::Changes,
        &[
            "remove controller 2, which is gone or far behind, from the voters",
            "start node 4 of c",
            "add controller 4 to the voters",
            "stop node 2",
        ],
    );
}

#[test]
fn an_unsafe_scale_down_is_refused() {
    let mut edit = facts("c:0-2c b:3b", "c:0c b:3b");
    edit.quorum.as_mut().unwrap().leader = id(1);
    down(&mut edit, 0);
    check(
        &edit,
        Outcome::Refused,
        &[
            "refused for nodes 1 and 2: controllers 1 and 2 stay: the voters that would be left (1 in all) \
           have no majority that has caught up; behind: 0. Start these, or change the spec",
        ],
    );
}

#[test]
fn a_quorum_that_cannot_be_seen_promises_nothing() {
    let mut edit = facts("c:0-2c b:3b", "c:0-1c b:3-4b");
    edit.quorum = None;
    check(
        &edit,
        Outcome::Refused,
        &[
            "start node 4 of b",
            "refused for node 2: the quorum could not be described",
            "move partitions to the new broker 4",
        ],
    );
}

#[test]
fn roles_come_and_go() {
    check(
        &facts("x:0-2x", "x:0-2b c:3-5c"),
        Outcome::Changes,
        &[
            "start nodes 3, 4 and 5 of c",
            "add controller 3 to the voters",
            "add controller 4 to the voters",
            "add controller 5 to the voters",
            "remove controller 1 from the voters",
            "remove controller 2 from the voters",
            "remove controller 0 from the voters",
            "restart node 0 as broker (was broker,controller)",
            "restart node 1 as broker (was broker,controller)",
            "restart node 2 as broker (was broker,controller)",
        ],
    );
    check(
        &facts("c:0c b:1-2b", "c:0c b:1-2x"),
        Outcome::Changes,
        &[
            "restart node 1 as broker,controller (was broker)",
            "restart node 2 as broker,controller (was broker)",
            "add controller 1 to the voters",
            "add controller 2 to the voters",
        ],
    );
    check(
        &facts("x:0-2x b:3b", "x:0-2c b:3b"),
        Outcome::Changes,
        &[
            "move 5 partitions from broker 0 to others",
            "restart node 0 as controller (was broker,controller)",
            "unregister broker 0",
            "move 5 partitions from broker 1 to others",
            "restart node 1 as controller (was broker,controller)",
            "unregister broker 1",
            "move 5 partitions from broker 2 to others",
            "restart node 2 as controller (was broker,controller)",
            "unregister broker 2",
        ],
    );
}

#[test]
fn a_broker_becomes_a_controller() {
    check(
        &facts("c:0c b:1-2b", "c:0c b:2b d:1c"),
        Outcome::Changes,
        &[
            "restart node 1 as broker,controller (was broker)",
            "add controller 1 to the voters",
            "move 5 partitions from broker 1 to others",
            "restart node 1 as controller (was broker,controller)",
            "unregister broker 1",
        ],
    );
}

#[test]
fn a_static_quorum_keeps_its_controllers_and_lets_brokers_come() {
    let mut edit = facts("c:0-2c b:3b", "c:0-1c c:5c b:3-4b");
    edit.mode = QuorumMode::Static;
    let lines = explain(&edit).lines;
    assert_eq!(lines[0], Line::Start { pool: "b".to_owned(), nodes: [id(4)].into() });
    let Line::Refused { nodes, why } = &lines[1] else { panic!("{lines:?}") };
    assert_eq!(*nodes, [id(2), id(5)].into());
    assert!(why.contains("strimzi.io/kraft-quorum-migration"));
    assert!(!lines.contains(&Line::Stop(id(2))));
    assert_eq!(explain(&edit).outcome(), Outcome::Refused);
}

#[test]
fn an_invalid_edit_is_refused_as_a_whole() {
    let mut edit = facts(SHAPE, "c:0-2c b:3-9b");
    edit.invalid = vec![Note::new(
        crate::conditions::Reason::Spec(crate::cluster::validate::Reason::NoBroker),
        "a cluster needs a broker",
    )];
    check(&edit, Outcome::Refused, &["refused: a cluster needs a broker (NoBroker)"]);
}

#[test]
fn the_last_broker_stays() {
    check(
        &facts("c:0c b:1b", "c:0c"),
        Outcome::Refused,
        &["refused for node 1: it would be the last broker"],
    );
}

#[test]
fn exit_codes_are_the_documented_ones() {
    use Outcome::{Changes, Nothing, Refused, Unknown};
    assert_eq!(Unknown.exit_code(), 3);
    for (outcome, expected) in [(Nothing, Unknown), (Changes, Changes), (Refused, Refused)] {
        assert_eq!((outcome.or_unknown(true), outcome.or_unknown(false)), (expected, outcome));
    }
    let codes = [Outcome::Nothing, Outcome::Changes, Outcome::Refused].map(Outcome::exit_code);
    assert_eq!(codes, [0, 2, 3]);
}

#[test]
fn disks_settings_and_restarts_have_their_place_in_the_order() {
    let mut edit = facts("c:0-2c b:3-5b", "c:0-2c b:3-4b b:6b");
    edit.partitions.as_mut().unwrap().remove(&id(5));
    let setting = |value: Option<&str>, node: Option<i32>| Setting {
        key: "log.cleaner.threads".to_owned(),
        value: value.map(str::to_owned),
        node: node.map(id),
    };
    let grown = Growth { claim: "d-3".into(), from: "1Gi".into(), to: "2Gi".into() };
    edit.upkeep = Upkeep {
        blocked: vec!["the cluster is paused".to_owned()],
        taken_back: [id(4)].into(),
        new_claims: [(id(6), vec!["d-6".to_owned(), "e-6".to_owned()])].into(),
        grown: vec![grown],
        objects: vec![
            Object { name: "Service s".to_owned(), exists: false },
            Object { name: "Service t".to_owned(), exists: true },
        ],
        unclear: vec!["x".to_owned(), "y".to_owned()],
        migrates: true,
        metadata: Some(Ok("4.3-IV0".to_owned())),
        changes: vec![setting(Some("2"), None), setting(None, Some(3))],
        restarts: vec![Restart { node: id(3), why: vec!["Kafka 4.1.2 to 4.3.1".to_owned()] }],
        claims: [(id(5), vec![("d-5".to_owned(), true), ("e-5".to_owned(), false)])].into(),
    };
    check(
        &edit,
        Outcome::Refused,
        &[
            "keep broker 4",
            "make claims d-6 and e-6",
            "grow claim d-3 from 1Gi to 2Gi",
            "make Service s",
            "change Service t",
            "start node 6 of b",
            "set log.cleaner.threads to 2 on all nodes, without a restart",
            "reset log.cleaner.threads to its default on node 3, without a restart",
            "change x and y; only Kafka can tell whether nodes have to be restarted for it",
            "restart node 3: Kafka 4.1.2 to 4.3.1",
            "stop node 5",
            "unregister broker 5",
            "delete claim d-5 and the data on it",
            "keep claim e-5 with its data",
            "change the metadata version to 4.3-IV0",
            "move partitions to the new broker 6",
            "not yet: the cluster is paused",
        ],
    );
    edit.upkeep.blocked.clear();
    assert_eq!(explain(&edit).outcome(), Outcome::Changes);
    edit.upkeep.metadata = Some(Err("4.9 is no version".to_owned()));
    let lines = explain(&edit).lines;
    let refused = "refused for the cluster: 4.9 is no version";
    assert!(lines.iter().any(|line| line.to_string() == refused), "{lines:?}");
}

#[test]
fn nothing_holds_up_what_does_not_happen() {
    let mut edit = facts(SHAPE, SHAPE);
    edit.upkeep.blocked.push("the cluster is paused".to_owned());
    check(&edit, Outcome::Nothing, &[]);
}

#[test]
fn a_cluster_that_is_not_there_is_made() {
    let mut edit = facts("c:0c", "c:0-2c b:3-4b");
    edit.now.clear();
    edit.quorum = None;
    edit.partitions = None;
    edit.upkeep.new_claims.insert(id(3), vec!["d-3".to_owned()]);
    check(
        &edit,
        Outcome::Changes,
        &["make claim d-3", "start nodes 3 and 4 of b", "start nodes 0, 1 and 2 of c"],
    );
}

#[test]
fn a_static_quorum_is_made_dynamic_on_request_and_a_dynamic_one_is_not() {
    let mut edit = facts(SHAPE, SHAPE);
    edit.upkeep.migrates = true;
    check(&edit, Outcome::Nothing, &[]);
    edit.mode = QuorumMode::Static;
    check(
        &edit,
        Outcome::Changes,
        &[
            "make the quorum dynamic, for good: raise kraft.version when every controller has caught up, \
           then restart all nodes, one after another",
        ],
    );
}
