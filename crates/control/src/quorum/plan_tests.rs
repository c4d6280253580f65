//! The planner by rows. All small states are walked through in `tests/quorum_plan.rs`.

use super::*;
use crate::conditions::Reason;

fn id(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

fn directory(n: u8) -> DirectoryId {
    DirectoryId::from_bytes([n; 16]).unwrap()
}

/// `3` is node 3 with its disk 3, `3.9` with disk 9; `*` leads, `-` is behind, `?` has never fetched.
fn replica(token: &str) -> (Replica, bool) {
    let bare = token.trim_end_matches(['*', '-', '?']);
    let (node, disk) = bare.split_once('.').unwrap_or((bare, bare));
    let at = match token.chars().last().unwrap() {
        '-' => Some(1),
        '?' => None,
        _ => Some(9_000),
    };
    let replica = Replica {
        id: id(node.parse().unwrap()),
        directory: Some(directory(disk.parse().unwrap())),
        log_end: at,
        last_fetch_ms: at,
        last_caught_up_ms: at,
    };
    (replica, token.ends_with('*'))
}

fn view(voters: &str, observers: &str) -> QuorumView {
    let list = |text: &str| text.split_whitespace().map(replica).collect::<Vec<_>>();
    let (voters, observers) = (list(voters), list(observers));
    let leader = voters.iter().chain(&observers).find(|(_, leads)| *leads).unwrap().0.id;
    let bare = |list: Vec<(Replica, bool)>| list.into_iter().map(|(one, _)| one).collect();
    QuorumView {
        leader,
        epoch: 1,
        high_watermark: Some(9_000),
        voters: bare(voters),
        observers: bare(observers),
        fetch_timeout_ms: 2000,
    }
}

/// Desired controllers, voters and observers. Each node runs and has the disk of its own number, unless
/// it is told otherwise: `4!` does not run, `4=9` has disk 9, `4=` has not told its disk.
fn facts(desired: &str, voters: &str, observers: &str) -> Facts {
    let listener = Listener { name: "CONTROLPLANE-9090".into(), host: "c".into(), port: 9090 };
    let mut facts = Facts {
        mode: QuorumMode::Dynamic,
        desired: BTreeMap::new(),
        disks: (1..=9).map(|n| (id(n), directory(u8::try_from(n).unwrap()))).collect(),
        quorum: (!voters.is_empty()).then(|| view(voters, observers)),
        earlier: None,
        recorded_voters: BTreeMap::new(),
        failed_adds: BTreeMap::new(),
    };
    for token in desired.split_whitespace() {
        let runs = !token.ends_with('!');
        let bare = token.trim_end_matches('!');
        let (node, disk) = bare.split_once('=').unwrap_or((bare, bare));
        let node = id(node.parse().unwrap());
        match disk.parse() {
            Ok(disk) => facts.disks.insert(node, directory(disk)),
            Err(_) => facts.disks.remove(&node),
        };
        let controller = Controller { runs: Some(runs), listeners: vec![listener.clone()] };
        facts.desired.insert(node, controller);
    }
    facts
}

fn ids(ids: &BTreeSet<NodeId>) -> String {
    ids.iter().map(|id| id.to_string()).collect::<Vec<_>>().join(",")
}

fn brief(step: &Step) -> String {
    let disk = |directory: &DirectoryId| directory.to_bytes()[0];
    match step {
        Step::Add { id, directory, .. } => format!("add {id}.{}", disk(directory)),
        Step::Remove { id, directory, why } => {
            let why = match why {
                Removal::Dead => " dead",
                Removal::DiskReplaced => " disk",
                Removal::NotDesired => "",
            };
            format!("remove {id}.{}{why}", disk(directory))
        }
        Step::Wait(list) => {
            let one = |waiting: &Waiting| match waiting {
                Waiting::Mode => "mode".to_owned(),
                Waiting::NotDescribed => "describe".to_owned(),
                Waiting::Leader => "leader".to_owned(),
                Waiting::Majority { caught_up, voters, .. } => format!("{caught_up}/{voters}"),
                Waiting::Pod(id) => format!("pod {id}"),
                Waiting::Disk(id) => format!("disk {id}"),
                Waiting::CatchUp(id) => format!("lag {id}"),
                Waiting::DiskContradicts(id) => format!("contradiction {id}"),
            };
            format!("wait {}", list.iter().map(one).collect::<Vec<_>>().join(" "))
        }
        Step::Settled => "settled".to_owned(),
        Step::Refuse(Refusal::NoControllers) => "refuse none".to_owned(),
        Step::Refuse(Refusal::NoMajority { keep, behind, .. }) => {
            format!("refuse {} for {}", ids(keep), ids(behind))
        }
        Step::QuorumLost(QuorumLost { lost, .. }) => format!("lost {}", ids(lost)),
        Step::StaticRefused { add, remove } => format!("static +{} -{}", ids(add), ids(remove)),
    }
}

fn check(rows: &[(&str, &str, &str, &str, &str)]) {
    for (name, desired, voters, observers, expected) in rows {
        let decision = decide(&facts(desired, voters, observers));
        assert_eq!(brief(&decision.step), *expected, "{name}");
    }
}

#[test]
#[rustfmt::skip]
fn controllers_are_added_one_by_one() {
    check(&[
        ("as desired",                    "1 2 3",     "1* 2 3",     "",        "settled"),
        ("1.A the first of two",         "1 2 3 4 5", "1* 2 3",     "4 5",     "add 4.4"),
        ("and then the other",           "1 2 3 4 5", "1* 2 3 4",   "5",       "add 5.5"),
        ("1.C already done",             "1 2 3 4",   "1* 2 3 4",   "",        "settled"),
        ("from one to three",            "1 2 3",     "1*",         "2 3",     "add 2.2"),
        ("one of two has not caught up", "1 2 3 4 5", "1* 2 3",     "4- 5",    "add 5.5"),
        ("A12 not caught up",            "1 2 3 4",   "1* 2 3",     "4-",      "wait lag 4"),
        ("never fetched",                "1 2 3 4",   "1* 2 3",     "4?",      "wait lag 4"),
        ("P15 ready, and not there at all", "1 2 3 4",   "1* 2 3",     "",        "wait lag 4"),
        ("its pod does not run",         "1 2 3 4!",  "1* 2 3",     "4",       "wait pod 4"),
        ("3.A a broker that is not restarted yet runs as no controller", "1 2 3 4!", "1* 2 3", "4", "wait pod 4"),
        ("its disk is not known",        "1 2 3 4=",  "1* 2 3",     "4",       "wait disk 4"),
        ("P3 the observer is a former self", "1 2 3 4=9", "1* 2 3", "4",       "wait lag 4"),
        ("P11 two observers, one id",    "1 2 3 4=9", "1* 2 3",     "4- 4.9",  "add 4.9"),
        ("P10 brokers follow too, and are not desired", "1 2 3", "1* 2 3",  "7 8 9", "settled"),
        ("P7 one voter is down, the new one is level", "1 2 3 4", "1* 2 3-",   "4",     "add 4.4"),
        ("too few for any change",       "1 2 3 4",   "1* 2- 3-",   "4",       "wait 1/3"),
        ("a lagging voter that stays is no reason for a change", "1 2 3", "1* 2- 3", "", "settled"),
    ]);
}

#[test]
#[rustfmt::skip]
fn controllers_are_removed_one_by_one_and_the_leader_last() {
    check(&[
        ("2.A one less",                  "1 2 3",   "1* 2 3 4",     "", "remove 4.4"),
        ("from five to three",            "1 2 3",   "1* 2 3 4 5",   "", "remove 4.4"),
        ("the leader is among them",      "1 2 3",   "1 2 3 4* 5",   "", "remove 5.5"),
        ("P5 the leader last",            "1 2 3",   "1 2 3 4*",     "", "remove 4.4"),
        ("P5 it leads though it votes no more", "1 2 3", "1 2 3",    "4*", "wait leader"),
        ("2.C already done",              "1 2 3",   "1* 2 3",       "4", "settled"),
        ("from three to one",             "1",       "1* 2 3",       "", "remove 2.2"),
        ("and on",                        "1",       "1* 3",         "", "remove 3.3"),
        ("P6 the dead one first",         "1",       "1* 2 3-",      "", "remove 3.3 dead"),
        ("P6 the healthy one stays",      "1 3",     "1* 2 3-",      "", "refuse 2 for 3"),
        ("the one that would stay is down", "1",     "1- 2* 3",      "", "refuse 2,3 for 1"),
        ("not even the first step to there", "1",    "1- 2* 3 4 5",  "", "refuse 2,3,4,5 for 1"),
        ("a dead one may go all the same", "1",      "1- 2* 3 4-",   "", "remove 4.4 dead"),
        ("two of five are down, and stay", "1 2 3",  "1- 2- 3 4* 5", "", "refuse 4,5 for 1,2"),
        ("one of five is down, and stays", "1 2 3",  "1- 2 3 4* 5",  "", "remove 5.5"),
        ("one of five is down, and goes", "1 2 3",   "1 2 3 4* 5-",  "", "remove 5.5 dead"),
        ("nobody is left",                "",        "1* 2 3",       "", "refuse none"),
        ("too few to remove even a dead one", "1 2 3", "1* 2- 3- 4- 5-", "", "wait 1/5"),
        ("removing a dead one brings the majority back", "1 2 3", "1* 2 3- 4-", "", "remove 4.4 dead"),
    ]);
}

#[test]
#[rustfmt::skip]
fn new_ones_join_before_healthy_old_ones_leave() {
    check(&[
        ("a pool is replaced",           "4 5 6",   "1* 2 3",         "4 5 6", "add 4.4"),
        ("all join first",               "4 5 6",   "1* 2 3 4 5",     "6",     "add 6.6"),
        ("then the old ones go",         "4 5 6",   "1* 2 3 4 5 6",   "",      "remove 2.2"),
        ("P8 replacing a single one",    "2",       "1*",             "2",     "add 2.2"),
        ("P8 and then the old one",      "2",       "1* 2",           "",      "remove 1.1"),
        ("one of the new ones is missing", "4 5 6!", "1* 2 3 4 5",    "",      "wait pod 6"),
        ("a dead one is replaced",       "1 2 4",   "1* 2 3-",        "4",     "remove 3.3 dead"),
        ("and then",                     "1 2 4",   "1* 2",           "4",     "add 4.4"),
        ("it is dead, but too many are", "1 2 4",   "1* 2- 3-",       "4",     "wait 1/3"),
        ("an addition brings the majority back", "1 2 3 4 5", "1* 2 3- 4-", "5", "add 5.5"),
        ("new ones will make the majority", "1 4 5!", "1- 2* 3",      "4",     "add 4.4"),
        ("even before they run",         "1 4 5!",  "1- 2* 3 4",      "",      "wait pod 5"),
        ("new ones will not make it",    "1 4!",    "1- 2* 3",        "",      "refuse 2,3 for 1"),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_replaced_disk_is_another_voter() {
    check(&[
        ("4.A its former self goes",       "1 2 3=9", "1* 2 3-",    "3.9", "remove 3.3 disk"),
        ("P4 and it joins again",          "1 2 3=9", "1* 2",       "3.9", "add 3.9"),
        ("before it has caught up",        "1 2 3=9", "1* 2 3-",    "",    "remove 3.3 disk"),
        ("P4 only if the others are well", "1 2 3=9", "1* 2- 3-",   "3.9", "wait 1/3"),
        ("two of five",                    "1 2 3 4=8 5=9", "1* 2 3 4- 5-", "4.8 5.9", "remove 4.4 disk"),
        ("one at a time",                  "1 2 3 4=8 5=9", "1* 2 3 5-", "4.8 5.9", "remove 5.5 disk"),
        ("unknown is not lost",            "1 2 3=",  "1* 2 3-",    "",    "settled"),
        ("it fetches all the same",        "1 2 3=9", "1* 2 3",     "3.9", "wait contradiction 3"),
        ("a single one, by another",       "1=9 2",   "1- 2*",      "1.9", "remove 1.1 disk"),
        ("with another that leaves",       "1 2=9",   "1* 2- 3",    "2.9", "remove 2.2 disk"),
        ("which then waits for it",        "1 2=9",   "1* 3",       "2.9", "add 2.9"),
        ("P1 a late first start is not a replaced disk", "1 2 3", "1* 2 3?", "", "settled"),
    ]);
}

#[test]
fn what_is_not_known_is_waited_for() {
    let brief = |facts: &Facts| brief(&decide(facts).step);
    let mut unknown = facts("1 2", "1* 2 3", "");
    unknown.mode = QuorumMode::Unknown;
    assert_eq!(brief(&unknown), "wait mode");
    assert_eq!(brief(&facts("1 2", "", "")), "wait describe");
    let mut elected = facts("1 2", "1* 2 3", "");
    elected.quorum.as_mut().unwrap().high_watermark = None;
    assert_eq!(brief(&elected), "wait leader");
}

#[test]
fn a_static_quorum_keeps_its_controllers() {
    for (desired, expected) in [
        ("1 2 3", "settled"),
        ("1 2 3 4", "static +4 -"),
        ("1 2", "static + -3"),
        ("4", "static +4 -1,2,3"),
    ] {
        let mut facts = facts(desired, "1* 2 3", "4");
        facts.mode = QuorumMode::Static;
        for voter in &mut facts.quorum.as_mut().unwrap().voters {
            voter.directory = None;
        }
        assert_eq!(brief(&decide(&facts).step), expected);
    }
    let mut facts = facts("1 2", "1* 2 3", "");
    facts.mode = QuorumMode::Static;
    let note = decide(&facts).step.note().unwrap();
    assert_eq!(note.reason, Reason::StaticQuorum);
    assert!(note.message.contains("strimzi.io/kraft-quorum-migration"), "{}", note.message);
}

#[test]
fn the_metadata_is_lost_when_no_majority_can_have_it() {
    // Recorded voters, the disks now, and whether it is lost.
    let rows = [
        ("1 2 3", "1=8 2=9 3", "lost 1,2"),
        ("1 2 3", "1=7 2=8 3=9", "lost 1,2,3"),
        ("1 2 3", "1=9 2 3", "wait describe"),
        // Two are not heard of: that is not lost.
        ("1 2 3", "1= 2= 3", "wait describe"),
        ("1 2 3", "1=9 2= 3=", "wait describe"),
        ("1 2", "1=9 2", "lost 1"),
        ("1", "1=9", "lost 1"),
        ("1", "1", "wait describe"),
        ("", "1=9", "wait describe"),
    ];
    for (recorded, desired, expected) in rows {
        let mut facts = facts(desired, "", "");
        facts.recorded_voters = recorded
            .split_whitespace()
            .map(|n| (id(n.parse().unwrap()), directory(n.parse().unwrap())))
            .collect();
        assert_eq!(brief(&decide(&facts).step), expected, "{recorded} / {desired}");
    }
}

#[test]
fn a_controller_is_stopped_when_the_voters_without_it_stand() {
    let may = |facts: &Facts, node: i32| may_stop(facts, id(node));
    let removed = facts("1 2 3", "1* 2 3", "4");
    assert_eq!(may(&removed, 4), Ok(()));
    assert_eq!(may(&removed, 3), Err(Hold::Votes));
    assert_eq!(may(&facts("1 2 3", "1 2 3", "4*"), 4), Err(Hold::Leads));
    assert_eq!(may(&facts("1 2 3", "", ""), 4), Err(Hold::Unknown));
    // P4: a former self votes still, so the node has a vote.
    assert_eq!(may(&facts("1 2", "1* 2 3-", "3.9"), 3), Err(Hold::Votes));
    // One whose removal is refused votes on: none would be left, those left have no majority, or the quorum is static.
    assert_eq!(may(&facts("", "1* 2 3", ""), 1), Err(Hold::Refused));
    assert_eq!(may(&facts("3", "1* 2 3-", ""), 1), Err(Hold::Refused));
    let mut fixed = facts("1 2", "1* 2 3", "");
    fixed.mode = QuorumMode::Static;
    assert_eq!(may(&fixed, 3), Err(Hold::Refused));
    let mut unknown = removed.clone();
    unknown.mode = QuorumMode::Unknown;
    assert_eq!(may(&unknown, 4), Err(Hold::Unknown));
    // A13, R9: written is not committed.
    let mut pending = removed;
    let mark = pending.quorum.as_ref().unwrap().mark();
    pending.quorum.as_mut().unwrap().high_watermark = Some(8_999);
    assert_eq!(may(&pending, 4), Err(Hold::NotCommitted));
    pending.quorum.as_mut().unwrap().voters[0].log_end = Some(12_000);
    pending.quorum.as_mut().unwrap().high_watermark = Some(9_000);
    assert_eq!(may(&pending, 4), Err(Hold::NotCommitted));
    pending.earlier = mark;
    assert_eq!(may(&pending, 4), Ok(()));
}

#[test]
fn the_roller_waits_for_controllers_that_have_to_join_again() {
    let unsettled = |desired: &str, voters: &str, observers: &str| {
        super::unsettled(&facts(desired, voters, observers)).map(|list| ids(&list))
    };
    assert_eq!(unsettled("1 2 3", "1* 2 3-", ""), Some(String::new()));
    assert_eq!(unsettled("1 2 3=9", "1* 2 3-", "3.9"), Some("3".to_owned()));
    assert_eq!(unsettled("1 2 3=9", "1* 2", "3.9"), Some("3".to_owned()));
    assert_eq!(unsettled("1 2 3=9", "1* 2 3.9", ""), Some(String::new()));
    assert_eq!(unsettled("1 2 3", "", ""), None);
    let fixed = Facts { mode: QuorumMode::Static, ..facts("1 2 3 4", "1* 2 3", "") };
    assert_eq!(super::unsettled(&fixed), Some(BTreeSet::new()), "4 will not vote");
}

#[test]
fn one_that_cannot_be_added_does_not_hold_up_the_others_and_is_told() {
    let mut facts = facts("1 2 3 4 5", "1* 2 3", "4 5");
    facts.failed_adds.insert(id(4), 4);
    let decision = decide(&facts);
    assert_eq!(brief(&decision.step), "add 5.5");
    assert!(decision.warnings.is_empty());
    facts.failed_adds.insert(id(4), 5);
    let warnings = decide(&facts).warnings;
    assert_eq!(warnings, [Warning::CannotAdd { id: id(4), times: 5 }]);
    assert_eq!(warnings[0].note().reason, Reason::ControllerNotAdded);
}

#[test]
fn an_even_number_is_a_warning() {
    let warnings = |desired: &str| decide(&facts(desired, "1*", "")).warnings;
    assert_eq!(warnings("1"), []);
    assert_eq!(warnings("1 2 3"), []);
    assert_eq!(warnings("1 2 3 4"), [Warning::EvenCount(4)]);
    let two = warnings("1 2");
    assert_eq!(two[0].note().reason.name(), "KafkaKRaftControllerNodeCount");
    assert!(two[0].to_string().starts_with("two controllers are not advisable"));
}

#[test]
fn sentences_name_the_voters() {
    let sentence =
        |desired: &str, voters: &str| decide(&facts(desired, voters, "")).step.to_string();
    assert_eq!(
        sentence("1", "1- 2* 3"),
        "controllers 2 and 3 stay: the voters that would be left (1 in all) have no majority that has \
         caught up; behind: 1. Start these, or change the spec"
    );
    assert_eq!(sentence("1 2 3 4!", "1* 2 3"), "controller 4 does not run as a controller yet");
    assert_eq!(
        sentence("1 2 3=9", "1* 2- 3-"),
        "only 1 of 3 voters have caught up; behind: 2 and 3"
    );
    let refused = |add: &[i32], remove: &[i32]| {
        let set = |list: &[i32]| list.iter().map(|n| id(*n)).collect();
        let text = Step::StaticRefused { add: set(add), remove: set(remove) }.to_string();
        text.split(" (").nth(1).unwrap().split("):").next().unwrap().to_owned()
    };
    assert_eq!(refused(&[4], &[]), "not added: 4");
    assert_eq!(refused(&[], &[3]), "not removed: 3");
    assert_eq!(refused(&[4], &[3]), "not added: 4; not removed: 3");
}

/// [`dynamic_step`] asks others first, so this is a second guard.
#[test]
fn a_voter_is_removed_only_if_the_others_are_a_majority_that_has_caught_up() {
    let rows = [
        ("1* 2 3", 3, true),
        ("1* 2 3-", 2, false),
        ("1* 2 3-", 3, true),
        ("1* 2- 3-", 3, false),
        ("1* 2", 2, true),
        ("1* 2 3 4- 5-", 3, false),
        ("1* 2 3 4- 5-", 5, true),
        ("1*", 1, false),
    ];
    for (voters, node, expected) in rows {
        let facts = facts("", voters, "");
        let view = facts.quorum.as_ref().unwrap();
        let voter = view.voter(id(node)).unwrap();
        assert_eq!(Room::new(&facts, view).may_remove(voter), expected, "{voters} without {node}");
    }
}
