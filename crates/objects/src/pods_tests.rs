//! Pods conform to the Pod Security profile `restricted`, with any template.

use std::collections::BTreeSet;

use api::{Kafka, KafkaNodePool};
use control::cluster::validate::templates::OWN_VOLUMES;
use control::node::Roles;

use super::*;

/// The spec of a broker's pod with this template, in a cluster that uses Node labels.
fn pod_of(template: Value, resources: Value) -> Value {
    pod_with(template, resources, (Roles::Combined, DYNAMIC))
}

/// The same, with these roles and this kind of quorum.
fn pod_with(template: Value, resources: Value, node: (Roles, &str)) -> Value {
    pod_in(json!({ "template": template }), resources, node)
}

/// The same in a cluster with these fields.
fn pod_in(more: Value, resources: Value, (roles, quorum): (Roles, &str)) -> Value {
    let mut kafka = json!({
        "listeners": [{ "name": "plain", "port": 9092, "type": "internal", "tls": false }],
        "rack": { "topologyKey": "zone" },
    });
    for (field, value) in more.as_object().unwrap() {
        kafka[field] = value.clone();
    }
    let kafka: Kafka = serde_json::from_value(json!({
        "apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka",
        "metadata": { "name": "my", "namespace": "here", "uid": "u" },
        "spec": { "kafka": kafka },
    }))
    .unwrap();
    let pool: KafkaNodePool = serde_json::from_value(json!({
        "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaNodePool",
        "metadata": { "name": "both", "namespace": "here" },
        "spec": {
            "replicas": 1, "roles": ["broker", "controller"], "resources": resources,
            "storage": { "type": "persistent-claim", "size": "1Gi" },
        },
    }))
    .unwrap();
    let pools = vec![pool];
    let spec = api::read::cluster(&kafka, &pools).unwrap();
    let id = model::NodeId::new(0).unwrap();
    let node = Node { id, pool: "both".to_owned(), roles };
    let blueprint = Blueprint {
        names: api::names::Names::new("here", "my"),
        kafka,
        pools,
        spec,
        nodes: vec![node],
        desired: Default::default(),
        refused: Default::default(),
        domain: "cluster.local".to_owned(),
    };
    let data = Volume {
        name: "data".to_owned(),
        mount: "/var/lib/kafka/data".to_owned(),
        source: Source::Claim,
    };
    let parts = PodParts {
        image: "i".to_owned(),
        marks: [(id, [(QUORUM.to_owned(), quorum.to_owned())].into())].into(),
        settings: Default::default(),
        volumes: vec![data],
        memory_bytes: None,
        annotations: Default::default(),
    };
    let set = pod_set(&blueprint, "both", &parts).unwrap();
    json!(set)["spec"]["pods"][0]["spec"].clone()
}

fn has(list: &Value, one: Value) -> bool {
    list.as_array().unwrap().contains(&one)
}

/// Violations of the Pod Security profile `restricted`, according to its documentation.
fn problems(spec: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut need = |holds: bool, what: String| {
        if !holds {
            found.push(what);
        }
    };
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        need(spec[field] != true, field.to_owned());
    }
    for volume in spec["volumes"].as_array().unwrap() {
        let allowed = [
            "configMap",
            "csi",
            "downwardAPI",
            "emptyDir",
            "ephemeral",
            "persistentVolumeClaim",
            "projected",
            "secret",
        ];
        need(allowed.iter().any(|one| volume.get(one).is_some()), volume.to_string());
    }
    let pod = &spec["securityContext"];
    need(pod["runAsNonRoot"] == true && pod["runAsUser"] != 0, "runAsNonRoot".to_owned());
    need(pod["seccompProfile"]["type"] == "RuntimeDefault", "seccompProfile".to_owned());
    let containers = ["containers", "initContainers"];
    let containers = containers.iter().flat_map(|list| spec[list].as_array().unwrap());
    for container in containers {
        let (name, context) = (&container["name"], &container["securityContext"]);
        need(context["allowPrivilegeEscalation"] == false, format!("{name} escalation"));
        need(context["capabilities"]["drop"] == json!(["ALL"]), format!("{name} capabilities"));
        need(context["readOnlyRootFilesystem"] == true, format!("{name} root file system"));
        need(context["privileged"] != true, format!("{name} privileged"));
    }
    found
}

#[test]
fn pods_conform_to_the_restricted_profile_with_what_they_write_to() {
    let spec = pod_of(json!({}), json!({}));
    assert_eq!(problems(&spec), Vec::<String>::new());
    assert_eq!(spec["initContainers"].as_array().unwrap().len(), 1);
    assert_eq!(spec["securityContext"]["fsGroup"], 0);
    let container = &spec["containers"][0];
    let mounts = container["volumeMounts"].as_array().unwrap();
    let writable: BTreeSet<_> = mounts
        .iter()
        .filter(|mount| mount["readOnly"] != true)
        .map(|mount| mount["mountPath"].as_str().unwrap())
        .collect();
    assert_eq!(writable, BTreeSet::from([TMP_DIR, "/var/lib/kafka/data"]));
    let env = container["env"].as_array().unwrap();
    assert!(env.contains(&json!({ "name": "TMPDIR", "value": TMP_DIR })));
}

/// The node uses it to check whether a permission to format its lost disk is meant for it.
#[test]
fn a_controller_of_a_static_quorum_knows_the_uid_of_its_pod() {
    let rows = [
        (Roles::Controller, "static", true),
        (Roles::Combined, "static", true),
        (Roles::Broker, "static", false),
        (Roles::Controller, DYNAMIC, false),
    ];
    for (roles, quorum, expected) in rows {
        let spec = pod_with(json!({}), json!({}), (roles, quorum));
        let env = spec["containers"][0]["env"].as_array().unwrap();
        let has = env.contains(&field("GREGOR_POD_UID", "metadata.uid"));
        assert_eq!(has, expected, "{roles} {quorum}");
    }
}

#[test]
fn fields_of_a_pod_that_are_not_passed_on_never_reach_it() {
    let template = json!({ "pod": {
        "serviceAccountName": "admin", "serviceAccount": "admin", "automountServiceAccountToken": true,
        "hostNetwork": true, "hostPID": true, "hostIPC": true, "shareProcessNamespace": true,
        "nodeName": "control-plane", "runtimeClassName": "x", "initContainers": [{ "name": "evil" }],
        "containers": [{ "name": "evil" }], "ephemeralContainers": [], "resourceClaims": [{}],
        "hostname": "other", "subdomain": "other", "restartPolicy": "Never",
    }, "kafkaContainer": {
        "image": "evil", "command": ["sh"], "args": ["-c", "x"], "envFrom": [{}], "lifecycle": {},
        "stdin": true, "volumeDevices": [{}], "ports": [{ "hostPort": 1 }], "livenessProbe": {},
    } });
    let spec = pod_of(template, json!({}));
    assert_eq!(spec, pod_of(json!({}), json!({})));
    assert_eq!(spec["serviceAccountName"], "my-kafka");
    assert_eq!(spec["automountServiceAccountToken"], false);
}

#[test]
fn a_template_that_is_accepted_is_added() {
    let template = json!({ "pod": {
        "securityContext": { "runAsUser": 1000, "fsGroup": 1000 },
        "volumes": [{ "name": "mine", "emptyDir": {} }],
        "priorityClassName": "high", "tolerations": [{ "key": "a" }], "hostUsers": false,
    }, "kafkaContainer": {
        "volumeMounts": [{ "name": "mine", "mountPath": "/mnt/mine" }],
        "env": [{ "name": "A", "value": "b" }, { "name": "TMPDIR", "value": "/etc" }],
        "securityContext": { "capabilities": { "add": ["NET_BIND_SERVICE"], "drop": [] } },
    } });
    let spec =
        pod_of(template, json!({ "limits": { "memory": "1Gi" }, "claims": [{ "name": "gpu" }] }));
    assert_eq!(problems(&spec), Vec::<String>::new());
    let context = &spec["securityContext"];
    assert_eq!((&context["runAsUser"], &context["fsGroup"]), (&json!(1000), &json!(1000)));
    assert_eq!((&spec["priorityClassName"], &spec["hostUsers"]), (&json!("high"), &json!(false)));
    let container = &spec["containers"][0];
    assert!(has(&spec["volumes"], json!({ "name": "mine", "emptyDir": {} })));
    assert!(has(&container["volumeMounts"], json!({ "name": "mine", "mountPath": "/mnt/mine" })));
    assert!(has(&container["env"], json!({ "name": "A", "value": "b" })));
    let temporary =
        container["env"].as_array().unwrap().iter().filter(|one| one["name"] == "TMPDIR");
    assert_eq!(temporary.collect::<Vec<_>>(), [&json!({ "name": "TMPDIR", "value": TMP_DIR })]);
    assert_eq!(container["resources"], json!({ "limits": { "memory": "1Gi" } }));
    assert_eq!(container["securityContext"]["capabilities"]["add"], json!(["NET_BIND_SERVICE"]));
}

/// `control` decides by these names; this keeps both in sync.
#[test]
fn everything_of_the_node_is_known_to_those_who_protect_it() {
    let spec = pod_with(json!({}), json!({}), (Roles::Combined, "static"));
    let names = |list: &Value| -> BTreeSet<String> {
        let all = list.as_array().unwrap().iter();
        all.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let mut volumes = names(&spec["volumes"]);
    assert!(volumes.remove("data"));
    assert_eq!(volumes, OWN_VOLUMES.iter().map(|&name| name.to_owned()).collect());
    let container = &spec["containers"][0];
    for name in names(&container["env"]) {
        assert!(is_own_variable(&name), "{name}");
    }
    for mount in container["volumeMounts"].as_array().unwrap() {
        assert!(!mount["mountPath"].as_str().unwrap().starts_with("/mnt"), "{mount}");
    }
}

#[test]
fn probes_have_the_times_of_the_user() {
    let times = |probe: Value| {
        let pod = pod_in(json!({ "livenessProbe": probe }), json!({}), (Roles::Combined, DYNAMIC));
        let mut probe = pod["containers"][0]["livenessProbe"].clone();
        let asked = probe.as_object_mut().unwrap().remove("httpGet").unwrap();
        assert_eq!(asked["path"], "/live");
        probe
    };
    let own = json!({ "initialDelaySeconds": 15, "periodSeconds": 5, "timeoutSeconds": 5 });
    let all = json!({ "initialDelaySeconds": 1, "periodSeconds": 2, "timeoutSeconds": 3,
        "successThreshold": 1, "failureThreshold": 4 });
    let rows = [
        (json!(null), own),
        (json!({}), json!({ "initialDelaySeconds": 15, "timeoutSeconds": 5 })),
        (json!({ "initialDelaySeconds": 0 }), json!({ "timeoutSeconds": 5 })),
        (all.clone(), all),
    ];
    for (given, expected) in rows {
        assert_eq!(times(given.clone()), expected, "{given}");
    }
}

#[test]
fn templated_volumes_are_filled_in_for_each_node() {
    let items = json!([{ "key": "{nodeId}.crt", "path": "{nodePodName}.crt" }]);
    let spec = pod_of(
        json!({ "pod": { "templatedVolumes": [
            { "name": "a", "secret": { "secretName": "tls-{nodePodName}", "items": items } },
            { "name": "b", "configMap": { "name": "rules-{nodeId}" } },
            { "name": "c", "persistentVolumeClaim": { "claimName": "x-{nodeId}-{nodePodName}" } },
        ] } }),
        json!({}),
    );
    let volumes = spec["volumes"].as_array().unwrap();
    let items = json!([{ "key": "0.crt", "path": "my-both-0.crt" }]);
    let filled = json!([
        { "name": "a", "secret": { "secretName": "tls-my-both-0", "items": items } },
        { "name": "b", "configMap": { "name": "rules-0" } },
        { "name": "c", "persistentVolumeClaim": { "claimName": "x-0-my-both-0" } },
    ]);
    assert_eq!(json!(volumes[volumes.len() - 3..]), filled);
}

#[test]
fn the_init_container_has_its_template() {
    let spec = pod_of(
        json!({ "initContainer": {
            "env": [{ "name": "LANG", "value": "C" }, { "name": "NODE_NAME", "value": "evil" }],
            "securityContext": { "runAsUser": 1001 },
            "volumeMounts": [{ "name": "mine", "mountPath": "/mnt/mine" }],
        } }),
        json!({}),
    );
    assert_eq!(problems(&spec), Vec::<String>::new());
    let init = &spec["initContainers"][0];
    assert!(has(&init["env"], json!({ "name": "LANG", "value": "C" })));
    assert!(!has(&init["env"], json!({ "name": "NODE_NAME", "value": "evil" })));
    assert_eq!(init["securityContext"]["runAsUser"], 1001);
    assert!(has(&init["volumeMounts"], json!({ "name": "mine", "mountPath": "/mnt/mine" })));
}
