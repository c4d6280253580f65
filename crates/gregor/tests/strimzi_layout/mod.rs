//! Turns a cluster that was made here into what Strimzi would have left of it: names, labels, owners, managers
//! of fields, Secrets, ConfigMaps, pod sets and claims as its operator writes them.
//!
//! What stands in for the real thing: the pods. Their processes were started from our own image, since
//! Strimzi's cannot be run here. Their metadata, and the definitions that the pod sets hold of them, are Strimzi's.

use std::collections::BTreeMap;

use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Api, Client};
use serde_json::{Map, Value, json};

/// The cluster, as in the examples.
pub(crate) const CLUSTER: &str = "my-cluster";
/// Who Strimzi is in `managedFields`.
const MANAGER: &str = "strimzi-kafka-operator";
const LABEL: &str = "strimzi.io/cluster=my-cluster";

/// Group, version, kind, plural.
type Kind = (&'static str, &'static str, &'static str, &'static str);

const POD: Kind = ("", "v1", "Pod", "pods");
const CONFIG_MAP: Kind = ("", "v1", "ConfigMap", "configmaps");
const SECRET: Kind = ("", "v1", "Secret", "secrets");
const SERVICE: Kind = ("", "v1", "Service", "services");
const CLAIM: Kind = ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
const ACCOUNT: Kind = ("", "v1", "ServiceAccount", "serviceaccounts");
const POLICY: Kind = ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies");
const BUDGET: Kind = ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets");
const ROLE: Kind = ("rbac.authorization.k8s.io", "v1", "Role", "roles");
const BINDING: Kind = ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings");
const POD_SET: Kind = ("core.strimzi.io", "v1", "StrimziPodSet", "strimzipodsets");
const KAFKA: Kind = ("kafka.strimzi.io", "v1", "Kafka", "kafkas");
const POOL: Kind = ("kafka.strimzi.io", "v1", "KafkaNodePool", "kafkanodepools");

/// All kinds of which a cluster of Strimzi's has objects.
pub(crate) const KINDS: &str = "pods,configmaps,secrets,services,pvc,serviceaccounts,networkpolicies,\
                                pdb,roles,rolebindings,strimzipodsets,kafka,kafkanodepools";

/// The cluster's authority as OpenSSL made it for Strimzi, before there is a cluster.
pub(crate) fn authority() -> Vec<Value> {
    use base64::Engine as _;
    let encode = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let key = encode(include_bytes!("../../../operator/src/pki/testdata/strimzi-ca.key"));
    let certificate = encode(include_bytes!("../../../operator/src/pki/testdata/strimzi-ca.crt"));
    let one = |name: &str, generation: &str, entry: &str, data: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": name,
                "labels": labels("strimzi", "certificate-authority"),
                "annotations": { generation: "0" },
            },
            "type": "Opaque",
            "data": { entry: data },
        })
    };
    vec![
        one("my-cluster-cluster-ca", "strimzi.io/ca-key-generation", "ca.key", &key),
        one("my-cluster-cluster-ca-cert", "strimzi.io/ca-cert-generation", "ca.crt", &certificate),
    ]
}

fn labels(name: &str, component: &str) -> Value {
    json!({
        "strimzi.io/kind": "Kafka",
        "strimzi.io/name": name,
        "strimzi.io/cluster": CLUSTER,
        "strimzi.io/component-type": component,
        "app.kubernetes.io/name": "kafka",
        "app.kubernetes.io/instance": CLUSTER,
        "app.kubernetes.io/part-of": "strimzi-my-cluster",
        "app.kubernetes.io/managed-by": "strimzi-cluster-operator",
    })
}

/// Turns all that there is of the cluster. Its operator must be gone.
pub(crate) async fn turn(client: &Client, namespace: &str) {
    let api = |kind| api(client, namespace, kind);
    let kafka = owner(&api(KAFKA).get(CLUSTER).await.unwrap());
    let mut pools = BTreeMap::new();
    for pool in list(&api(POOL)).await {
        pools.insert(text(&pool, "name"), owner(&pool));
    }
    let layout = Layout { namespace: namespace.to_owned(), kafka, pools };
    api(CONFIG_MAP).delete("my-cluster-gregor", &Default::default()).await.unwrap();
    for (kind, is_applied) in [
        (CONFIG_MAP, true),
        (SERVICE, true),
        (CLAIM, true),
        (ACCOUNT, true),
        (SECRET, false),
        (POLICY, false),
        (BUDGET, false),
        (POD_SET, false),
        (POD, false),
        (POOL, false),
    ] {
        for object in list(&api(kind)).await {
            rewrite(&api(kind), &text(&object, "name"), is_applied, |value| {
                layout.change(kind, value);
            })
            .await;
        }
    }
    rewrite(&api(KAFKA), CLUSTER, false, |value| layout.change(KAFKA, value)).await;
    for (kind, object) in [(ROLE, layout.role()), (BINDING, layout.binding()), (POD, stranger())] {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        api(kind).create(&PostParams::default(), &object).await.unwrap();
    }
    let status = json!({ "status": {
        "initialControllers": null, "controllers": null,
        "operatorLastSuccessfulVersion": "1.2.0",
        "conditions": [{
            "type": "Ready", "status": "True", "lastTransitionTime": "2026-11-01T08:00:00Z",
        }],
    } });
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..Default::default() };
    api(KAFKA).patch_status(CLUSTER, &params, &Patch::Merge(&status)).await.unwrap();
}

fn api(
    client: &Client,
    namespace: &str,
    (group, version, kind, plural): Kind,
) -> Api<DynamicObject> {
    let api_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    Api::namespaced_with(client.clone(), namespace, &resource)
}

async fn list(api: &Api<DynamicObject>) -> Vec<DynamicObject> {
    api.list(&ListParams::default().labels(LABEL)).await.unwrap().items
}

fn text(object: &DynamicObject, field: &str) -> String {
    let value = serde_json::to_value(object).unwrap();
    value["metadata"][field].as_str().unwrap().to_owned()
}

/// A reference as Strimzi writes it.
fn owner(object: &DynamicObject) -> Value {
    let types = object.types.as_ref().unwrap();
    json!({
        "apiVersion": types.api_version, "kind": types.kind, "name": text(object, "name"),
        "uid": text(object, "uid"), "blockOwnerDeletion": true, "controller": false,
    })
}

/// Writes an object anew as another manager, so that nothing says who wrote it before.
async fn rewrite(
    api: &Api<DynamicObject>,
    name: &str,
    is_applied: bool,
    change: impl Fn(&mut Value),
) {
    let params = PostParams { field_manager: Some(MANAGER.to_owned()), dry_run: false };
    let written = loop {
        let mut value = serde_json::to_value(api.get(name).await.unwrap()).unwrap();
        change(&mut value);
        // An empty entry, not an empty list, makes the API server forget them.
        value["metadata"]["managedFields"] = json!([{}]);
        let object: DynamicObject = serde_json::from_value(value.clone()).unwrap();
        match api.replace(name, &params, &object).await {
            Ok(_) => break value,
            // The kubelet, or another controller, wrote in between.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("{name}: {error}"),
        }
    };
    if !is_applied {
        return;
    }
    let metadata = &written["metadata"];
    let mut applied = json!({
        "apiVersion": written["apiVersion"], "kind": written["kind"],
        "metadata": { "name": name, "labels": metadata["labels"] },
    });
    for field in ["annotations", "ownerReferences"] {
        if !metadata[field].is_null() {
            applied["metadata"][field] = metadata[field].clone();
        }
    }
    for field in ["data", "spec"] {
        if !written[field].is_null() {
            applied[field] = written[field].clone();
        }
    }
    let params = PatchParams::apply(MANAGER).force();
    api.patch(name, &params, &Patch::Apply(&applied)).await.unwrap();
}

/// Who owns what.
struct Layout {
    namespace: String,
    kafka: Value,
    pools: BTreeMap<String, Value>,
}

impl Layout {
    fn change(&self, kind: Kind, value: &mut Value) {
        let name = value["metadata"]["name"].as_str().unwrap().to_owned();
        strip(value);
        let pool = value["metadata"]["labels"]["strimzi.io/pool-name"].as_str().map(str::to_owned);
        let of_pool = pool.as_ref().map(|pool| self.pools[pool].clone());
        match kind {
            POD_SET => {
                value["metadata"]["ownerReferences"] = json!([of_pool]);
                let pods = value["spec"]["pods"].as_array_mut().unwrap();
                pods.iter_mut().for_each(|pod| *pod = self.definition(pod));
            }
            CONFIG_MAP => {
                value["metadata"]["ownerReferences"] = json!([of_pool]);
                value["data"] = self.node_files(&name, &value["data"]);
            }
            SECRET => {
                // We also say which key signed. Strimzi does not.
                if let Some(own) = value["metadata"]["annotations"].as_object_mut() {
                    own.remove("strimzi.io/cluster-ca-key-generation");
                    if name.ends_with("-ca-cert") {
                        own.remove("strimzi.io/ca-key-generation");
                    }
                }
                value["metadata"]["ownerReferences"] = json!([self.kafka]);
            }
            SERVICE => {
                for port in value["spec"]["ports"].as_array_mut().unwrap() {
                    port["targetPort"] = port["name"].clone();
                }
            }
            POD => {
                let annotations = &mut value["metadata"]["annotations"];
                annotations["strimzi.io/revision"] = json!("1b9b2c54");
                annotations["strimzi.io/resource-revision"] = json!("bf21a9e8");
            }
            POOL => {
                value["metadata"].as_object_mut().unwrap().remove("finalizers");
            }
            _ => {}
        }
    }

    /// The pod as Strimzi defines it.
    fn definition(&self, pod: &Value) -> Value {
        let metadata = &pod["metadata"];
        let name = metadata["name"].as_str().unwrap();
        let mut metadata = json!({
            "name": name, "namespace": self.namespace,
            "labels": metadata["labels"], "annotations": metadata["annotations"],
        });
        clean(&mut metadata);
        metadata["annotations"]["strimzi.io/revision"] = json!("1b9b2c54");
        metadata["annotations"]["strimzi.io/resource-revision"] = json!("bf21a9e8");
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {
                "restartPolicy": "Always",
                "hostname": name,
                "subdomain": "my-cluster-kafka-brokers",
                "serviceAccountName": "my-cluster-kafka",
                "automountServiceAccountToken": false,
                "terminationGracePeriodSeconds": 30,
                "securityContext": { "fsGroup": 0 },
                "volumes": [
                    { "name": "data-0",
                      "persistentVolumeClaim": { "claimName": format!("data-0-{name}") } },
                    { "name": "strimzi-tmp",
                      "emptyDir": { "medium": "Memory", "sizeLimit": "5Mi" } },
                    { "name": "kafka-metrics-and-logging", "configMap": { "name": name } },
                    { "name": "ready-files",
                      "emptyDir": { "medium": "Memory", "sizeLimit": "1Ki" } },
                ],
                "containers": [{
                    "name": "kafka",
                    "image": "quay.io/strimzi/kafka:1.2.0-kafka-4.3.1",
                    "args": ["/opt/kafka/kafka_run.sh"],
                    "env": [
                        { "name": "STRIMZI_KAFKA_GC_LOG_ENABLED", "value": "false" },
                        { "name": "KAFKA_CLUSTER_NAME", "value": CLUSTER },
                        { "name": "KAFKA_HEAP_OPTS", "value": "-Xmx256m" },
                    ],
                    "volumeMounts": [
                        { "name": "data-0", "mountPath": "/var/lib/kafka/data-0" },
                        { "name": "strimzi-tmp", "mountPath": "/tmp" },
                        { "name": "kafka-metrics-and-logging",
                          "mountPath": "/opt/kafka/custom-config/" },
                        { "name": "ready-files", "mountPath": "/var/opt/kafka" },
                    ],
                    "livenessProbe": {
                        "exec": { "command": ["/opt/kafka/kafka_liveness.sh"] },
                        "initialDelaySeconds": 15, "timeoutSeconds": 5,
                    },
                    "readinessProbe": {
                        "exec": { "command": ["/opt/kafka/kafka_readiness.sh"] },
                        "initialDelaySeconds": 15, "timeoutSeconds": 5,
                    },
                }],
            },
        })
    }

    /// The files of a node as Strimzi writes them: keys and certificates are read through the API.
    fn node_files(&self, pod: &str, ours: &Value) -> Value {
        let ours_config = ours["server.config"].as_str().unwrap();
        let mut lines = Vec::new();
        for line in ours_config.lines().filter(|line| !line.starts_with('#')) {
            let Some((key, _)) = line.split_once('=') else { continue };
            let secret = |secret: &str, entry: &str| {
                format!("{key}=${{strimzisecrets:{}/{secret}:{entry}}}", self.namespace)
            };
            let line = match key.rsplit_once(".ssl.").map_or("", |(_, last)| last) {
                "truststore.certificates" | "truststore.location" => {
                    secret("my-cluster-trustbundle", "cluster-ca.crt")
                }
                "keystore.certificate.chain" | "keystore.location" => {
                    secret(pod, &format!("{pod}.crt"))
                }
                "keystore.key" => secret(pod, &format!("{pod}.key")),
                _ => line.to_owned(),
            };
            if !line.starts_with("config.providers") {
                lines.push(line);
            }
        }
        let (class, provider) = ("config.providers.strimzisecrets.class", "io.strimzi.kafka");
        lines.push("config.providers=strimzienv,strimzisecrets".to_owned());
        lines.push(format!("{class}={provider}.KubernetesSecretConfigProvider"));
        let namespace = &self.namespace;
        json!({
            "server.config": lines.join("\n"),
            "agent.config": format!(
                "namespace={namespace}\nsslKeyStoreSecretName={pod}\n\
                 sslTrustStoreSecretName=my-cluster-cluster-ca-cert\n"
            ),
            "log4j2.properties": "name = KafkaConfig\n",
            "cluster.id": ours["cluster.id"],
            "metadata.version": ours["metadata.version"],
        })
    }

    fn role(&self) -> Value {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {
                "name": "my-cluster-kafka",
                "labels": labels("my-cluster-kafka", "kafka"),
                "ownerReferences": [self.kafka],
            },
            "rules": [{
                "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"],
                "resourceNames": ["my-cluster-cluster-ca-cert", "my-cluster-trustbundle"],
            }],
        })
    }

    fn binding(&self) -> Value {
        let group = "rbac.authorization.k8s.io";
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {
                "name": "my-cluster-kafka-role",
                "labels": labels("my-cluster-kafka", "kafka"),
                "ownerReferences": [self.kafka],
            },
            "roleRef": { "apiGroup": group, "kind": "Role", "name": "my-cluster-kafka" },
            "subjects": [{
                "kind": "ServiceAccount", "name": "my-cluster-kafka", "namespace": self.namespace,
            }],
        })
    }
}

/// A pod of the cluster that is no node of Kafka, and that runs nowhere: Strimzi's entity operator.
fn stranger() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "my-cluster-entity-operator-6f7c9d5b8-77777",
            "labels": labels("my-cluster-entity-operator", "entity-operator"),
        },
        "spec": {
            "nodeSelector": { "kubernetes.io/hostname": "nowhere" },
            "containers": [{
                "name": "topic-operator", "image": "quay.io/strimzi/operator:1.2.0",
            }],
        },
    })
}

/// Takes away what only we write, and says that Strimzi manages it.
fn strip(value: &mut Value) {
    clean(&mut value["metadata"]);
}

fn clean(metadata: &mut Value) {
    let metadata: &mut Map<String, Value> = metadata.as_object_mut().unwrap();
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.retain(|name, _| !name.starts_with("gregor.io/"));
    }
    if let Some(Value::Object(labels)) = metadata.get_mut("labels")
        && labels.contains_key("app.kubernetes.io/managed-by")
    {
        let strimzi = json!("strimzi-cluster-operator");
        labels.insert("app.kubernetes.io/managed-by".to_owned(), strimzi);
    }
}
