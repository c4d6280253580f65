//! Settings: what is compared, what is hashed, what is changed how.

use super::*;

const BROKER: Node = Node { roles: Roles::Broker, version: (4, 3) };
const COMBINED: Node = Node { roles: Roles::Combined, version: (4, 3) };
const CONTROLLER: Node = Node { roles: Roles::Controller, version: (4, 3) };
const OLD_CONTROLLER: Node = Node { roles: Roles::Controller, version: (4, 1) };

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// What Kafka says of a setting: where each value comes from, the one in force first.
fn says(read_only: bool, synonyms: &[(Source, &str)]) -> Described {
    let synonyms: Vec<_> =
        synonyms.iter().map(|(from, v)| (*from, Some((*v).to_owned()))).collect();
    Described {
        value: synonyms.first().and_then(|(_, value)| value.clone()),
        source: synonyms.first().map_or(Source::Default, |(source, _)| *source),
        read_only,
        sensitive: false,
        synonyms,
    }
}

fn set(key: &str, value: &str) -> Change {
    Change::Set(key.to_owned(), value.to_owned())
}

fn delete(key: &str) -> Change {
    Change::Delete(key.to_owned())
}

/// The difference for one setting.
fn one(node: Node, key: &str, desired: Option<&str>, described: Described) -> Diff {
    let desired = desired.map(|value| map(&[(key, value)])).unwrap_or_default();
    let described = BTreeMap::from([(key.to_owned(), described)]);
    let diff = diff(node, &desired, &described);
    // Values that are left out make no difference.
    assert_eq!(super::diff(node, &shown(node, desired), &described), diff, "{key}");
    diff
}

use Source::{Default as Builtin, DynamicCluster, DynamicNode, File};

#[test]
fn what_differs_is_changed_where_kafka_allows_it() {
    type Row<'a> = (&'a str, Node, &'a str, Option<&'a str>, Described, Diff);
    let none = Diff::default;
    let node = |change| Diff { on_node: vec![change], ..Diff::default() };
    let cluster = |change| Diff { on_cluster: vec![change], ..Diff::default() };
    let restart = |key: &str, running: &str, desired: Option<&str>| {
        let (running, desired) = (Some(running.to_owned()), desired.map(str::to_owned));
        let difference = Difference { key: key.to_owned(), running, desired };
        Diff { restart: vec![difference], ..Diff::default() }
    };
    let (hours, isr) = ("log.retention.hours", "min.insync.replicas");
    let (threads, map) = ("log.cleaner.threads", "listener.security.protocol.map");
    let election = "controller.quorum.election.timeout.ms";
    #[rustfmt::skip]
    let rows: Vec<Row<'_>> = vec![
        ("nothing differs", BROKER, threads, Some("1"), says(false, &[(Builtin, "1")]), none()),
        ("min-ISR is changed for the cluster", BROKER, isr, Some("2"), says(false, &[(File, "1")]), cluster(set(isr, "2"))),
        ("min-ISR is never taken back", BROKER, isr, None, says(false, &[(DynamicCluster, "2"), (Builtin, "1")]), cluster(set(isr, "1"))),
        ("read-only needs a restart", BROKER, hours, Some("24"), says(true, &[(File, "168")]), restart(hours, "168", Some("24"))),
        ("read-only, no longer desired", BROKER, hours, None, says(true, &[(File, "24"), (Builtin, "168")]), restart(hours, "24", None)),
        ("in the file, but as it is by itself", BROKER, hours, None, says(true, &[(File, "168"), (Builtin, "168")]), none()),
        ("a broker's key on a controller is not read", CONTROLLER, hours, Some("24"), says(true, &[(File, "168")]), none()),
        ("but on a combined node it is", COMBINED, hours, Some("24"), says(true, &[(File, "168")]), restart(hours, "168", Some("24"))),
        ("a controller's key on a broker is not read", BROKER, election, Some("9"), says(true, &[(File, "1000")]), none()),
        ("on a controller it is", CONTROLLER, election, Some("9"), says(true, &[(File, "1000")]), restart(election, "1000", Some("9"))),
        ("static voters concern brokers too", BROKER, "controller.quorum.voters", Some("1@a:1"), says(true, &[(File, "1@b:1")]), restart("controller.quorum.voters", "1@b:1", Some("1@a:1"))),
        ("listeners' settings belong to the node", BROKER, map, Some("A:SSL"), says(false, &[(File, "A:PLAINTEXT")]), node(set(map, "A:SSL"))),
        ("a controller takes changes", CONTROLLER, "max.connections", Some("9"), says(false, &[(Builtin, "7")]), cluster(set("max.connections", "9"))),
        ("also before 4.2, with the whole cluster", OLD_CONTROLLER, "max.connections", Some("9"), says(false, &[(Builtin, "7")]), cluster(set("max.connections", "9"))),
        ("a controller takes changes of its own", CONTROLLER, "ssl.cipher.suites", Some("a"), says(false, &[(Builtin, "")]), node(set("ssl.cipher.suites", "a"))),
        ("but before 4.2 it did not", OLD_CONTROLLER, "ssl.cipher.suites", Some("a"), says(false, &[(Builtin, "")]), restart("ssl.cipher.suites", "", Some("a"))),
        ("set while it ran, no longer desired", BROKER, threads, None, says(false, &[(DynamicCluster, "4"), (Builtin, "1")]), cluster(delete(threads))),
        ("in the file: the default is set instead", BROKER, threads, None, says(false, &[(File, "4"), (Builtin, "1")]), cluster(set(threads, "1"))),
        ("R29 set on one node by hand, and to be changed", BROKER, threads, Some("3"), says(false, &[(DynamicNode, "4"), (Builtin, "1")]),
            Diff { on_node: vec![delete(threads)], on_cluster: vec![set(threads, "3")], ..none() }),
        ("R29 set on one node by hand, and to be removed", BROKER, threads, None, says(false, &[(DynamicNode, "4"), (Builtin, "1")]), node(delete(threads))),
        ("set by hand over what is right", BROKER, threads, Some("3"), says(false, &[(DynamicNode, "4"), (DynamicCluster, "3"), (Builtin, "1")]), node(delete(threads))),
        ("cordoned directories, set", BROKER, "cordoned.log.dirs", Some("*"), says(false, &[(Builtin, "")]), node(set("cordoned.log.dirs", "*"))),
        ("cordoned directories, taken back", BROKER, "cordoned.log.dirs", None, says(false, &[(DynamicNode, "*"), (Builtin, "")]), node(delete("cordoned.log.dirs"))),
        ("cordoned directories, as they are", BROKER, "cordoned.log.dirs", Some("*"), says(false, &[(DynamicNode, "*"), (Builtin, "")]), none()),
        ("a throttle is not ours", BROKER, "leader.replication.throttled.rate", None, says(false, &[(DynamicNode, "9")]), none()),
    ];
    for (name, node, key, desired, described, expected) in rows {
        assert_eq!(one(node, key, desired, described), expected, "{name}");
    }
}

#[test]
fn nobody_is_restarted_for_these() {
    for key in [
        "node.id",
        "broker.id",
        "broker.rack",
        "advertised.listeners",
        "controller.quorum.bootstrap.servers",
    ] {
        for node in [BROKER, COMBINED, CONTROLLER] {
            let described = || says(true, &[(File, "1")]);
            assert_eq!(one(node, key, Some("2"), described()), Diff::default(), "{key}");
            assert_eq!(one(node, key, None, described()), Diff::default(), "{key}");
        }
    }
}

/// Kafka shows `log.retention.hours` as coming from the file when `log.retention.ms` is in it.
#[test]
fn a_synonym_in_the_file_is_no_value_of_its_own() {
    let hours =
        Described { value: Some("168".into()), ..says(true, &[(File, "1000"), (Builtin, "168")]) };
    assert_eq!(one(BROKER, "log.retention.hours", None, hours), Diff::default());
    let minutes = Described { value: None, ..says(true, &[(File, "24"), (Builtin, "168")]) };
    assert_eq!(one(BROKER, "log.retention.minutes", None, minutes), Diff::default());
}

#[test]
fn r28_changes_are_sorted_by_whom_they_concern() {
    let desired = map(&[
        ("log.cleaner.threads", "3"),
        ("max.connections", "9"),
        ("ssl.cipher.suites", "a"),
        ("listeners", "A://:1"),
    ]);
    let keys = desired.keys().cloned();
    let described = keys.map(|key| (key, says(false, &[(Builtin, "0")]))).collect();
    let diff = diff(BROKER, &desired, &described);
    assert_eq!((diff.on_node.len(), diff.on_cluster.len()), (2, 2));
    assert_eq!(diff.restart_keys(), Vec::<String>::new());
    assert_eq!(diff.update_keys().len(), 4);
}

#[test]
fn values_are_compared_as_kafka_means_them() {
    let rows = [
        ("0.8", "8e-1", true),
        ("1.024E8", "102400000", true),
        ("102400000", "102400001", false),
        ("9007199254740993", "9007199254740992", false),
        ("true", "TRUE", true),
        ("a,b", " a , b ", true),
        ("a,b", "b,a", false),
        ("", "", true),
        ("nan", "NaN", false),
        ("1", "one", false),
    ];
    for (running, desired, expected) in rows {
        assert_eq!(same(running, desired), expected, "{running} {desired}");
    }
}

#[test]
fn what_kafka_does_not_show_is_hashed_and_nothing_is_both() {
    let properties = map(&[
        ("node.id", "1"),
        ("broker.rack", "${dir:/a:b}"),
        ("process.roles", "broker"),
        ("log.dirs", "/a"),
        ("advertised.listeners", "A://a:1"),
        ("controller.quorum.bootstrap.servers", "a:1"),
        ("controller.quorum.fetch.timeout.ms", "1"),
        ("listener.name.a-9092.ssl.keystore.type", "PEM"),
        ("ssl.keystore.password", "secret"),
        ("log.cleaner.threads", "${env:THREADS}"),
        ("my.plugin.key", "x"),
        ("super.users", "User:a"),
    ]);
    let hashed: Vec<&str> = restart_hash_input(BROKER, &properties).into_keys().collect();
    let expected = [
        "advertised.listeners",
        "listener.name.a-9092.ssl.keystore.type",
        "log.cleaner.threads",
        "my.plugin.key",
        "ssl.keystore.password",
        "super.users",
    ];
    assert_eq!(hashed, expected);
    for node in [BROKER, COMBINED, CONTROLLER, OLD_CONTROLLER] {
        let hashed = restart_hash_input(node, &properties);
        let both = properties.iter().find(|(key, value)| {
            is_compared(key, value, node) && hashed.contains_key(key.as_str())
        });
        assert_eq!(both, None, "{node:?}");
        let shown = shown(node, properties.clone());
        assert!(shown.keys().eq(properties.keys()), "{node:?}");
        assert!(!shown.values().any(|value| value == "secret" || value == "x"), "{node:?}");
        assert!(hashed.keys().all(|key| shown[*key] == HIDDEN), "{node:?}");
    }
}

#[test]
fn a_key_that_a_kafka_does_not_know_yet_is_hashed_there() {
    let properties = map(&[("cordoned.log.dirs", "*")]);
    let at = |version| restart_hash_input(Node { version, ..BROKER }, &properties).len();
    assert_eq!((at((4, 1)), at((4, 3))), (1, 0));
}

#[test]
fn what_should_be_shown_and_is_not_is_named() {
    let desired = map(&[("log.cleaner.threads", "3"), ("num.io.threads", "3")]);
    let hidden = Described { sensitive: true, value: None, ..says(false, &[]) };
    let described = BTreeMap::from([("num.io.threads".to_owned(), hidden)]);
    let diff = diff(BROKER, &desired, &described);
    assert_eq!(diff.unseen, ["log.cleaner.threads", "num.io.threads"]);
    assert!(!diff.has_updates() && diff.restart.is_empty());
}

#[test]
fn another_value_has_another_digest() {
    let digest = |desired: &str| {
        let described = says(true, &[(File, "168")]);
        one(BROKER, "log.retention.hours", Some(desired), described).restart_digest()
    };
    assert_eq!(digest("24"), digest("24"));
    assert_ne!(digest("24"), digest("25"));
}

/// What a real node said of itself, and the file that it was started with. Recorded with `kafka-admin`;
/// some settings had been changed while it ran.
macro_rules! recorded {
    ($name:literal) => {
        (
            include_str!(concat!("../../../testdata/settings/", $name, ".properties")),
            include_str!(concat!("../../../testdata/settings/", $name, ".tsv")),
        )
    };
}

fn properties(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Name, value, source, read-only, sensitive, and synonyms; a value that is not there is an empty set.
fn descriptions(text: &str) -> BTreeMap<String, Described> {
    let source = |word: &str| match word {
        "DynamicNode" => DynamicNode,
        "DynamicDefault" => DynamicCluster,
        "StaticNode" => File,
        "Default" => Builtin,
        _ => Source::Other,
    };
    let value = |text: &str| Some(text.to_owned()).filter(|text| text != "∅");
    let line = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        let synonyms = cells[5..].iter().filter_map(|cell| cell.split_once('='));
        let described = Described {
            value: value(cells[1]),
            source: source(cells[2]),
            read_only: cells[3] == "true",
            sensitive: cells[4] == "true",
            synonyms: synonyms.map(|(from, text)| (source(from), value(text))).collect(),
        };
        (cells[0].to_owned(), described)
    };
    text.lines().map(line).collect()
}

#[test]
fn real_nodes_differ_from_their_files_only_where_they_were_changed_while_they_ran() {
    let threads = "background.threads";
    let rows = [
        (BROKER, recorded!("4.3.1-broker"), vec![delete(threads)]),
        (COMBINED, recorded!("4.3.1-combined"), vec![delete(threads)]),
        (CONTROLLER, recorded!("4.3.1-controller"), vec![]),
        (Node { version: (4, 1), ..BROKER }, recorded!("4.1.2-broker"), vec![delete(threads)]),
        (OLD_CONTROLLER, recorded!("4.1.2-controller"), vec![]),
    ];
    for (node, (file, described), on_node) in rows {
        let diff = diff(node, &properties(file), &descriptions(described));
        // Controllers do not read the settings of the log cleaner.
        let mut on_cluster = vec![set("log.cleaner.threads", "2"), delete(threads)];
        on_cluster.retain(|change| node.roles.is_broker() || change.key() == threads);
        assert_eq!(diff, Diff { on_node, on_cluster, ..Diff::default() }, "{node:?}");
    }
}

#[test]
fn every_setting_that_a_real_node_shows_is_known_and_no_hidden_one_is() {
    for ((_, described), version) in
        [(recorded!("4.3.1-broker"), (4, 3)), (recorded!("4.1.2-broker"), (4, 1))]
    {
        for (key, described) in descriptions(described) {
            assert_eq!(names::is_shown(&key, version), !described.sensitive, "{key}");
        }
    }
}
