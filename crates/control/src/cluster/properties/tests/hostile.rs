//! Whatever users write, Java reads exactly the settings that were meant, with exactly these values.

use proptest::collection::{btree_map, vec};

use super::*;
use crate::cluster::properties::java;
use crate::cluster::validate::{Known, is_refused, validate};

/// Pieces that mean something to Java, to Kafka or to a reader of lines.
#[rustfmt::skip]
const PIECES: &[&str] = &[
    "\n", "\r", "\r\n", "\t", "\u{c}", "\0", "\u{85}", "\u{2028}", "\u{2029}", "\\", "\\\\", "\\n", "\\u0041",
    "\\u00", " ", "  ", "=", ":", "#", "!", ",", ";", "\"", "'", "${", "}", "é", "😀", "\u{7f}", "\u{1b}[2J",
    "${file:/etc/passwd:root}", "${env:HOME}", "${secrets:ns/name:key}", "$(POD_IP)",
    "${gregordir:/opt/kafka/certs/node:my-pool-7.key}", "\nsuper.users=User:evil\n", "a\\\nb", "://", "@",
    "node.id", "listeners", "a", "b.c", "0",
];

fn hostile() -> impl Strategy<Value = String> {
    let piece = proptest::sample::select(PIECES).prop_map(str::to_owned);
    prop_oneof![
        vec(prop_oneof![piece, any::<String>()], 0..4).prop_map(|pieces| pieces.concat()),
        "[a-z0-9.-]{1,12}",
    ]
}

fn name() -> impl Strategy<Value = String> {
    hostile().prop_filter("a key has a name", |text| !text.is_empty())
}

/// A cluster with texts of the user's wherever there can be one.
fn case(
    config: BTreeMap<String, String>,
    users: &[String],
    hosts: [Option<&String>; 2],
    rack: Option<&String>,
) -> Case {
    let mut case = Case::new(Roles::Broker);
    case.spec.config = config;
    case.spec.authorization = Some(Authorization { super_users: users.to_vec() });
    case.spec.listeners[0].advertised_host = hosts[0].cloned();
    let of_broker =
        BrokerSettings { advertised_host: hosts[1].cloned(), ..BrokerSettings::default() };
    case.spec.listeners[1].brokers.insert(id(7), of_broker);
    case.spec.rack = rack.cloned().map(Rack::Environment);
    case
}

/// Settings that a text of the user's is part of, other than those of `spec.kafka.config`.
const WITH_TEXTS: [&str; 3] = ["advertised.listeners", "super.users", "broker.rack"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, max_global_rejects: 100_000, ..ProptestConfig::default() })]

    /// Whole files, whether or not validation would have let the texts through.
    #[test]
    fn a_text_of_the_users_cannot_become_another_setting(
        config in btree_map(name(), hostile(), 0..6),
        users in vec(hostile(), 0..3),
        hosts in [proptest::option::of(hostile()), proptest::option::of(hostile())],
        rack in proptest::option::of(hostile()),
    ) {
        let case = case(config, &users, [hosts[0].as_ref(), hosts[1].as_ref()], rack.as_ref());
        let mut plain = Case::new(Roles::Broker);
        plain.spec.authorization = Some(Authorization::default());
        plain.spec.rack = rack.as_ref().map(|_| Rack::Environment("A".to_owned()));
        let (server, plain) = (case.server(), plain.server());
        let text = render(&server.properties);
        prop_assert!(text.is_ascii());
        prop_assert_eq!(text.lines().count(), server.properties.len());
        prop_assert_eq!(&java::read(&text), &server.properties);
        for (key, value) in &server.properties {
            let ours = plain.properties.iter().find(|(have, _)| have == key);
            let users = case.spec.config.get(key).filter(|_| !server.left_out.contains(key));
            let added = key.starts_with("config.providers");
            match (ours, users) {
                _ if WITH_TEXTS.contains(&key.as_str()) || added => {}
                (_, Some(users)) => prop_assert_eq!(users, value, "{}", key),
                (Some((_, ours)), None) => prop_assert_eq!(ours, value, "{}", key),
                (None, None) => prop_assert!(false, "{} is nobody's", key),
            }
        }
        for (key, _) in &plain.properties {
            prop_assert!(server.properties.iter().any(|(have, _)| have == key), "{} is lost", key);
        }
    }

    /// What validation lets through is one entry of a list, and refers to no file.
    #[test]
    fn a_text_that_is_let_through_is_one_entry_and_refers_to_nothing(
        users in vec(hostile(), 0..3),
        hosts in [proptest::option::of(hostile()), proptest::option::of(hostile())],
        rack in proptest::option::of(hostile()),
        value in hostile(),
    ) {
        let config = BTreeMap::from([("log.retention.ms".to_owned(), value)]);
        let case = case(config, &users, [hosts[0].as_ref(), hosts[1].as_ref()], rack.as_ref());
        let known = Known::of([case.version]);
        prop_assume!(!is_refused(&validate(&case.spec, &known, None)));
        let listeners = case.get("advertised.listeners").unwrap();
        let entries: Vec<_> = listeners.split(',').collect();
        prop_assert_eq!(entries.len(), 3, "{}", listeners);
        for (entry, title) in entries.iter().zip(["REPLICATION-9091", "PLAIN-9092", "TLS-9093"]) {
            let address = entry.strip_prefix(&format!("{title}://"));
            prop_assert!(address.is_some_and(|address| !address.contains(['/', '$'])), "{}", entry);
        }
        let supers = case.get("super.users").unwrap();
        let expected = users.iter().map(|user| format!("User:{user}"));
        prop_assert_eq!(supers.split(';').skip(6).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        let references = |key: &str| java::references(&case.get(key).unwrap_or_default());
        prop_assert_eq!(references("advertised.listeners"), Vec::<String>::new());
        prop_assert_eq!(references("super.users"), Vec::<String>::new());
        let racks: Vec<_> = rack.iter().map(|_| "gregorenv".to_owned()).collect();
        prop_assert_eq!(references("broker.rack"), racks);
        let own = references("log.retention.ms");
        prop_assert!(own.iter().all(|name| !OWN_PROVIDERS.contains(&name.as_str())), "{:?}", own);
    }
}

/// A setting of the user's replaces one of ours only where that is meant.
#[test]
fn no_setting_of_ours_can_be_replaced() {
    for roles in [Roles::Broker, Roles::Controller, Roles::Combined] {
        let mut case = Case::new(roles);
        let everything = case_with_everything();
        (case.spec, case.cordoned) = (everything.spec, true);
        case.addresses = everything.addresses;
        for (key, _) in case.server().properties {
            let meant = ["min.insync.replicas", "config.providers"].contains(&key.as_str())
                || key.ends_with(".max.connections");
            assert_eq!(forbidden(&key, &case.spec.listeners), !meant, "{key}");
        }
    }
}

/// A cluster of which every setting is written.
fn case_with_everything() -> Case {
    let mut port = samples::listener("port", 9094);
    port.kind = ListenerKind::NodePort;
    (port.tls, port.connections_max) = (true, Some(7));
    let mut scram = samples::listener("scram", 9095);
    scram.authentication = Authentication::ScramSha512;
    let mut mutual = samples::listener("mutual", 9096);
    (mutual.tls, mutual.authentication) = (true, Authentication::Tls);
    let mut case = Case::new(Roles::Broker).reached_at("port", None, 30000);
    case.spec.listeners.extend([port, scram, mutual]);
    case.spec.rack = Some(Rack::TopologyLabel("zone".to_owned()));
    case.spec.authorization = Some(Authorization { super_users: vec!["CN=me".to_owned()] });
    let reference = "${strimzienv:A}${strimzidir:/a:b}${strimzifile:/a:b}".to_owned();
    // A forbidden key: it is not written, and what it refers to is configured all the same.
    case.spec.config.insert("ssl.key".to_owned(), reference);
    case
}

#[test]
fn the_reader_reads_as_java_does() {
    let rows: &[(&str, &[(&str, &str)])] = &[
        ("a=1\n", &[("a", "1")]),
        ("  a \t: 1 \n", &[("a", "1 ")]),
        ("a\rb=1\r\nc 2", &[("a", ""), ("b", "1"), ("c", "2")]),
        ("# x\\\ny=1\n!z=1\n\n", &[("y", "1")]),
        ("a=x\\\n  y\\\\\nb=1", &[("a", "xy\\"), ("b", "1")]),
        ("a\\ b\\=c=\\u00e9\\uD83D\\uDE00\\q", &[("a b=c", "é😀q")]),
        ("=v", &[("", "v")]),
    ];
    for (text, expected) in rows {
        let found = java::read(text);
        let found: Vec<_> = found.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(found, *expected, "{text:?}");
    }
    assert_eq!(java::references("${a:b}${c:d:e} $${f:}${g} ${h"), ["a", "c", "f"]);
}
