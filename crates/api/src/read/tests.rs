//! Rows of what users write, and what becomes of it.

use control::cluster::spec::{
    Authentication, Disk, ListenerKind, NodeAddress, Size, Storage, Volume,
};
use control::node::Roles;
use serde_json::json;

use super::*;

fn kafka(kafka: Value) -> Kafka {
    serde_json::from_value(json!({
        "apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka",
        "metadata": { "name": "my", "namespace": "here" }, "spec": { "kafka": kafka },
    }))
    .unwrap()
}

fn plain() -> Value {
    json!({ "name": "plain", "port": 9092, "type": "internal", "tls": false })
}

/// A cluster with one listener that has these fields besides.
fn with_listener(more: Value) -> Kafka {
    let mut listener = plain();
    merge(&mut listener, more);
    kafka(json!({ "listeners": [listener] }))
}

fn merge(into: &mut Value, more: Value) {
    let Value::Object(more) = more else { panic!("{more}") };
    into.as_object_mut().unwrap().extend(more);
}

fn pool(name: &str, more: Value) -> KafkaNodePool {
    let mut spec =
        json!({ "replicas": 1, "roles": ["broker"], "storage": { "type": "ephemeral" } });
    merge(&mut spec, more);
    serde_json::from_value(json!({
        "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaNodePool",
        "metadata": { "name": name, "namespace": "here" }, "spec": spec,
    }))
    .unwrap()
}

#[track_caller]
fn problems(kafka: &Kafka, pools: &[KafkaNodePool], expected: &[&str]) {
    let problems = cluster(kafka, pools).unwrap_err();
    let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(texts, expected);
}

#[test]
fn a_small_cluster_is_read_with_its_defaults() {
    let spec = cluster(&kafka(json!({ "listeners": [plain()] })), &[]).unwrap();
    assert_eq!((spec.name.as_str(), spec.namespace.as_str()), ("my", "here"));
    assert_eq!((spec.kafka_version, spec.metadata_version, spec.image), (None, None, None));
    assert_eq!((spec.authorization, spec.rack, spec.metrics), (None, None, None));
    assert_eq!((spec.cluster_ca, spec.clients_ca), (Authority::default(), Authority::default()));
    assert_eq!(spec.max_unavailable, 1);
    let listener = &spec.listeners[0];
    assert_eq!((listener.key().as_str(), listener.title().as_str()), ("plain-9092", "PLAIN-9092"));
    assert_eq!(listener.kind, ListenerKind::Internal);
    assert_eq!(listener.authentication, Authentication::None);
    assert!(listener.services.create_bootstrap && !listener.tls);
}

#[test]
fn settings_are_written_as_kafka_writes_them() {
    let rows = [
        (json!("a,b"), "a,b"),
        (json!(""), ""),
        (json!(3), "3"),
        (json!(-1), "-1"),
        (json!(9_223_372_036_854_775_807i64), "9223372036854775807"),
        (json!(0.5), "0.5"),
        (json!(1.0), "1"),
        (json!(1000.0), "1000"),
        (json!(true), "true"),
    ];
    for (value, expected) in rows {
        let spec = kafka(json!({ "listeners": [plain()], "config": { "a.b": value } }));
        assert_eq!(cluster(&spec, &[]).unwrap().config["a.b"], expected, "{value}");
    }
    let odd = kafka(json!({
        "listeners": [plain()], "config": { "a": null, "b": ["x"], "c": { "d": 1 } },
    }));
    let neither = "is neither a text nor a number nor true nor false: write a list as a text with \
                   commas";
    problems(
        &odd,
        &[],
        &[
            "Kafka my: spec.kafka.config.a has no value: give it one, or remove it",
            &format!("Kafka my: spec.kafka.config.b {neither}"),
            &format!("Kafka my: spec.kafka.config.c {neither}"),
        ],
    );
}

#[test]
fn the_time_that_a_controller_may_lag_behind_is_read() {
    let rows = [
        (json!({}), 2_000),
        (json!({ "controller.quorum.fetch.timeout.ms": 5000 }), 5_000),
        (json!({ "controller.quorum.fetch.timeout.ms": "10000 " }), 10_000),
        // Kafka refuses it, and says so.
        (json!({ "controller.quorum.fetch.timeout.ms": "soon" }), 2_000),
    ];
    for (config, expected_ms) in rows {
        let spec = kafka(json!({ "listeners": [plain()], "config": config }));
        assert_eq!(cluster(&spec, &[]).unwrap().fetch_timeout_ms(), expected_ms, "{config}");
    }
}

#[test]
fn listeners_are_read_whole() {
    let spec = with_listener(json!({
        "type": "nodeport", "tls": true, "authentication": { "type": "tls" },
        "configuration": {
            "brokerCertChainAndKey": { "secretName": "s", "certificate": "c", "key": "k" },
            "maxConnections": 5, "maxConnectionCreationRate": 6, "useServiceDnsDomain": true,
            "preferredNodePortAddressType": "InternalDNS", "externalTrafficPolicy": "Local",
            "advertisedHostTemplate": "h-{nodeId}", "advertisedPortTemplate": "9000 + {nodeId}",
            "bootstrap": { "alternativeNames": ["x.y"], "nodePort": 32100 },
            "brokers": [{ "broker": 4, "advertisedHost": "four", "advertisedPort": 1234, "nodePort": 32104 }],
            "ipFamilies": ["IPv6"], "ipFamilyPolicy": "PreferDualStack", "createBootstrapService": false,
        },
    }));
    let listener = cluster(&spec, &[]).unwrap().listeners.remove(0);
    assert_eq!((listener.kind, listener.tls), (ListenerKind::NodePort, true));
    assert_eq!(listener.authentication, Authentication::Tls);
    assert_eq!(listener.certificate.unwrap().secret, "s");
    assert_eq!(
        (listener.connections_max, listener.connection_creation_rate_max),
        (Some(5), Some(6))
    );
    assert!(listener.with_dns_domain);
    assert_eq!(listener.node_address, Some(NodeAddress::InternalDns));
    assert_eq!(listener.advertised_host.unwrap(), "h-{nodeId}");
    assert_eq!(listener.advertised_port.unwrap(), "9000 + {nodeId}");
    assert_eq!(listener.alternative_names, ["x.y"]);
    let four = &listener.brokers[&model::NodeId::new(4).unwrap()];
    assert_eq!((four.advertised_host.as_deref(), four.advertised_port), (Some("four"), Some(1234)));
    assert_eq!(four.service.node_port, Some(32104));
    assert_eq!(listener.services.bootstrap.node_port, Some(32100));
    assert_eq!(listener.services.external_traffic_policy.as_deref(), Some("Local"));
    assert_eq!(listener.services.ip_families, ["IPv6"]);
    assert_eq!(listener.services.ip_family_policy.as_deref(), Some("PreferDualStack"));
    assert!(!listener.services.create_bootstrap);
}

#[test]
fn ways_to_authenticate() {
    let scram = with_listener(json!({ "authentication": { "type": "scram-sha-512" } }));
    let scram = cluster(&scram, &[]).unwrap();
    assert_eq!(scram.listeners[0].authentication, Authentication::ScramSha512);
    let custom = with_listener(json!({ "authentication": {
        "type": "custom", "sasl": true, "listenerConfig": { "sasl.enabled.mechanisms": "X", "n": 1 },
    }}));
    let custom = cluster(&custom, &[]).unwrap().listeners.remove(0).authentication;
    let config = [("n", "1"), ("sasl.enabled.mechanisms", "X")];
    let config = config.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    assert_eq!(custom, Authentication::Custom { sasl: true, config });
}

#[test]
fn listeners_that_cannot_be() {
    let rows = [
        (json!({ "port": 0 }), "port is 0: it has to be a port, from 1 to 65535"),
        (json!({ "port": 65536 }), "port is 65536: it has to be a port, from 1 to 65535"),
        (
            json!({ "type": "route" }),
            "type is route, which is not supported: use internal, cluster-ip, nodeport or \
             loadbalancer",
        ),
        (
            json!({ "type": "tlsroute" }),
            "type is tlsroute, which is not supported: use internal, cluster-ip, nodeport or \
             loadbalancer",
        ),
        (
            json!({ "type": "ingress" }),
            "type is ingress, which is not supported: use internal, cluster-ip, nodeport or \
             loadbalancer",
        ),
        (
            json!({ "authentication": { "type": "oauth" } }),
            "authentication.type is oauth, which is not supported: use tls or scram-sha-512",
        ),
        (
            json!({ "authentication": { "type": "custom", "sasl": "yes" } }),
            "authentication.sasl is neither true nor false",
        ),
        (
            json!({ "authentication": { "type": "custom", "listenerConfig": "x" } }),
            "authentication.listenerConfig is no map of settings",
        ),
        (
            json!({ "configuration": { "brokers": [{ "broker": -1 }] } }),
            "configuration.brokers[0].broker is -1: it has to be the id of a node",
        ),
        (
            json!({ "configuration": { "brokers": [{ "broker": 1 }, { "broker": 1 }] } }),
            "configuration.brokers[1].broker is 1, which was configured before",
        ),
        (
            json!({ "configuration": { "brokers": [{ "broker": 1, "nodePort": 70000 }] } }),
            "configuration.brokers[0].nodePort is 70000: it has to be a port, from 1 to 65535",
        ),
        (
            json!({ "configuration": { "bootstrap": { "nodePort": -5 } } }),
            "configuration.bootstrap.nodePort is -5: it has to be a port, from 1 to 65535",
        ),
    ];
    for (listener, expected) in rows {
        let expected = format!("Kafka my: spec.kafka.listeners[0].{expected}");
        problems(&with_listener(listener), &[], &[&expected]);
    }
}

#[test]
fn what_all_nodes_share() {
    let spec = kafka(json!({
        "listeners": [plain()], "version": "4.3.1", "metadataVersion": "4.3-IV0", "image": "i",
        "authorization": { "type": "simple", "superUsers": ["CN=me"] },
        "rack": { "topologyKey": "zone" },
        "metricsConfig": { "type": "jmxPrometheusExporter",
            "valueFrom": { "configMapKeyRef": { "name": "m", "key": "k" } } },
        "template": { "podDisruptionBudget": { "maxUnavailable": 2 } },
    }));
    let spec = cluster(&spec, &[]).unwrap();
    assert_eq!(spec.kafka_version.as_deref(), Some("4.3.1"));
    assert_eq!(spec.metadata_version.as_deref(), Some("4.3-IV0"));
    assert_eq!(spec.authorization.unwrap().super_users, ["CN=me"]);
    assert_eq!(spec.rack, Some(Rack::TopologyLabel("zone".to_owned())));
    let metrics = ConfigMapEntry { config_map: "m".to_owned(), key: "k".to_owned() };
    assert_eq!(spec.metrics, Some(metrics));
    assert_eq!(spec.logging, Logging::Default);
    assert_eq!(spec.max_unavailable, 2);
    let from_environment = json!({ "type": "environment-variable", "envVarName": "ZONE" });
    let spec = cluster(&kafka(json!({ "listeners": [plain()], "rack": from_environment })), &[]);
    assert_eq!(spec.unwrap().rack, Some(Rack::Environment("ZONE".to_owned())));
}

#[test]
fn loggers_are_in_the_resource_or_in_a_config_map() {
    let entry = ConfigMapEntry { config_map: "m".to_owned(), key: "k".to_owned() };
    let source = json!({ "configMapKeyRef": { "name": "m", "key": "k" } });
    let keys = [("rootLogger.level".to_owned(), "WARN".to_owned())];
    let rows = [
        (json!({ "type": "inline" }), Logging::Inline([].into())),
        (
            json!({ "type": "inline", "loggers": { "rootLogger.level": "WARN" } }),
            Logging::Inline(keys.into()),
        ),
        (json!({ "type": "external", "valueFrom": source }), Logging::External(entry)),
    ];
    for (logging, expected) in rows {
        let kafka = kafka(json!({ "listeners": [plain()], "logging": logging }));
        assert_eq!(cluster(&kafka, &[]).unwrap().logging, expected, "{logging}");
    }
}

#[test]
fn settings_for_all_nodes_that_are_invalid() {
    let rows = [
        (
            json!({ "authorization": { "type": "custom" } }),
            "authorization.type is custom, which is not supported: use simple, or leave it out",
        ),
        (
            json!({ "authorization": { "type": "opa" } }),
            "authorization.type is opa, which is not supported: use simple, or leave it out",
        ),
        (
            json!({ "authorization": { "type": "keycloak" } }),
            "authorization.type is keycloak, which is not supported: use simple, or leave it out",
        ),
        (json!({ "rack": {} }), "rack.topologyKey is missing: without it no rack is known"),
        (
            json!({ "rack": { "type": "environment-variable", "envVarName": " " } }),
            "rack.envVarName is missing: without it no rack is known",
        ),
        (
            json!({ "metricsConfig": { "type": "jmxPrometheusExporter" } }),
            "metricsConfig.valueFrom.configMapKeyRef is missing: it names the ConfigMap and the \
             entry with the exporter's rules",
        ),
        (
            json!({ "livenessProbe": { "successThreshold": 2 } }),
            "livenessProbe.successThreshold is 2: Kubernetes allows only 1 for a liveness probe",
        ),
        (
            json!({ "logging": { "type": "external" } }),
            "logging.valueFrom.configMapKeyRef is missing: it names the ConfigMap and the entry \
             with the configuration of log4j2",
        ),
        (
            json!({ "logging": { "type": "external",
                "valueFrom": { "configMapKeyRef": { "name": "m" } } } }),
            "logging.valueFrom.configMapKeyRef is missing: it names the ConfigMap and the entry \
             with the configuration of log4j2",
        ),
        (
            json!({ "template": { "podDisruptionBudget": { "maxUnavailable": -1 } } }),
            "template.podDisruptionBudget.maxUnavailable is -1: it has to be at least 0",
        ),
    ];
    for (more, expected) in rows {
        let mut spec = json!({ "listeners": [plain()] });
        merge(&mut spec, more);
        problems(&kafka(spec), &[], &[&format!("Kafka my: spec.kafka.{expected}")]);
    }
    let mut days = kafka(json!({ "listeners": [plain()] }));
    days.spec.clients_ca =
        Some(CertificateAuthority { validity_days: Some(0), ..CertificateAuthority::default() });
    problems(&days, &[], &["Kafka my: spec.clientsCa.validityDays is 0: it has to be at least 1"]);
    days.spec.clients_ca = None;
    days.metadata.name = None;
    problems(&days, &[], &["Kafka : metadata.name is missing"]);
}

#[test]
fn pools_are_read_in_the_order_of_their_names() {
    let kafka = kafka(json!({ "listeners": [plain()], "jvmOptions": { "-Xmx": "1g" } }));
    let pools = [
        pool("controller", json!({ "replicas": 3, "roles": ["controller"] })),
        pool(
            "both",
            json!({ "replicas": 2, "roles": ["broker", "controller", "broker"],
            "jvmOptions": { "-Xms": "2g", "-XX": { "UseG1GC": "true" }, "gcLoggingEnabled": true,
                "javaSystemProperties": [{ "name": "a", "value": "b c" }, { "name": "d" }] } }),
        ),
        pool(
            "broker",
            json!({ "resources": { "limits": { "memory": "4Gi" }, "requests": { "memory": 5 } } }),
        ),
    ];
    let spec = cluster(&kafka, &pools).unwrap();
    let names: Vec<_> = spec.pools.iter().map(|p| (p.name.as_str(), p.roles, p.replicas)).collect();
    let expected = [
        ("both", Roles::Combined, 2),
        ("broker", Roles::Broker, 1),
        ("controller", Roles::Controller, 3),
    ];
    assert_eq!(names, expected);
    assert_eq!((spec.brokers(), spec.controllers()), (3, 5));
    let [both, broker, controller] = &spec.pools[..] else { panic!() };
    assert_eq!(broker.memory_bytes, Some(4 << 30));
    assert_eq!(controller.memory_bytes, None);
    assert_eq!(controller.jvm.heap_max.as_deref(), Some("1g"));
    // A pool with options of its own has none of the cluster's.
    assert_eq!(
        (both.jvm.heap_max.as_deref(), both.jvm.heap_initial.as_deref()),
        (None, Some("2g"))
    );
    assert!(both.jvm.gc_logging && both.jvm.xx["UseG1GC"] == "true");
    let properties = [("a", "b c"), ("d", "")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(both.jvm.system_properties, properties);
}

#[test]
fn pools_that_cannot_be() {
    let claim = |size: &str| json!({ "storage": { "type": "persistent-claim", "size": size } });
    let volume = |volume: Value| json!({ "storage": { "type": "jbod", "volumes": [volume] } });
    let rows = [
        (json!({ "replicas": -1 }), "spec.replicas is -1: it has to be at least 0"),
        (json!({ "roles": [] }), "spec.roles is empty: name broker, controller or both"),
        (
            json!({ "storage": { "type": "persistent-claim" } }),
            "spec.storage.size is missing: a persistent-claim says how large it is",
        ),
        (
            claim("big"),
            "spec.storage.size cannot be: \"big\" is not an amount such as 100Gi or 500M",
        ),
        (claim("-1Gi"), "spec.storage.size cannot be: \"-1Gi\" is negative"),
        (claim("0"), "spec.storage.size is nothing: a persistent-claim is larger than that"),
        (
            json!({ "storage": { "type": "ephemeral", "sizeLimit": "x" } }),
            "spec.storage.sizeLimit cannot be: \"x\" is not an amount such as 100Gi or 500M",
        ),
        (
            json!({ "storage": { "type": "jbod" } }),
            "spec.storage.volumes is empty: jbod has at least one volume",
        ),
        (
            volume(json!({ "type": "ephemeral" })),
            "spec.storage.volumes[0].id is missing: every volume of jbod has a number",
        ),
        (
            volume(json!({ "type": "ephemeral", "id": -1 })),
            "spec.storage.volumes[0].id is -1: it has to be at least 0",
        ),
        (
            volume(json!({ "type": "persistent-claim", "id": 0 })),
            "spec.storage.volumes[0].size is missing: a persistent-claim says how large it is",
        ),
        (
            json!({ "resources": { "requests": { "memory": "lots" } } }),
            "spec.resources.requests.memory cannot be: \"lots\" is not an amount such as 100Gi \
             or 500M",
        ),
        (
            json!({ "jvmOptions": { "javaSystemProperties": [{ "value": "x" }] } }),
            "jvmOptions.javaSystemProperties[0].name is missing",
        ),
    ];
    for (more, expected) in rows {
        let kafka = kafka(json!({ "listeners": [plain()] }));
        problems(&kafka, &[pool("p", more)], &[&format!("KafkaNodePool p: {expected}")]);
    }
}

#[test]
fn all_problems_are_found_at_once() {
    let kafka = with_listener(json!({ "type": "ingress", "port": 0 }));
    let pools = [pool("a", json!({ "replicas": -1 })), pool("b", json!({ "roles": [] }))];
    assert_eq!(cluster(&kafka, &pools).unwrap_err().len(), 4);
}

#[test]
fn storage_is_read_and_written() {
    let ephemeral =
        |id| Volume { id, kraft_metadata: false, disk: Disk::Ephemeral { size_limit: None } };
    let rows = [
        (json!({ "type": "ephemeral" }), Storage::Single(ephemeral(0))),
        (
            json!({ "type": "ephemeral", "sizeLimit": "1Gi", "kraftMetadata": "shared" }),
            Storage::Single(Volume {
                id: 0,
                kraft_metadata: true,
                disk: Disk::Ephemeral { size_limit: Some(Size::parse("1Gi").unwrap()) },
            }),
        ),
        (
            json!({ "type": "jbod", "volumes": [
                { "type": "ephemeral", "id": 2 },
                { "type": "persistent-claim", "id": 1, "size": "10Gi", "class": "fast", "deleteClaim": true,
                  "volumeAttributesClass": "gold", "selector": { "a": "b" }, "kraftMetadata": "shared" },
            ]}),
            Storage::Jbod(vec![
                ephemeral(2),
                Volume {
                    id: 1,
                    kraft_metadata: true,
                    disk: Disk::Claim(control::cluster::spec::Claim {
                        size: Size::parse("10Gi").unwrap(),
                        class: Some("fast".to_owned()),
                        attributes_class: Some("gold".to_owned()),
                        selector: [("a".to_owned(), "b".to_owned())].into(),
                        delete: true,
                    }),
                },
            ]),
        ),
    ];
    for (written, expected) in rows {
        let read = storage_from_text(&written.to_string(), "p").unwrap();
        assert_eq!(read, expected, "{written}");
        let text = storage_text(&read);
        assert_eq!(storage_from_text(&text, "p").unwrap(), expected, "{text}");
    }
    let broken = storage_from_text("{", "KafkaNodePool p").unwrap_err();
    assert!(broken[0].to_string().starts_with("KafkaNodePool p: recorded storage cannot be read"));
}

#[test]
fn labels_of_templates_are_found_wherever_they_are() {
    let metadata = json!({ "metadata": { "labels": { "l": "1" }, "annotations": { "a": "1" } } });
    let mut spec = kafka(json!({
        "listeners": [plain()], "template": { "pod": metadata, "brokersService": metadata },
    }));
    spec.spec.kafka.listeners[0].configuration = serde_json::from_value(json!({
        "bootstrap": { "labels": { "x": "y" } }, "brokers": [{ "broker": 0, "annotations": { "q": "r" } }],
    }))
    .unwrap();
    let pools = [pool("p", json!({ "template": { "podSet": metadata } }))];
    let found: Vec<_> = cluster(&spec, &pools)
        .unwrap()
        .template_keys
        .into_iter()
        .map(|key| format!("{} {}", key.place, key.key))
        .collect();
    let expected = [
        "spec.kafka.template.pod.metadata.labels l",
        "spec.kafka.template.pod.metadata.annotations a",
        "spec.kafka.template.brokersService.metadata.labels l",
        "spec.kafka.template.brokersService.metadata.annotations a",
        "spec.kafka.listeners[0].configuration.bootstrap.labels x",
        "spec.kafka.listeners[0].configuration.brokers[0].annotations q",
        "KafkaNodePool p spec.template.podSet.metadata.labels l",
        "KafkaNodePool p spec.template.podSet.metadata.annotations a",
    ];
    assert_eq!(found, expected);
}
