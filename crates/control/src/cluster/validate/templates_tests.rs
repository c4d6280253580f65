//! Rows of template parts that are accepted, and of those that are refused with what is said of them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::{Known, Severity, is_refused, validate};
use super::*;
use crate::cluster::samples;
use crate::cluster::spec::{Certificate, PodTemplate, TemplateKey};

fn written(value: &Value) -> Written {
    match value {
        Value::Null => Written::Null,
        Value::Bool(flag) => Written::Bool(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Written::Integer(whole),
            None => Written::Number(number.to_string()),
        },
        Value::String(text) => Written::Text(text.clone()),
        Value::Array(items) => Written::List(items.iter().map(written).collect()),
        Value::Object(fields) => Written::Map(
            fields.iter().map(|(name, value)| (name.clone(), written(value))).collect(),
        ),
    }
}

/// The findings about a template with one part.
fn findings(path: &str, value: &Value) -> Vec<super::super::Finding> {
    let mut spec = samples::cluster();
    let parts = BTreeMap::from([(path.to_owned(), written(value))]);
    spec.pod_templates = vec![PodTemplate { place: "t".to_owned(), parts }];
    let known = Known::of([crate::registration::KafkaVersion::new(4, 3, 1)]);
    let plain = validate(&samples::cluster(), &known, None);
    validate(&spec, &known, None).into_iter().filter(|one| !plain.contains(one)).collect()
}

#[track_caller]
fn accepted(path: &str, rows: &[Value]) {
    for value in rows {
        assert_eq!(findings(path, value), [], "{path} {value}");
    }
}

/// Each row is refused, with a message that contains the text.
#[track_caller]
fn refused(path: &str, reason: Reason, rows: &[(Value, &str)]) {
    for (value, text) in rows {
        let found = findings(path, value);
        assert!(is_refused(&found), "{path} {value} is accepted");
        assert!(found.iter().all(|one| one.reason == reason), "{path} {value} {found:?}");
        assert!(found.iter().any(|one| one.message.contains(text)), "{path} {value} {found:?}");
    }
}

#[test]
fn volumes_have_a_source_of_strimzis_schema() {
    let volume = |source: &str, value: Value| json!([{ "name": "v", source: value }]);
    accepted(
        "pod.volumes",
        &[
            volume(
                "secret",
                json!({ "secretName": "mine", "optional": true, "defaultMode": 288,
                "items": [{ "key": "a", "path": "b", "mode": 256 }] }),
            ),
            volume("configMap", json!({ "name": "mine", "items": [{ "key": "a", "path": "b" }] })),
            volume("emptyDir", json!({})),
            volume("emptyDir", json!({ "medium": "Memory", "sizeLimit": "1Gi" })),
            volume("emptyDir", json!({ "sizeLimit": 1024 })),
            volume(
                "persistentVolumeClaim",
                json!({ "claimName": "data-other-0", "readOnly": true }),
            ),
            volume("persistentVolumeClaim", json!({ "claimName": "my-claim" })),
            volume(
                "csi",
                json!({ "driver": "secrets-store.csi.k8s.io", "readOnly": true,
                "volumeAttributes": { "a": "b" }, "nodePublishSecretRef": { "name": "x" } }),
            ),
            volume("image", json!({ "reference": "plugins:1", "pullPolicy": "Always" })),
            volume("secret", json!({ "secretName": "my-cluster-ca-cert" })),
        ],
    );
    refused(
        "pod.volumes",
        Reason::ForbiddenVolume,
        &[
            (
                volume("hostPath", json!({ "path": "/" })),
                "t.pod.volumes[0].hostPath is not supported",
            ),
            (volume("hostPath", json!({ "path": "/" })), "exactly one source"),
            (volume("projected", json!({ "sources": [] })), "projected is not supported"),
            (volume("nfs", json!({ "server": "x", "path": "/" })), "nfs is not supported"),
            (volume("downwardAPI", json!({})), "downwardAPI is not supported"),
            (volume("ephemeral", json!({})), "ephemeral is not supported"),
            (volume("sourceOfTheFuture", json!({})), "sourceOfTheFuture is not supported"),
            (json!([{ "name": "v", "emptyDir": {}, "hostPath": { "path": "/" } }]), "hostPath"),
            (
                json!([{ "name": "v", "emptyDir": {}, "secret": { "secretName": "a" } }]),
                "exactly one",
            ),
            (json!([{ "name": "v" }]), "it has none"),
            (json!([{ "emptyDir": {} }]), "t.pod.volumes[0].name is missing"),
            (json!([{ "name": "data", "emptyDir": {} }]), "a volume of the node"),
            (json!([{ "name": "data-0", "emptyDir": {} }]), "a volume of the node"),
            (json!([{ "name": "tmp", "emptyDir": {} }]), "a volume of the node"),
            (json!([{ "name": "kube-api-access", "emptyDir": {} }]), "a volume of the node"),
            (volume("emptyDir", json!("x")), "use a map"),
            (volume("csi", json!({ "driver": 1 })), "csi.driver is 1"),
            (volume("csi", json!({ "volumeAttributes": { "a": {} } })), "a map of texts"),
            (json!({}), "t.pod.volumes is a map"),
            (json!(["x"]), "t.pod.volumes[0] is \"x\""),
        ],
    );
}

#[test]
fn volumes_hold_no_keys_of_the_operator_and_no_data_of_nodes() {
    let secret = |name: &str| json!([{ "name": "v", "secret": { "secretName": name } }]);
    let claim =
        |name: &str| json!([{ "name": "v", "persistentVolumeClaim": { "claimName": name } }]);
    refused(
        "pod.volumes",
        Reason::ForbiddenVolume,
        &[
            (secret("my-cluster-ca"), "private key"),
            (secret("another-clients-ca"), "private key"),
            (secret("my-cluster-operator-certs"), "private key"),
            (
                json!([{ "name": "v", "csi": { "nodePublishSecretRef": { "name": "a-cluster-ca" } } }]),
                "csi.nodePublishSecretRef is a-cluster-ca",
            ),
            (claim("data-my-broker-0"), "the data of a node"),
            (claim("data-12-my-broker-0"), "the data of a node"),
        ],
    );
    let variable = |name: &str| json!([{ "name": "A", "valueFrom": { "secretKeyRef": { "name": name, "key": "ca.key" } } }]);
    refused(
        "kafkaContainer.env",
        Reason::ForbiddenEnvironment,
        &[(variable("my-cluster-ca"), "valueFrom.secretKeyRef.name is my-cluster-ca")],
    );
    let mut spec = samples::cluster();
    spec.listeners[1].certificate = Some(Certificate {
        secret: "my-clients-ca".to_owned(),
        certificate: "ca.crt".to_owned(),
        key: "ca.key".to_owned(),
    });
    let known = Known::of([crate::registration::KafkaVersion::new(4, 3, 1)]);
    let found = validate(&spec, &known, None);
    assert!(found.iter().any(|one| one.message.contains("brokerCertChainAndKey")), "{found:?}");
}

#[test]
fn mounts_are_below_mnt_and_of_volumes_of_the_template() {
    let mount = |path: &str| json!([{ "name": "v", "mountPath": path }]);
    accepted(
        "kafkaContainer.volumeMounts",
        &[
            mount("/mnt/x"),
            mount("/mnt/x/y/"),
            json!([{ "name": "v", "mountPath": "/mnt/x", "readOnly": true, "subPath": "a",
                "mountPropagation": "None" }]),
        ],
    );
    let paths = [
        "/",
        "/mnt",
        "/mnt/",
        "/mntx/a",
        "mnt/x",
        "",
        "/opt/kafka/custom-config",
        "/opt/kafka/libs",
        "/opt/kafka/certs/node",
        "/var/lib/kafka/data-0",
        "/tmp",
        "/etc",
        "/usr/local/bin",
        "/mnt/../opt/kafka",
        "/mnt/./../etc",
        "/var/run/secrets/kubernetes.io/serviceaccount",
        "/proc",
    ];
    for path in paths {
        let rows = [(mount(path), "mount volumes below /mnt/")];
        refused("kafkaContainer.volumeMounts", Reason::ForbiddenVolumeMount, &rows);
    }
    let with = |field: &str, value: Value| {
        let mut mount = json!({ "name": "v", "mountPath": "/mnt/x" });
        mount[field] = value;
        json!([mount])
    };
    refused(
        "kafkaContainer.volumeMounts",
        Reason::ForbiddenVolumeMount,
        &[
            (
                with("mountPropagation", json!("Bidirectional")),
                "mountPropagation is \"Bidirectional\"",
            ),
            (with("name", json!("node-certificate")), "a volume of the node"),
            (with("name", json!("kube-api-access")), "a volume of the node"),
            (with("name", json!("data-3")), "a volume of the node"),
            (with("other", json!("x")), "other is not supported"),
            (with("mountPath", json!(["/mnt/x"])), "mountPath is a list"),
        ],
    );
}

#[test]
fn security_contexts_stay_within_the_restricted_profile() {
    accepted(
        "pod.securityContext",
        &[
            json!({}),
            json!({ "runAsUser": 1_000_001, "runAsGroup": 0, "fsGroup": 0, "runAsNonRoot": true,
                "fsGroupChangePolicy": "OnRootMismatch", "supplementalGroups": [0, 5] }),
            json!({ "seccompProfile": { "type": "RuntimeDefault" } }),
            json!({ "seccompProfile": { "type": "Localhost", "localhostProfile": "p" } }),
            json!({ "appArmorProfile": { "type": "RuntimeDefault" } }),
            json!({ "seLinuxOptions": { "level": "s0:c1,c2", "type": "container_t" } }),
            json!({ "sysctls": [{ "name": "net.ipv4.tcp_keepalive_time", "value": "60" }] }),
            json!({ "windowsOptions": { "hostProcess": false } }),
            json!({ "runAsUser": null }),
        ],
    );
    let reason = Reason::ForbiddenSecurityContext;
    refused(
        "pod.securityContext",
        reason,
        &[
            (json!({ "runAsUser": 0 }), "runAsUser is 0, which is not allowed"),
            (json!({ "runAsUser": -1 }), "runAsUser is -1"),
            (json!({ "runAsUser": 0.0 }), "runAsUser is 0.0"),
            (json!({ "runAsUser": "0" }), "runAsUser is \"0\""),
            (
                json!({ "runAsNonRoot": false }),
                "runAsNonRoot is false, which is not allowed: use true",
            ),
            (json!({ "runAsNonRoot": "true" }), "use true"),
            (
                json!({ "seccompProfile": { "type": "Unconfined" } }),
                "\"RuntimeDefault\" or \"Localhost\"",
            ),
            (json!({ "appArmorProfile": { "type": "Unconfined" } }), "appArmorProfile.type"),
            (json!({ "seLinuxOptions": { "type": "spc_t" } }), "seLinuxOptions.type"),
            (json!({ "seLinuxOptions": { "user": "system_u" } }), "seLinuxOptions.user"),
            (json!({ "seLinuxOptions": { "role": "system_r" } }), "seLinuxOptions.role"),
            (json!({ "sysctls": [{ "name": "kernel.msgmax", "value": "1" }] }), "sysctls[0].name"),
            (json!({ "windowsOptions": { "hostProcess": true } }), "hostProcess is true"),
            (json!({ "privileged": true }), "privileged is not supported"),
            (json!({ "fieldOfTheFuture": 1 }), "fieldOfTheFuture is not supported"),
        ],
    );
}

#[test]
fn security_contexts_of_containers_do_too() {
    let reason = Reason::ForbiddenSecurityContext;
    accepted(
        "kafkaContainer.securityContext",
        &[
            json!({ "privileged": false, "allowPrivilegeEscalation": false, "procMount": "Default" }),
            json!({ "capabilities": { "add": ["NET_BIND_SERVICE"], "drop": ["ALL"] } }),
            json!({ "readOnlyRootFilesystem": false, "runAsUser": 1000 }),
        ],
    );
    refused(
        "kafkaContainer.securityContext",
        reason,
        &[
            (json!({ "privileged": true }), "privileged is true, which is not allowed: use false"),
            (json!({ "privileged": 1 }), "use false"),
            (json!({ "allowPrivilegeEscalation": true }), "allowPrivilegeEscalation is true"),
            (json!({ "procMount": "Unmasked" }), "procMount is \"Unmasked\""),
            (
                json!({ "capabilities": { "add": ["SYS_ADMIN"] } }),
                "capabilities.add[0] is \"SYS_ADMIN\"",
            ),
            (
                json!({ "capabilities": { "add": ["NET_BIND_SERVICE", "ALL"] } }),
                "add[1] is \"ALL\"",
            ),
            (json!({ "capabilities": { "add": "ALL" } }), "use a list"),
            (json!({ "runAsUser": 0 }), "runAsUser is 0"),
            (json!({ "runAsNonRoot": false }), "runAsNonRoot is false"),
            (json!({ "seccompProfile": { "type": "Unconfined" } }), "seccompProfile.type"),
            (json!({ "windowsOptions": { "hostProcess": true } }), "hostProcess is true"),
            (json!("x"), "use a map"),
        ],
    );
}

#[test]
fn variables_come_from_texts_secrets_and_config_maps() {
    let from =
        |source: &str, value: Value| json!([{ "name": "A", "valueFrom": { source: value } }]);
    accepted(
        "kafkaContainer.env",
        &[
            json!([{ "name": "A", "value": "b\n$(POD_IP)" }, { "name": "GREGOR_LOG", "value": "debug" }]),
            from("secretKeyRef", json!({ "name": "mine", "key": "k", "optional": true })),
            from("configMapKeyRef", json!({ "name": "mine", "key": "k" })),
        ],
    );
    let reason = Reason::ForbiddenEnvironment;
    refused(
        "kafkaContainer.env",
        reason,
        &[
            (
                from("fieldRef", json!({ "fieldPath": "spec.nodeName" })),
                "fieldRef is not supported",
            ),
            (from("resourceFieldRef", json!({})), "resourceFieldRef is not supported"),
            (from("fileKeyRef", json!({})), "fileKeyRef is not supported"),
            (json!([{ "name": "A B", "value": "" }]), "name is \"A B\""),
            (json!([{ "name": "A\nB", "value": "" }]), "name is \"A\\nB\""),
            (json!([{ "name": "A=B", "value": "" }]), "name is \"A=B\""),
            (json!([{ "value": "" }]), "name is \"\""),
            (json!([{ "name": "A", "value": 1 }]), "value is 1"),
        ],
    );
    for name in
        ["POD_IP", "TMPDIR", "GREGOR_NODE_CONFIG", "GREGOR_KAFKA_HOME", "KAFKA_CLUSTER_NAME"]
    {
        let found = findings("kafkaContainer.env", &json!([{ "name": name, "value": "x" }]));
        assert_eq!(found.len(), 1, "{name}");
        assert_eq!(
            (found[0].reason, found[0].severity()),
            (Reason::IgnoredEnvironment, Severity::Warning)
        );
        assert!(found[0].message.contains(name) && is_own_variable(name), "{}", found[0].message);
    }
}

#[test]
fn an_annotation_cannot_lift_a_profile() {
    let mut spec = samples::cluster();
    let key = "container.apparmor.security.beta.kubernetes.io/kafka".to_owned();
    spec.template_keys = vec![TemplateKey { place: "p".to_owned(), key }];
    let known = Known::of([crate::registration::KafkaVersion::new(4, 3, 1)]);
    let found = validate(&spec, &known, None);
    assert!(found.iter().any(|one| one.message.contains("appArmorProfile")), "{found:?}");
    assert!(is_refused(&found));
}

#[test]
fn templated_volumes_reach_no_keys_and_no_data() {
    let volume = |source: &str, value: Value| json!([{ "name": "v", source: value }]);
    let path = "pod.templatedVolumes";
    let items = json!([{ "key": "{nodeId}.crt", "path": "{nodePodName}", "mode": 256 }]);
    accepted(
        path,
        &[
            volume("secret", json!({ "secretName": "tls-{nodePodName}", "items": items })),
            volume("configMap", json!({ "name": "rules-{nodeId}" })),
            volume("persistentVolumeClaim", json!({ "claimName": "logs-{nodePodName}" })),
        ],
    );
    refused(
        path,
        Reason::ForbiddenVolume,
        &[
            (volume("emptyDir", json!({})), "emptyDir is not supported"),
            (volume("csi", json!({ "driver": "d" })), "csi is not supported"),
            (json!([{ "name": "v" }]), "needs exactly one source of"),
            (json!([{ "name": "tmp", "configMap": { "name": "x" } }]), "a volume of the node"),
            (
                volume("secret", json!({ "secretName": "{nodePodName}-cluster-ca" })),
                "a private key",
            ),
            (
                volume("persistentVolumeClaim", json!({ "claimName": "data-{nodePodName}" })),
                "the data of a node",
            ),
            (
                volume(
                    "persistentVolumeClaim",
                    json!({ "claimName": "data-{nodeId}-my-broker-0" }),
                ),
                "the data of a node",
            ),
        ],
    );
}

#[test]
fn the_init_container_follows_the_rules_of_kafkas_container() {
    accepted(
        "initContainer.securityContext",
        &[json!({ "runAsUser": 1001, "readOnlyRootFilesystem": true })],
    );
    refused(
        "initContainer.securityContext",
        Reason::ForbiddenSecurityContext,
        &[(json!({ "privileged": true }), "initContainer.securityContext.privileged is true")],
    );
    accepted("initContainer.volumeMounts", &[json!([{ "name": "v", "mountPath": "/mnt/v" }])]);
    refused(
        "initContainer.volumeMounts",
        Reason::ForbiddenVolumeMount,
        &[(json!([{ "name": "v", "mountPath": "/opt/kafka" }]), "mount volumes below /mnt/")],
    );
    accepted("initContainer.env", &[json!([{ "name": "LANG", "value": "C" }])]);
    let key = json!({ "secretKeyRef": { "name": "my-cluster-ca", "key": "ca.key" } });
    refused(
        "initContainer.env",
        Reason::ForbiddenEnvironment,
        &[(json!([{ "name": "KEY", "valueFrom": key }]), "a private key")],
    );
    let own = json!([{ "name": "NODE_NAME", "value": "x" }, { "name": "GREGOR_X", "value": "" }]);
    let found = findings("initContainer.env", &own);
    assert!(!is_refused(&found), "{found:?}");
    assert_eq!(
        found.iter().map(|one| one.message.as_str()).collect::<Vec<_>>(),
        ["t.initContainer.env: ignored, set by the operator: NODE_NAME and GREGOR_X. Remove it"]
    );
}
