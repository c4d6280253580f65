//! Whole files by role, and rows for everything that changes a line.

mod hostile;

use proptest::prelude::*;

use super::*;
use crate::cluster::samples;
use crate::cluster::spec::{
    Authentication, Authorization, BrokerSettings, Certificate, Listener, NodeAddress,
};

fn id(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

fn controllers() -> BTreeMap<NodeId, String> {
    [5, 3, 4].map(|n| (id(n), format!("my-controller-{n}.my-kafka-brokers.here.svc"))).into()
}

struct Case {
    spec: ClusterSpec,
    roles: Roles,
    quorum: QuorumProperties,
    version: KafkaVersion,
    addresses: BTreeMap<String, Address>,
    cordoned: bool,
}

impl Case {
    fn new(roles: Roles) -> Self {
        Self {
            spec: samples::cluster(),
            roles,
            quorum: QuorumProperties::Dynamic(controllers()),
            version: KafkaVersion::new(4, 3, 1),
            addresses: BTreeMap::new(),
            cordoned: false,
        }
    }

    fn with(listener: Listener) -> Self {
        let mut case = Self::new(Roles::Broker);
        case.spec.listeners = vec![listener];
        case
    }

    fn reached_at(mut self, listener: &str, host: Option<&str>, port: u16) -> Self {
        let address = Address { host: host.map(str::to_owned), port };
        self.addresses.insert(listener.to_owned(), address);
        self
    }

    fn try_server(&self) -> Result<Server, Vec<NoAddress>> {
        let dirs = ["/var/lib/kafka/data-0/kafka-log7", "/var/lib/kafka/data-1/kafka-log7"];
        let dirs = dirs.map(str::to_owned);
        let cluster =
            ClusterInput { spec: &self.spec, version: self.version, quorum: &self.quorum };
        server(
            &cluster,
            &NodeInput {
                id: id(7),
                pod: "my-pool-7",
                roles: self.roles,
                host: "my-pool-7.my-kafka-brokers.here.svc",
                domain: "cluster.local",
                metadata_dir: &dirs[0],
                log_dirs: &dirs,
                addresses: &self.addresses,
                cordoned: self.cordoned,
            },
        )
    }

    #[track_caller]
    fn server(&self) -> Server {
        self.try_server().unwrap()
    }

    /// The value of a key; it must be there at most once.
    #[track_caller]
    fn get(&self, key: &str) -> Option<String> {
        let server = self.server();
        let mut found = server.properties.iter().filter(|(have, _)| have == key);
        let value = found.next().map(|(_, value)| value.clone());
        assert_eq!(found.next(), None, "{key} is there twice");
        value
    }

    #[track_caller]
    fn says(&self, key: &str, expected: &str) {
        assert_eq!(self.get(key).as_deref(), Some(expected), "{key}");
    }
}

#[test]
fn a_broker() {
    assert_eq!(
        render(&Case::new(Roles::Broker).server().properties),
        include_str!("testdata/broker.properties")
    );
}

#[test]
fn a_controller() {
    let text = render(&Case::new(Roles::Controller).server().properties);
    assert_eq!(text, include_str!("testdata/controller.properties"));
}

#[test]
fn a_node_with_both_roles_and_everything_asked_for() {
    let mut case = Case::new(Roles::Combined);
    let mut scram = samples::listener("scram", 9094);
    scram.authentication = Authentication::ScramSha512;
    let mut mutual = samples::listener("mutual", 9095);
    (mutual.tls, mutual.authentication) = (true, Authentication::Tls);
    case.spec.listeners.extend([scram, mutual]);
    case.spec.rack = Some(Rack::TopologyLabel("zone".to_owned()));
    case.spec.authorization = Some(Authorization { super_users: vec!["CN=me".to_owned()] });
    let config = [("log.retention.hours", "24"), ("min.insync.replicas", "2"), ("ssl.key", "x")];
    case.spec.config = config.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    case.quorum = QuorumProperties::Static(controllers());
    case.cordoned = true;
    let server = case.server();
    assert_eq!(render(&server.properties), include_str!("testdata/combined.properties"));
    assert_eq!(server.left_out, ["ssl.key"]);
}

#[test]
fn the_quorum_is_of_one_kind() {
    let mut case = Case::new(Roles::Controller);
    assert_eq!(case.get("controller.quorum.voters"), None);
    case.says(
        "controller.quorum.bootstrap.servers",
        "my-controller-3.my-kafka-brokers.here.svc:9090,my-controller-4.my-kafka-brokers.here.svc:9090,\
         my-controller-5.my-kafka-brokers.here.svc:9090",
    );
    case.quorum = QuorumProperties::Static(controllers());
    assert_eq!(case.get("controller.quorum.bootstrap.servers"), None);
    case.says(
        "controller.quorum.voters",
        "3@my-controller-3.my-kafka-brokers.here.svc:9090,4@my-controller-4.my-kafka-brokers.here.svc:9090,\
         5@my-controller-5.my-kafka-brokers.here.svc:9090",
    );
}

#[test]
fn new_partitions_are_kept_away_where_kafka_can() {
    let rows = [
        (false, (4, 3, 1), None),
        (true, (4, 3, 1), Some("*")),
        (true, (4, 3, 0), Some("*")),
        (true, (4, 2, 1), None),
    ];
    for (cordoned, (major, minor, patch), expected) in rows {
        let mut case = Case::new(Roles::Broker);
        (case.cordoned, case.version) = (cordoned, KafkaVersion::new(major, minor, patch));
        assert_eq!(case.get("cordoned.log.dirs").as_deref(), expected);
    }
}

#[test]
fn racks() {
    let mut case = Case::new(Roles::Broker);
    case.spec.rack = Some(Rack::Environment("ZONE".to_owned()));
    case.says("broker.rack", "${gregorenv:ZONE}");
    case.roles = Roles::Controller;
    assert_eq!(case.get("broker.rack"), None);
}

#[test]
fn what_a_listener_advertises() {
    let internal = |listener: Listener| Case::with(listener);
    let kind = |kind| {
        let mut listener = samples::listener("ext", 9094);
        listener.kind = kind;
        listener
    };
    let mut domain = samples::listener("ext", 9094);
    domain.with_dns_domain = true;
    let mut address = kind(ListenerKind::NodePort);
    address.node_address = Some(NodeAddress::InternalIp);
    let mut templates = kind(ListenerKind::LoadBalancer);
    templates.advertised_host = Some("b{nodeId}.example.com".to_owned());
    templates.advertised_port = Some("9000 + {nodeId}".to_owned());
    let mut single = templates.clone();
    let settings = BrokerSettings { advertised_port: Some(1234), ..BrokerSettings::default() };
    single.brokers.insert(id(7), settings);
    let mut host_only = kind(ListenerKind::NodePort);
    host_only.advertised_host = Some("{nodePodName}".to_owned());
    let file = "${gregorfile:/opt/kafka/init/external.address:nodeport";
    let rows = [
        (internal(domain), "my-pool-7.my-kafka-brokers.here.svc.cluster.local:9094".to_owned()),
        (
            Case::with(kind(ListenerKind::ClusterIp)).reached_at("ext", Some("s.here.svc"), 9094),
            "s.here.svc:9094".to_owned(),
        ),
        (
            Case::with(kind(ListenerKind::LoadBalancer)).reached_at(
                "ext",
                Some("2001:db8::1"),
                9094,
            ),
            "[2001:db8::1]:9094".to_owned(),
        ),
        (
            Case::with(kind(ListenerKind::NodePort)).reached_at("ext", None, 31000),
            format!("{file}.default.address}}:31000"),
        ),
        (
            Case::with(address).reached_at("ext", None, 31000),
            format!("{file}.internalip.address}}:31000"),
        ),
        // Nothing of a Service is needed where the user says it all.
        (Case::with(templates), "b7.example.com:9007".to_owned()),
        (Case::with(single), "b7.example.com:1234".to_owned()),
        (Case::with(host_only).reached_at("ext", None, 31000), "my-pool-7:31000".to_owned()),
    ];
    for (case, expected) in rows {
        let replication = "REPLICATION-9091://my-pool-7.my-kafka-brokers.here.svc:9091";
        case.says("advertised.listeners", &format!("{replication},EXT-9094://{expected}"));
    }
}

#[test]
fn an_address_that_is_not_known_is_no_gap() {
    for kind in [ListenerKind::ClusterIp, ListenerKind::NodePort, ListenerKind::LoadBalancer] {
        let mut listener = samples::listener("ext", 9094);
        listener.kind = kind;
        let missing = Case::with(listener).try_server().unwrap_err();
        assert_eq!(missing[0].to_string(), "the Service of listener ext has no address yet");
    }
    let mut listener = samples::listener("ext", 9094);
    listener.advertised_port = Some("{nodeId} - 7".to_owned());
    let missing = Case::with(listener).try_server().unwrap_err();
    let expected = "listener ext: \"{nodeId} - 7\" does not give a port from 1 to 65535 for node 7";
    assert_eq!(missing[0].to_string(), expected);
}

#[test]
fn a_controller_needs_no_address_of_a_listener() {
    let mut case = Case::new(Roles::Controller);
    case.spec.listeners[0].kind = ListenerKind::LoadBalancer;
    assert!(case.try_server().is_ok());
}

#[test]
fn protocols() {
    let custom = |sasl| Authentication::Custom { sasl, config: BTreeMap::new() };
    let rows = [
        (false, Authentication::None, "PLAINTEXT"),
        (true, Authentication::None, "SSL"),
        (true, Authentication::Tls, "SSL"),
        (false, Authentication::ScramSha512, "SASL_PLAINTEXT"),
        (true, Authentication::ScramSha512, "SASL_SSL"),
        (false, custom(false), "PLAINTEXT"),
        (false, custom(true), "SASL_PLAINTEXT"),
        (true, custom(true), "SASL_SSL"),
    ];
    for (tls, authentication, expected) in rows {
        let mut listener = samples::listener("l", 9092);
        (listener.tls, listener.authentication) = (tls, authentication);
        let map = format!("CONTROLPLANE-9090:SSL,REPLICATION-9091:SSL,L-9092:{expected}");
        Case::with(listener).says("listener.security.protocol.map", &map);
    }
}

#[test]
fn settings_of_a_listener() {
    let mut listener = samples::listener("l", 9092);
    listener.tls = true;
    listener.certificate = Some(Certificate {
        secret: "s".to_owned(),
        certificate: "c".to_owned(),
        key: "k".to_owned(),
    });
    let config = [("sasl.enabled.mechanisms", "OAUTHBEARER"), ("ssl.keystore.type", "JKS")];
    let config = config.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    listener.authentication = Authentication::Custom { sasl: true, config };
    (listener.connections_max, listener.connection_creation_rate_max) = (Some(10), Some(5));
    let mut case = Case::with(listener);
    let key = "${gregordir:/opt/kafka/certs/node:l-9092.key}";
    case.says("listener.name.l-9092.ssl.keystore.key", key);
    case.says("listener.name.l-9092.ssl.keystore.type", "PEM");
    case.says("listener.name.l-9092.sasl.enabled.mechanisms", "OAUTHBEARER");
    case.says("listener.name.l-9092.max.connections", "10");
    case.says("listener.name.l-9092.max.connection.creation.rate", "5");
    assert_eq!(case.server().left_out, ["listener.name.l-9092.ssl.keystore.type"]);
    // The settings of the cluster have the last word, as with Strimzi.
    let key = "listener.name.l-9092.max.connections";
    case.spec.config.insert(key.to_owned(), "11".to_owned());
    case.says(key, "11");
}

#[test]
fn which_settings_are_ours() {
    let listeners = [samples::listener("plain", 9092)];
    let rows = [
        ("listeners", true),
        ("advertised.listeners", true),
        ("broker.id", true),
        ("broker.rack", true),
        ("broker.session.timeout.ms", false),
        ("listener.name.plain-9092.ssl.client.auth", true),
        ("listener.name.plain-9092.max.connections", false),
        ("listener.name.plain-9092.connections.max.reauth.ms", false),
        ("listener.name.other-9092.max.connections", true),
        ("listener.name.plain-9092.max.connections.overrides", true),
        ("port", true),
        ("sasl.enabled.mechanisms", true),
        ("sasl.server.max.receive.size", false),
        ("ssl.cipher.suites", false),
        ("SSL.cipher.suites", true),
        ("ssl.keystore.location", true),
        ("Log.Dirs", true),
        ("log.dirs", true),
        ("log.retention.hours", false),
        ("log.cleaner.threads", false),
        ("super.users", true),
        ("authorizer.class.name", true),
        ("node.id", true),
        ("process.roles", true),
        ("controller.quorum.voters", true),
        ("controller.quorum.bootstrap.servers", true),
        ("controller.quorum.auto.join.enable", true),
        ("controller.quorum.fetch.timeout.ms", false),
        ("metadata.log.dir", true),
        ("metadata.log.segment.bytes", false),
        ("cordoned.log.dirs", true),
        ("zookeeper.connect", true),
        ("zookeeper.connection.timeout.ms", false),
        ("zookeeper.clientCnxnSocket", true),
        ("cruise.control.metrics.topic", true),
        ("cruise.control.metrics.topic.num.partitions", false),
        ("inter.broker.listener.name", true),
        ("inter.broker.protocol.version", false),
        ("password.encoder.secret", true),
        ("security.providers", true),
        ("min.insync.replicas", false),
        ("default.replication.factor", false),
        ("auto.create.topics.enable", false),
        ("config.providers", false),
        ("config.providers.vault.class", false),
        ("config.providers.gregorenv.class", true),
        ("config.providers.strimzidir.param.allowed.paths", true),
    ];
    for (key, expected) in rows {
        assert_eq!(forbidden(key, &listeners), expected, "{key}");
    }
}

#[test]
fn providers_of_the_user_come_first_and_those_of_strimzi_where_they_are_named() {
    let mut case = Case::new(Roles::Broker);
    let config = [
        ("config.providers", "vault, gregorenv"),
        ("config.providers.vault.class", "X"),
        ("remote.log.x", "${strimzienv:HOME}"),
    ];
    case.spec.config = config.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    case.says("config.providers", "vault,gregorenv,gregordir,strimzienv");
    case.says("config.providers.vault.class", "X");
    let class = "org.apache.kafka.common.config.provider.EnvVarConfigProvider";
    case.says("config.providers.strimzienv.class", class);
    assert_eq!(case.get("config.providers.strimzifile.class"), None);
}

#[test]
fn an_in_sync_replica_is_asked_for_unless_the_user_says_how_many() {
    let mut case = Case::new(Roles::Controller);
    case.says("min.insync.replicas", "1");
    case.spec.config.insert("min.insync.replicas".to_owned(), "2".to_owned());
    case.says("min.insync.replicas", "2");
}

proptest! {
    #[test]
    fn whatever_the_user_sets_a_key_is_there_once_and_ours_are_as_they_were(
        config in proptest::collection::btree_map(
            prop_oneof![
                "[a-z]{1,3}\\.[a-z]{1,3}",
                proptest::sample::select(vec![
                    "listeners", "log.dirs", "node.id", "config.providers", "min.insync.replicas",
                    "controller.quorum.voters", "listener.name.plain-9092.max.connections",
                    "config.providers.gregordir.class", "process.roles", "Process.Roles",
                ]).prop_map(str::to_owned),
            ],
            "\\PC{0,10}",
            0..8,
        ),
    ) {
        let mut case = Case::new(Roles::Combined);
        let plain = case.server();
        case.spec.config = config;
        let server = case.server();
        let mut keys: Vec<_> = server.properties.iter().map(|(key, _)| key.clone()).collect();
        keys.sort_unstable();
        let count = keys.len();
        keys.dedup();
        prop_assert_eq!(keys.len(), count);
        for (key, value) in &plain.properties {
            if key != "config.providers" && key != "min.insync.replicas" {
                prop_assert!(server.properties.contains(&(key.clone(), value.clone())), "{}", key);
            }
        }
        for (key, value) in &case.spec.config {
            let set = server.properties.contains(&(key.clone(), value.clone()));
            let told = server.left_out.contains(key);
            prop_assert!(key == "config.providers" || set || told, "{} is lost", key);
            prop_assert_eq!(told, forbidden(key, &case.spec.listeners), "{}", key);
        }
    }
}
