//! A row for each rule: a valid spec, one change, and all findings.

mod storage;
mod values;

use std::collections::BTreeSet;

use super::*;
use crate::cluster::samples;
use crate::cluster::spec::{Authentication, Certificate, ListenerKind, TemplateKey};
use crate::lag::Patterns;

fn known() -> Known {
    let versions = ["4.1.2", "4.2.0", "4.3.1"].map(|text| text.parse().unwrap());
    Known::of(versions)
}

fn metadata(text: &str) -> Current {
    Current { metadata: Some(text.parse().unwrap()) }
}

/// A spec without findings.
fn fine() -> ClusterSpec {
    let mut spec = samples::cluster();
    set(&mut spec, "default.replication.factor", "3");
    set(&mut spec, "min.insync.replicas", "2");
    spec
}

fn set(spec: &mut ClusterSpec, key: &str, value: &str) {
    spec.config.insert(key.to_owned(), value.to_owned());
}

fn key(place: &str, key: &str) -> TemplateKey {
    TemplateKey { place: place.to_owned(), key: key.to_owned() }
}

/// A change of the spec, and the findings that it causes.
type Row = (fn(&mut ClusterSpec), &'static [(Reason, &'static str)]);

use Reason as R;

const NODES: &[Row] = &[
    (|_| {}, &[]),
    (
        |s| s.pools.clear(),
        &[(
            R::NoNodePools,
            "there is no KafkaNodePool with a node: create one with replicas above 0 and the \
             label strimzi.io/cluster: my",
        )],
    ),
    (
        |s| s.pools.iter_mut().for_each(|pool| pool.replicas = 0),
        &[(
            R::NoNodePools,
            "there is no KafkaNodePool with a node: create one with replicas above 0 and the \
             label strimzi.io/cluster: my",
        )],
    ),
    (
        |s| drop(s.pools.remove(0)),
        &[(
            R::NoBroker,
            "no node has the role broker: give it to a KafkaNodePool with replicas above 0",
        )],
    ),
    (
        |s| s.pools[1].replicas = 0,
        &[(
            R::NoController,
            "no node has the role controller: give it to a KafkaNodePool with replicas above 0",
        )],
    ),
    (
        |s| s.pools[1].roles = Roles::Broker,
        &[(
            R::NoController,
            "no node has the role controller: give it to a KafkaNodePool with replicas above 0",
        )],
    ),
    (
        |s| s.pools[0].replicas = u32::MAX,
        &[(R::TooManyNodes, "4294967298 nodes are requested, and at most 10000 are supported")],
    ),
    (
        |s| s.pools[1].replicas = 4,
        &[(
            R::KafkaKRaftControllerNodeCount,
            "4 controllers tolerate no more failures than 3: an odd number is recommended",
        )],
    ),
    (
        |s| s.pools[1].replicas = 2,
        &[(
            R::KafkaKRaftControllerNodeCount,
            "two controllers are not advisable: both are needed, so each is a single point of failure",
        )],
    ),
    (|s| s.pools[1].roles = Roles::Combined, &[]),
];

const VERSIONS: &[Row] = &[
    (|s| (s.kafka_version, s.metadata_version) = (None, None), &[]),
    (
        |s| s.kafka_version = Some("4.9.9".to_owned()),
        &[(
            R::UnsupportedKafkaVersion,
            "Kafka 4.9.9 is not supported: set spec.kafka.version to one of 4.1.2, 4.2.0 and 4.3.1",
        )],
    ),
    (
        |s| s.kafka_version = Some("latest".to_owned()),
        &[(
            R::UnsupportedKafkaVersion,
            "Kafka latest is not supported: set spec.kafka.version to one of 4.1.2, 4.2.0 and \
             4.3.1",
        )],
    ),
    (
        |s| s.metadata_version = Some("new".to_owned()),
        &[(
            R::InvalidMetadataVersion,
            "\"new\" is not a known metadata version: set spec.kafka.metadataVersion to one \
             such as 4.3-IV0, or remove it",
        )],
    ),
    (
        |s| s.kafka_version = Some("4.2.0".to_owned()),
        &[(
            R::InvalidMetadataVersion,
            "Kafka 4.2.0 has metadata versions up to 4.2-IV1 and not 4.3-IV0: raise \
             spec.kafka.version first",
        )],
    ),
    (
        |s| s.metadata_version = Some("3.8".to_owned()),
        &[(
            R::InvalidMetadataVersion,
            "metadata version 3.8-IV0 is too old for a dynamic quorum, which a new cluster has: \
             use 3.9-IV0 or newer",
        )],
    ),
    (
        |s| s.metadata_version = Some("4.2-IV1".to_owned()),
        &[(
            R::KafkaMetadataVersion,
            "metadata version 4.2-IV1 is older than the Kafka 4.3.1 used by the cluster, which \
             suggests that an upgrade is incomplete: set spec.kafka.metadataVersion to 4.3-IV0 \
             when it is done",
        )],
    ),
    (|s| s.metadata_version = Some("4.3".to_owned()), &[]),
];

const LISTENERS: &[Row] = &[
    (
        |s| s.listeners.clear(),
        &[(
            R::NoListener,
            "spec.kafka.listeners is empty, so no client can connect: add a listener",
        )],
    ),
    (
        |s| s.listeners[0].name = "Plain".to_owned(),
        &[(
            R::InvalidListenerName,
            "\"Plain\" is not valid as the name of a listener: use 1 to 11 lower-case letters and digits",
        )],
    ),
    (
        |s| s.listeners[0].name = "abcdefghijkl".to_owned(),
        &[(
            R::InvalidListenerName,
            "\"abcdefghijkl\" is not valid as the name of a listener: use 1 to 11 lower-case letters and digits",
        )],
    ),
    (
        |s| s.listeners[0].name = String::new(),
        &[(
            R::InvalidListenerName,
            "\"\" is not valid as the name of a listener: use 1 to 11 lower-case letters and digits",
        )],
    ),
    (
        |s| s.listeners[0].port = 1024,
        &[(R::InvalidListenerPort, "listener plain has port 1024: use 9092 or above")],
    ),
    (|s| s.listeners[0].port = 65535, &[]),
    (
        |s| s.listeners[0].port = 9090,
        &[(
            R::InvalidListenerPort,
            "listener plain has port 9090, which is for controllers: use another",
        )],
    ),
    (
        |s| s.listeners[0].port = 9091,
        &[(
            R::InvalidListenerPort,
            "listener plain has port 9091, which is for replication: use another",
        )],
    ),
    (
        |s| s.listeners[0].port = 8443,
        &[(
            R::InvalidListenerPort,
            "listener plain has port 8443, which is for the state of a node: use another",
        )],
    ),
    (
        |s| s.listeners[0].port = 8080,
        &[(
            R::InvalidListenerPort,
            "listener plain has port 8080, which is for health: use another",
        )],
    ),
    (
        |s| s.listeners[0].port = 9404,
        &[(
            R::InvalidListenerPort,
            "listener plain has port 9404, which is for metrics: use another",
        )],
    ),
    (
        |s| s.listeners[0].port = 9405,
        &[(
            R::InvalidListenerPort,
            "listener plain has port 9405, which is for metrics: use another",
        )],
    ),
    (
        |s| s.listeners[0].port = 9999,
        &[(R::InvalidListenerPort, "listener plain has port 9999, which is for JMX: use another")],
    ),
    (
        |s| s.listeners[1].name = "plain".to_owned(),
        &[(R::DuplicateListenerName, "several listeners have the name plain: give each its own")],
    ),
    (
        |s| s.listeners[1].port = 9092,
        &[(R::DuplicateListenerPort, "several listeners have the port 9092: give each its own")],
    ),
    (
        |s| s.listeners[0].authentication = Authentication::Tls,
        &[(
            R::TlsAuthenticationWithoutTls,
            "listener plain asks for client certificates without TLS: set tls to true, or use \
             scram-sha-512",
        )],
    ),
    (|s| s.listeners[1].authentication = Authentication::Tls, &[]),
    (
        |s| {
            let text = || "x".to_owned();
            let certificate = Certificate { secret: text(), certificate: text(), key: text() };
            s.listeners[0].certificate = Some(certificate);
        },
        &[(
            R::CertificateWithoutTls,
            "listener plain has its own certificate and no TLS: set tls to true, or remove \
             brokerCertChainAndKey",
        )],
    ),
];

const UNSET: &str = "option is not configured. It defaults to 1 which does not guarantee \
     reliability and availability. You should configure this option in .spec.kafka.config.";

const CONFIG: &[Row] = &[
    (
        |s| set(s, "default.replication.factor", "4"),
        &[(
            R::ReplicationFactorTooHigh,
            "default.replication.factor is 4, and there are 3 brokers: lower it, or add brokers",
        )],
    ),
    (
        |s| set(s, "offsets.topic.replication.factor", "4"),
        &[(
            R::ReplicationFactorTooHigh,
            "offsets.topic.replication.factor is 4, and there are 3 brokers: lower it, or add \
             brokers",
        )],
    ),
    (
        |s| set(s, "transaction.state.log.replication.factor", " 5 "),
        &[(
            R::ReplicationFactorTooHigh,
            "transaction.state.log.replication.factor is 5, and there are 3 brokers: lower it, \
             or add brokers",
        )],
    ),
    (
        |s| set(s, "transaction.state.log.min.isr", "4"),
        &[(
            R::ReplicationFactorTooHigh,
            "transaction.state.log.min.isr is 4, and there are 3 brokers: lower it, or add brokers",
        )],
    ),
    (|s| set(s, "min.insync.replicas", "4"), &[]),
    (
        |s| set(s, "min.insync.replicas", "0"),
        &[(
            R::InvalidConfiguration,
            "min.insync.replicas is \"0\", with which Kafka would not start",
        )],
    ),
    (
        |s| set(s, "offsets.topic.replication.factor", "three"),
        &[(
            R::InvalidConfiguration,
            "offsets.topic.replication.factor is \"three\", with which Kafka would not start",
        )],
    ),
    (
        |s| set(s, "config.providers", "vault,gregordir"),
        &[(
            R::ReservedConfigProvider,
            "config.providers names gregordir, which exists already: choose another name",
        )],
    ),
    (
        |s| set(s, "config.providers", "strimzienv"),
        &[(
            R::ReservedConfigProvider,
            "config.providers names strimzienv, which exists already: choose another name",
        )],
    ),
    (|s| set(s, "config.providers", "vault"), &[]),
    (
        |s| {
            set(s, "listeners", "x");
            set(s, "broker.id", "1");
        },
        &[(
            R::ForbiddenConfiguration,
            "spec.kafka.config: ignored, set by the operator: broker.id and \
             listeners. Remove it",
        )],
    ),
    (
        |s| set(s, "inter.broker.protocol.version", "3.9"),
        &[(
            R::KafkaInterBrokerProtocolVersionInKRaft,
            "inter.broker.protocol.version is not used in KRaft-based Kafka clusters: remove it",
        )],
    ),
    (
        |s| set(s, "log.message.format.version", "3.0"),
        &[(
            R::KafkaLogMessageFormatVersionInKRaft,
            "log.message.format.version is not used in KRaft-based Kafka clusters: remove it",
        )],
    ),
    // One broker has nobody to replicate to.
    (
        |s| {
            s.config.clear();
            s.pools[0].replicas = 1
        },
        &[],
    ),
];

const NAMES: &[Row] = &[
    (
        |s| s.name = "my.cluster".to_owned(),
        &[(
            R::InvalidName,
            "the name \"my.cluster\" is not valid in names of Services: use lower-case letters, \
             digits and -, and begin with a letter",
        )],
    ),
    (
        |s| s.name = "4ever".to_owned(),
        &[(
            R::InvalidName,
            "the name \"4ever\" is not valid in names of Services: use lower-case letters, \
             digits and -, and begin with a letter",
        )],
    ),
    (
        |s| s.pools[0].name = "a.b".to_owned(),
        &[(
            R::InvalidName,
            "the name of pool \"a.b\" is not valid in names of pods: use lower-case letters, \
             digits and -",
        )],
    ),
    (|s| s.pools[0].name = "0".to_owned(), &[]),
    // my-(58)-5 has 63 characters.
    (|s| s.pools[0].name = "p".repeat(58), &[]),
    (
        |s| s.pools[0].name = "p".repeat(59),
        &[(
            R::InvalidName,
            "the name of the pod \
             my-ppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp-5 would have 64 characters, and 63 are allowed: choose shorter names",
        )],
    ),
    (
        |s| {
            s.name = "c".repeat(50);
            s.pools.iter_mut().for_each(|pool| {
                pool.name = format!("{:?}", pool.roles).to_lowercase()[..1].to_owned()
            });
        },
        &[(
            R::InvalidName,
            "the name of the Service \
             cccccccccccccccccccccccccccccccccccccccccccccccccc-kafka-bootstrap would have 66 characters, and 63 are allowed: choose shorter names",
        )],
    ),
    (
        |s| {
            s.pools[0].name = "p".repeat(54);
            s.listeners[0].kind = ListenerKind::NodePort;
        },
        &[(
            R::InvalidName,
            "the name of the Service \
             my-pppppppppppppppppppppppppppppppppppppppppppppppppppppp-plain-5 would have 65 characters, and 63 are allowed: choose shorter names",
        )],
    ),
    (
        |s| {
            s.template_keys = vec![
                key("spec.kafka.template.pod.metadata.labels", "strimzi.io/cluster"),
                key("x", "app"),
            ]
        },
        &[(
            R::ReservedLabel,
            "spec.kafka.template.pod.metadata.labels has strimzi.io/cluster: the prefix strimzi.io/ is reserved, remove it",
        )],
    ),
];

#[test]
fn every_rule() {
    let mut seen = BTreeSet::new();
    for rows in [NODES, VERSIONS, LISTENERS, CONFIG, values::VALUES, storage::STORAGE, NAMES] {
        for (change, expected) in rows {
            let mut spec = fine();
            change(&mut spec);
            let found = validate(&spec, &known(), None);
            let found: Vec<_> =
                found.iter().map(|one| (one.reason, one.message.as_str())).collect();
            assert_eq!(found, *expected);
            seen.extend(found.iter().map(|(reason, _)| reason.name()));
            let versions_refused = found.iter().any(|(reason, _)| {
                matches!(reason, R::UnsupportedKafkaVersion | R::InvalidMetadataVersion)
            });
            // A new cluster needs more than a version that could be run.
            let too_old = spec.metadata_version.as_deref() == Some("3.8");
            assert_eq!(resolve(&spec, &known()).is_none(), versions_refused && !too_old);
        }
    }
    for (reason, message) in warnings_of_the_unset() {
        assert!(message.ends_with(UNSET));
        seen.insert(reason.name());
    }
    seen.insert(downgrade("4.2.0", "4.3-IV0")[0].reason.name());
    // Those of templates have their rows in `templates_tests.rs`.
    seen.extend(templates::PASSED_ON.iter().map(|(_, reason, _)| reason.name()));
    seen.insert(R::IgnoredEnvironment.name());
    // These have tests of their own.
    seen.extend([R::InvalidExporterRegex, R::WatchedNamespaceNotAllowed].map(R::name));
    let all: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
    assert_eq!(seen, all, "every reason has a row");
}

fn warnings_of_the_unset() -> Vec<(Reason, String)> {
    let mut spec = fine();
    spec.config.clear();
    let found = validate(&spec, &known(), None);
    let found: Vec<_> = found.into_iter().map(|one| (one.reason, one.message)).collect();
    let reasons: Vec<_> = found.iter().map(|(reason, _)| *reason).collect();
    assert_eq!(reasons, [R::KafkaDefaultReplicationFactor, R::KafkaMinInsyncReplicas]);
    found
}

/// What is said of this Kafka in a cluster with that metadata.
fn downgrade(kafka: &str, current: &str) -> Vec<Finding> {
    let mut spec = fine();
    (spec.kafka_version, spec.metadata_version) = (Some(kafka.to_owned()), None);
    validate(&spec, &known(), Some(&metadata(current)))
}

#[test]
fn an_older_kafka_must_be_able_to_read_the_metadata() {
    let found = downgrade("4.2.0", "4.3-IV0");
    assert_eq!(
        found[0].message,
        "Kafka 4.2.0 cannot read metadata of version 4.3-IV0, which the cluster has: first set \
         spec.kafka.metadataVersion to 4.2-IV1 or older and leave the version of Kafka as it is"
    );
    assert_eq!((found[0].reason, found.len()), (R::KafkaVersionDowngrade, 1));
    assert!(is_refused(&found));
    for (kafka, current) in [("4.2.0", "4.2-IV1"), ("4.3.1", "4.1-IV0"), ("4.3.1", "4.3-IV0")] {
        assert_eq!(downgrade(kafka, current), [], "{kafka} {current}");
    }
    // What could not be asked for stops nothing here; nothing is lowered without knowing.
    let found = validate(&fine(), &known(), Some(&Current { metadata: None }));
    assert_eq!(found, []);
}

#[test]
fn a_cluster_that_exists_may_be_at_an_old_metadata_version() {
    let mut spec = fine();
    spec.metadata_version = Some("3.8".to_owned());
    let found = validate(&spec, &known(), Some(&metadata("3.8-IV0")));
    assert_eq!(found.iter().map(|one| one.reason).collect::<Vec<_>>(), [R::KafkaMetadataVersion]);
    assert!(!is_refused(&found));
}

#[test]
fn versions_that_were_not_named_are_the_newest() {
    let mut spec = fine();
    (spec.kafka_version, spec.metadata_version) = (None, None);
    let versions = resolve(&spec, &known()).unwrap();
    assert_eq!(
        (versions.kafka.to_string(), versions.metadata.to_string()),
        ("4.3.1".into(), "4.3-IV0".into())
    );
    spec.kafka_version = Some("4.1.2".to_owned());
    assert_eq!(resolve(&spec, &known()).unwrap().metadata.to_string(), "4.1-IV1");
    spec.kafka_version = None;
    let found = validate(&spec, &Known::default(), None);
    assert_eq!(found[0].reason, R::UnsupportedKafkaVersion);
    assert_eq!(resolve(&spec, &Known::default()), None);
    // One without metadata versions that we know cannot be run.
    assert_eq!(Known::of([KafkaVersion::new(9, 0, 0)]), Known::default());
}

#[test]
fn findings_are_notes_with_their_reason() {
    let mut spec = fine();
    spec.listeners.clear();
    let note = validate(&spec, &known(), None)[0].note();
    assert_eq!(note.reason.name(), "NoListener");
    assert_eq!(R::KafkaStorage.severity(), Severity::Warning);
    assert_eq!(R::NoBroker.severity(), Severity::Refused);
}

#[test]
fn expressions_of_the_exporter_that_cannot_be_read_are_told() {
    let patterns =
        |groups: &str| Patterns { groups: Some(groups.to_owned()), ..Patterns::default() };
    for (expression, expected) in [("a.*", 0), ("(", 1)] {
        let spec = ClusterSpec { exporter: Some(patterns(expression)), ..fine() };
        let findings = validate(&spec, &known(), None);
        assert_eq!(findings.len(), expected, "{expression}: {findings:?}");
        for finding in findings {
            assert_eq!(finding.reason, Reason::InvalidExporterRegex);
            assert!(finding.message.starts_with("spec.kafkaExporter.groupRegex is not a valid"));
        }
    }
}

#[test]
fn resources_of_another_namespace_need_the_permission_of_the_operator() {
    let text = |text: Option<&str>| text.map(str::to_owned);
    let of = |topics: Option<&str>, users: Option<&str>, is_allowed| {
        let (topics_namespace, users_namespace) = (text(topics), text(users));
        let spec = ClusterSpec { topics_namespace, users_namespace, ..fine() };
        let findings = watched_namespaces(&spec, is_allowed).into_iter();
        let field = |finding: Finding| {
            assert_eq!(finding.reason, Reason::WatchedNamespaceNotAllowed);
            assert!(finding.message.contains("--watched-namespace-enabled=true"));
            let field = finding.message.split(':').next().unwrap_or_default().to_owned();
            field.replace("spec.entityOperator.", "")
        };
        findings.map(field).collect::<Vec<_>>().join(" ")
    };
    let (topics, users) = ("topicOperator.watchedNamespace", "userOperator.watchedNamespace");
    let both = format!("{topics} {users}");
    for (row, of_topics, of_users, is_allowed, expected) in [
        ("not managed", None, None, false, ""),
        ("E2 here", Some("here"), Some("here"), false, ""),
        ("E2 allowed", Some("there"), Some("there"), true, ""),
        ("E2 topics elsewhere", Some("there"), Some("here"), false, topics),
        ("E2 users elsewhere", None, Some("there"), false, users),
        ("E2 both elsewhere", Some("there"), Some("there"), false, &both),
    ] {
        assert_eq!(of(of_topics, of_users, is_allowed), expected, "{row}");
    }
}
