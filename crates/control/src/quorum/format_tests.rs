//! The scenario table of formatting, and what holds for any facts.

use proptest::prelude::*;

use super::*;

const A: &str = "r9VGTiw2QUCoDUadCt6q2g";
const B: &str = "Anjr8banTey_LqVZsppzYg";
const LIST: &str = "0@c0:9090:r9VGTiw2QUCoDUadCt6q2g,1@c1:9090:Anjr8banTey_LqVZsppzYg";

fn cluster(name: &str) -> ClusterId {
    ClusterId::new(name).unwrap()
}

fn node(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

/// A disk in one word: `-` empty, `voters` and `begun` unfinished, `new` formatted, `used` formatted and
/// run on, `cluster` and `node` those of another owner, `files` foreign, `broken` unreadable.
fn disk(word: &str) -> Disk {
    let stamp = |name, id, used| Disk::Formatted {
        stamp: Stamp { cluster: cluster(name), node: node(id), directory: B.parse().ok() },
        used,
    };
    match word {
        "-" => Disk::Empty,
        "begun" => Disk::Unfinished { has_voters: false },
        "voters" => Disk::Unfinished { has_voters: true },
        "new" => stamp("ours", 0, false),
        "used" => stamp("ours", 0, true),
        "cluster" => stamp("theirs", 0, true),
        "node" => stamp("ours", 7, true),
        "files" => Disk::Foreign { example: "photos".to_owned() },
        "broken" => Disk::Unreadable { why: "I/O error".to_owned() },
        other => panic!("no disk is called {other}"),
    }
}

/// Facts in one line: mode, roles, whether it is listed and seen, then the disks, metadata first.
fn facts(line: &str) -> Facts {
    let words: Vec<_> = line.split_whitespace().collect();
    let dir =
        |(index, word): (usize, &&str)| LogDir { path: format!("/d{index}"), disk: disk(word) };
    let mut dirs: Vec<_> = words[3..].iter().enumerate().map(dir).collect();
    Facts {
        mode: match words[0] {
            "static" => QuorumMode::Static,
            "dynamic" => QuorumMode::Dynamic,
            _ => QuorumMode::Unknown,
        },
        roles: words[1].parse().unwrap(),
        cluster: cluster("ours"),
        node: node(0),
        initial: if words[2] == "unlisted" { "" } else { LIST }.parse().unwrap(),
        replaced: words[2] == "replaced",
        seen: match words[2] {
            "seen" | "replaced" => Some(true),
            "unseen" | "unlisted" => Some(false),
            _ => None,
        },
        metadata: dirs.remove(0),
        others: dirs,
    }
}

/// A decision in one line: what is done, then what is noted.
fn show(decision: &Decision) -> String {
    let act = match &decision.act {
        Act::Leave => "leave".to_owned(),
        Act::Format(Format { voters, ignore_formatted }) => {
            let flag = match voters {
                Voters::Static => "plain".to_owned(),
                Voters::NoInitialControllers => "-N".to_owned(),
                Voters::InitialControllers(list) => {
                    assert_eq!(list.to_string(), LIST);
                    "-I".to_owned()
                }
            };
            flag + if *ignore_formatted { " -g" } else { "" }
        }
        Act::Refuse(reason) => {
            let name = format!("{reason:?}");
            format!("refuse {}", name.split([' ', '{']).next().unwrap_or_default())
        }
    };
    let note = |note: &Note| match note {
        Note::MetadataLost { .. } => " +lost",
        Note::ComesBackAsObserver { .. } => " +observer",
        Note::DiskUnreadable { .. } => " +unreadable",
    };
    act + &decision.notes.iter().map(note).collect::<String>()
}

fn reason(line: &str) -> Reason {
    match decide(&facts(line)).act {
        Act::Refuse(reason) => reason,
        act @ (Act::Leave | Act::Format(_)) => panic!("{line}: {act:?}"),
    }
}

fn check(rows: &[(&str, &str)]) {
    for (line, expected) in rows {
        assert_eq!(show(&decide(&facts(line))), *expected, "{line}");
    }
}

#[test]
#[rustfmt::skip]
fn a_new_cluster() {
    check(&[
        ("dynamic controller        unseen   -",      "-I"),
        ("dynamic broker,controller unseen   -",      "-I"),
        ("dynamic broker            unseen   -",      "-N"),
        ("dynamic broker            unlisted -",      "-N"),
        ("dynamic controller        unseen   - - -",  "-I"),
        ("static  controller        unlisted -",      "plain"),
        ("static  broker,controller unlisted -",      "plain"),
        ("static  broker            unlisted - -",    "plain"),
        // A static cluster stays static, whatever list somebody left in its configuration.
        ("static  controller        unseen   -",      "plain"),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_node_that_joins_later() {
    check(&[
        ("dynamic controller        unlisted -",   "-N"),
        ("dynamic broker,controller unlisted -",   "-N"),
        ("dynamic broker            unlisted - -", "-N"),
    ]);
}

#[test]
#[rustfmt::skip]
fn what_is_formatted_is_left() {
    check(&[
        ("dynamic controller        unseen   new",       "leave"),
        ("dynamic controller        seen     used",      "leave"),
        ("dynamic controller        ?        used",      "leave"),
        ("dynamic broker,controller seen     used used", "leave"),
        ("dynamic broker            unlisted used new",  "leave"),
        ("static  controller        unlisted used",      "leave"),
        // A node that only restarts needs nobody to know the mode.
        ("unknown controller        ?        used",      "leave"),
        ("unknown broker            unlisted used used", "leave"),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_controller_never_gets_an_identity_back() {
    check(&[
        // P1: a lost disk under the old identity would be a voter without memory.
        ("dynamic controller        seen     -",          "-N +observer"),
        ("dynamic broker,controller seen     -",          "-N +observer"),
        // P2: an id that is used again would bring its old voters along.
        ("dynamic controller        seen     - -",        "-N +observer"),
        // The same if only the metadata's disk is gone, even before anybody has seen it.
        ("dynamic broker,controller seen     - used",     "-N -g +lost +observer"),
        ("dynamic broker,controller unseen   - used",     "-N -g +lost +observer"),
        ("dynamic broker,controller ?        - used",     "-N -g +lost +observer"),
        ("dynamic controller        unlisted - used",     "-N -g +lost"),
        ("dynamic broker            unlisted - used",     "-N -g +lost"),
        // A disk more is not a new node.
        ("dynamic controller        unseen   used -",     "-N -g"),
        ("dynamic broker,controller seen     used - new", "-N -g"),
        ("static  broker,controller unlisted used -",     "plain -g"),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_controller_of_a_static_quorum_never_votes_with_an_empty_log() {
    check(&[
        ("static  controller        seen     -",           "refuse MetadataLost"),
        ("static  broker,controller seen     - -",         "refuse MetadataLost"),
        ("static  controller        seen     begun",       "refuse MetadataLost"),
        ("static  controller        ?        -",           "refuse SeenUnknown"),
        // Another disk of the node says that it has lived, whoever was seen.
        ("static  broker,controller seen     - used",      "refuse MetadataLost"),
        ("static  broker,controller unseen   - used",      "refuse MetadataLost"),
        ("static  broker,controller ?        - used",      "refuse MetadataLost"),
        // The others have everything, and a user says that the disk is lost.
        ("static  controller        replaced -",           "plain"),
        ("static  controller        replaced begun",       "plain"),
        ("static  broker,controller replaced - used",      "plain -g +lost"),
        // It is about the metadata of controllers only.
        ("static  controller        seen     used",        "leave"),
        ("static  broker,controller seen     used -",      "plain -g"),
        ("static  broker            seen     -",           "plain"),
        ("static  broker            ?        - used",      "plain -g +lost"),
        // It means nothing in a dynamic quorum, where an empty disk is an observer's.
        ("dynamic controller        replaced -",           "-N +observer"),
        ("unknown controller        replaced -",           "refuse ModeUnknown"),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_format_that_was_interrupted_is_finished() {
    check(&[
        ("dynamic controller        unseen   voters",   "-I"),
        ("dynamic controller        unseen   begun",    "-I"),
        ("dynamic broker,controller unseen   - new",    "-I -g"),
        ("dynamic broker,controller unseen   voters new", "-I -g"),
        ("dynamic broker            unlisted begun new",  "-N -g"),
        ("dynamic controller        seen     begun",    "-N +observer"),
        // The tool would leave the old voters there under the new identity.
        ("dynamic controller        seen     voters",   "refuse StaleVoters"),
        ("dynamic controller        unlisted voters",   "refuse StaleVoters"),
        ("static  controller        unlisted begun",    "plain"),
        ("static  controller        unlisted voters",   "refuse StaleVoters"),
    ]);
}

#[test]
#[rustfmt::skip]
fn what_is_unknown_is_not_guessed() {
    check(&[
        ("unknown controller        unseen   -",      "refuse ModeUnknown"),
        ("unknown broker            unlisted -",      "refuse ModeUnknown"),
        ("unknown broker            unlisted used -", "refuse ModeUnknown"),
        ("dynamic controller        ?        -",      "refuse SeenUnknown"),
        ("dynamic broker,controller ?        - new",  "refuse SeenUnknown"),
        // Whether a broker was seen is no question.
        ("dynamic broker            ?        -",      "-N"),
        ("dynamic controller        ?        used -", "-N -g"),
    ]);
}

#[test]
#[rustfmt::skip]
fn what_is_not_ours_is_left_alone() {
    check(&[
        ("dynamic controller        unseen   cluster",     "refuse OtherCluster"),
        ("dynamic controller        unseen   node",        "refuse OtherNode"),
        ("dynamic broker            unlisted used cluster","refuse OtherCluster"),
        ("dynamic broker            unlisted - node",      "refuse OtherNode"),
        ("static  controller        unlisted cluster",     "refuse OtherCluster"),
        ("unknown controller        ?        node",        "refuse OtherNode"),
        ("dynamic controller        unseen   files",       "refuse Foreign"),
        ("dynamic broker            unlisted used files",  "refuse Foreign"),
        ("dynamic controller        unseen   broken",      "refuse Unreadable"),
        // Kafka lives on with a broken disk, but not with the metadata's.
        ("dynamic broker            unlisted used broken", "leave +unreadable"),
        ("dynamic broker            unlisted - broken",    "-N +unreadable"),
        ("dynamic broker            unlisted broken used", "refuse Unreadable"),
    ]);
}

#[test]
fn sentences_name_the_place_and_what_to_do() {
    let sentence = |line: &str| reason(line).to_string();
    assert_eq!(
        sentence("dynamic broker unlisted used cluster"),
        "/d1 belongs to the cluster theirs and not to ours: give the node the disk of its own \
         cluster, or an empty one"
    );
    assert!(sentence("dynamic broker unlisted files").contains("/d0 has files (such as photos)"));
    assert!(sentence("unknown broker unlisted -").contains("waiting for the operator"));
    let lost = sentence("static controller seen -");
    assert!(lost.contains("/d0") && lost.contains("gregor.io/disk-replaced=true"), "{lost}");
    let decision = decide(&facts("dynamic controller seen -"));
    assert!(decision.notes[0].to_string().contains(&format!("directory id {A} is gone")));
}

#[test]
fn only_what_the_operator_can_tell_is_worth_waiting_for() {
    assert!(reason("unknown broker unlisted -").may_pass());
    assert!(reason("dynamic controller ? -").may_pass());
    assert!(reason("static controller seen -").may_pass());
    for disk in ["cluster", "node", "files", "broken"] {
        assert!(!reason(&format!("dynamic controller unseen {disk}")).may_pass());
    }
}

const DISKS: [&str; 9] =
    ["-", "begun", "voters", "new", "used", "cluster", "node", "files", "broken"];

fn any_facts() -> impl Strategy<Value = Facts> {
    let mode = prop::sample::select(vec!["static", "dynamic", "unknown"]);
    let roles = prop::sample::select(vec!["broker", "controller", "broker,controller"]);
    let seen = prop::sample::select(vec!["seen", "unseen", "?", "unlisted", "replaced"]);
    let disks = prop::collection::vec(prop::sample::select(DISKS.to_vec()), 1..4);
    (mode, roles, seen, disks)
        .prop_map(|(mode, roles, seen, disks)| format!("{mode} {roles} {seen} {}", disks.join(" ")))
        .prop_map(|line| facts(&line))
}

fn format_of(decision: &Decision) -> Option<&Format> {
    match &decision.act {
        Act::Format(format) => Some(format),
        Act::Leave | Act::Refuse(_) => None,
    }
}

proptest! {
    #[test]
    fn who_was_seen_never_gets_its_identity_again(mut facts in any_facts()) {
        facts.seen = Some(true);
        let decision = decide(&facts);
        let voters = format_of(&decision).map(|format| &format.voters);
        prop_assert!(!matches!(voters, Some(Voters::InitialControllers(_))), "{decision:?}");
    }

    #[test]
    fn who_was_seen_in_a_static_quorum_is_not_formatted_without_a_users_word(mut facts in any_facts()) {
        (facts.mode, facts.seen, facts.replaced) = (QuorumMode::Static, Some(true), false);
        let decision = decide(&facts);
        if facts.roles.is_controller() && facts.metadata.needs_format() {
            prop_assert!(format_of(&decision).is_none(), "{decision:?}");
        }
    }

    #[test]
    fn only_an_unseen_listed_controller_with_no_metadata_gets_the_voters(facts in any_facts()) {
        let decision = decide(&facts);
        if let Some(Format { voters: Voters::InitialControllers(list), .. }) = format_of(&decision) {
            prop_assert_eq!(facts.seen, Some(false));
            prop_assert!(facts.roles.is_controller() && list.get(facts.node).is_some());
            prop_assert!(facts.metadata.needs_format());
            prop_assert_eq!(facts.mode, QuorumMode::Dynamic);
        }
    }

    #[test]
    fn formatted_metadata_is_never_formatted_again(facts in any_facts()) {
        let decision = decide(&facts);
        if let (Some(_), Some(format)) = (facts.metadata.stamp(), format_of(&decision)) {
            prop_assert!(format.ignore_formatted);
            prop_assert!(!matches!(format.voters, Voters::InitialControllers(_)));
        }
    }

    #[test]
    fn nothing_starts_on_what_belongs_to_others(facts in any_facts()) {
        let theirs = |dir: &LogDir| matches!(dir.disk, Disk::Foreign { .. })
            || dir.stamp().is_some_and(|s| s.cluster != facts.cluster || s.node != facts.node);
        let decision = decide(&facts);
        if facts.dirs().any(theirs) {
            prop_assert!(matches!(decision.act, Act::Refuse(_)));
        }
    }

    #[test]
    fn what_is_left_is_all_formatted_or_unreadable(facts in any_facts()) {
        let decision = decide(&facts);
        let formatted = facts.dirs().filter(|dir| dir.stamp().is_some()).count();
        match &decision.act {
            Act::Leave => prop_assert!(!facts.dirs().any(LogDir::needs_format) && formatted > 0),
            Act::Format(format) => prop_assert_eq!(format.ignore_formatted, formatted > 0),
            Act::Refuse(_) => {}
        }
    }
}
