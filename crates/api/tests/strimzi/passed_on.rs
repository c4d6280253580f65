//! The parts of templates that are passed on to pods: exactly those of Strimzi's schema, from the resource to
//! the decision.

use std::collections::BTreeSet;

use crate::strimzi;
use api::crds::{crds, manifest};
use api::{FORBIDDEN_VOLUME_SOURCES, Kafka, KafkaNodePool};
use control::cluster::validate::templates::{PASSED_ON, Shape, VOLUME_SOURCES};
use control::cluster::validate::{Finding, Known, Reason, is_refused, validate};
use control::registration::KafkaVersion;
use k8s_openapi::api::core::v1::Volume;
use serde_json::{Value, json};

/// All paths of a shape.
fn paths(shape: &Shape, at: &str, found: &mut BTreeSet<String>) {
    found.insert(at.to_owned());
    match shape {
        Shape::Map(fields) => {
            fields.iter().for_each(|(name, shape)| paths(shape, &format!("{at}.{name}"), found));
        }
        Shape::List(shape) => paths(shape, &format!("{at}[]"), found),
        Shape::Texts => drop(found.insert(format!("{at}{{}}"))),
        Shape::Only(_)
        | Shape::Flag
        | Shape::AtLeast(_)
        | Shape::Text
        | Shape::OneOf(_)
        | Shape::Quantity => {}
    }
}

#[test]
fn what_is_passed_on_is_what_strimzi_has() {
    for (kind, prefix) in [("Kafka", "spec.kafka.template"), ("KafkaNodePool", "spec.template")] {
        let (mut ours, mut theirs) = (BTreeSet::new(), BTreeSet::new());
        for (path, _, shape) in PASSED_ON {
            let part = format!("{prefix}.{path}");
            paths(shape, &part, &mut ours);
            let rows = strimzi::rows().into_iter().filter(|row| row.kind == kind);
            theirs.extend(rows.map(|row| row.path).filter(|path| {
                let rest = path.strip_prefix(&part);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            }));
        }
        assert_eq!(ours, theirs, "{kind}");
    }
}

/// Every source that Kubernetes has. A new one does not compile until it is decided about.
fn every_source() -> BTreeSet<String> {
    let volume = Volume {
        aws_elastic_block_store: Some(Default::default()),
        azure_disk: Some(Default::default()),
        azure_file: Some(Default::default()),
        cephfs: Some(Default::default()),
        cinder: Some(Default::default()),
        config_map: Some(Default::default()),
        csi: Some(Default::default()),
        downward_api: Some(Default::default()),
        empty_dir: Some(Default::default()),
        ephemeral: Some(Default::default()),
        fc: Some(Default::default()),
        flex_volume: Some(Default::default()),
        flocker: Some(Default::default()),
        gce_persistent_disk: Some(Default::default()),
        git_repo: Some(Default::default()),
        glusterfs: Some(Default::default()),
        host_path: Some(Default::default()),
        image: Some(Default::default()),
        iscsi: Some(Default::default()),
        name: "v".to_owned(),
        nfs: Some(Default::default()),
        persistent_volume_claim: Some(Default::default()),
        photon_persistent_disk: Some(Default::default()),
        portworx_volume: Some(Default::default()),
        projected: Some(Default::default()),
        quobyte: Some(Default::default()),
        rbd: Some(Default::default()),
        scale_io: Some(Default::default()),
        secret: Some(Default::default()),
        storageos: Some(Default::default()),
        vsphere_volume: Some(Default::default()),
    };
    let fields = serde_json::to_value(volume).unwrap();
    fields.as_object().unwrap().keys().filter(|name| *name != "name").cloned().collect()
}

#[test]
fn the_definitions_forbid_every_other_source_of_volumes() {
    let allowed: BTreeSet<_> = VOLUME_SOURCES.iter().map(|&name| name.to_owned()).collect();
    let forbidden: BTreeSet<_> =
        FORBIDDEN_VOLUME_SOURCES.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(every_source(), &allowed | &forbidden);
    assert!(allowed.is_disjoint(&forbidden));
    let places = [
        ("Kafka", "/properties/spec/properties/kafka/properties/template"),
        ("KafkaNodePool", "/properties/spec/properties/template"),
    ];
    for (kind, template) in places {
        let definition = crds().into_iter().find(|crd| crd.spec.names.kind == kind).unwrap();
        for version in manifest(&definition)["spec"]["versions"].as_array().unwrap() {
            let path = format!("{template}/properties/pod/properties/volumes/items/not/anyOf");
            let rules = version["schema"]["openAPIV3Schema"].pointer(&path).unwrap();
            let rules = rules.as_array().unwrap().iter();
            let found = rules.map(|rule| rule["required"][0].as_str().unwrap().to_owned());
            assert_eq!(found.collect::<BTreeSet<_>>(), forbidden, "{kind} {}", version["name"]);
        }
    }
}

/// The findings about a cluster with this template of the cluster and of its pool.
fn findings(cluster: Value, pool: Value) -> Vec<Finding> {
    let kafka: Kafka = serde_json::from_value(json!({
        "apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka",
        "metadata": { "name": "my", "namespace": "here" },
        "spec": { "kafka": {
            "listeners": [{ "name": "plain", "port": 9092, "type": "internal", "tls": false }],
            "template": cluster,
        } },
    }))
    .unwrap();
    let pool: KafkaNodePool = serde_json::from_value(json!({
        "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaNodePool",
        "metadata": { "name": "both", "namespace": "here" },
        "spec": {
            "replicas": 3, "roles": ["broker", "controller"], "storage": { "type": "ephemeral" },
            "template": pool,
        },
    }))
    .unwrap();
    let spec = api::read::cluster(&kafka, &[pool]).unwrap();
    validate(&spec, &Known::of([KafkaVersion::new(4, 3, 1)]), None)
}

#[test]
fn a_part_of_a_template_that_reaches_beyond_the_namespace_is_refused_by_its_place() {
    let host = json!([{ "name": "host", "hostPath": { "path": "/" } }]);
    let mount = json!([{ "name": "v", "mountPath": "/opt/kafka/libs" }]);
    let rows = [
        (json!({ "pod": { "volumes": host } }), "pod.volumes[0].hostPath", Reason::ForbiddenVolume),
        (
            json!({ "pod": { "securityContext": { "runAsUser": 0 } } }),
            "pod.securityContext.runAsUser",
            Reason::ForbiddenSecurityContext,
        ),
        (
            json!({ "kafkaContainer": { "securityContext": { "privileged": true } } }),
            "kafkaContainer.securityContext.privileged",
            Reason::ForbiddenSecurityContext,
        ),
        (
            json!({ "kafkaContainer": { "volumeMounts": mount } }),
            "kafkaContainer.volumeMounts[0].mountPath",
            Reason::ForbiddenVolumeMount,
        ),
        (
            json!({ "kafkaContainer": { "env": [{ "name": "A", "valueFrom": { "fieldRef": {} } }] } }),
            "kafkaContainer.env[0].valueFrom.fieldRef",
            Reason::ForbiddenEnvironment,
        ),
    ];
    for (template, path, reason) in rows {
        let places = [
            (findings(template.clone(), json!({})), "spec.kafka.template"),
            (findings(json!({}), template.clone()), "KafkaNodePool both spec.template"),
        ];
        for (found, place) in places {
            let at = format!("{place}.{path}");
            let told = found.iter().find(|one| one.message.starts_with(&at));
            assert_eq!(told.map(|one| one.reason), Some(reason), "{at} {found:?}");
            assert!(is_refused(&found));
        }
    }
    assert!(!is_refused(&findings(json!({}), json!({}))));
}
