//! Kafkas as resources in the cluster.

use api::names::{CLUSTER_LABEL, ORGANISATION_LABEL};
use std::collections::BTreeMap;

use control::annotations::Annotation;
use control::cluster::quantity;
use fleet_control::{BrokerNeed, Capacity, HostedKafka};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions,
};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::{Agent, AgentError};
use crate::http::{
    AgentConfig, Condition, DataPlaneKafkaStatus, KafkaSpec, ManagedKafka, ManagedKafkaList,
    Versions,
};

/// Who writes the resources.
pub(super) const MANAGER: &str = "gregor-agent";

/// The id of a Kafka of ours: an annotation of the Kafka, and a label of the namespace that was made for it.
const ID: &str = "bf2.org/id";

/// What a Kafka takes, written down beside it: the count of what is there needs nobody else.
const TAKES: &str = Annotation::FleetCapacity.name();

/// The resources of Kafkas and of their pools.
pub(super) fn resources() -> (ApiResource, ApiResource) {
    let of = |kind| ApiResource::from_gvk(&GroupVersionKind::gvk("kafka.strimzi.io", "v1", kind));
    (of("Kafka"), of("KafkaNodePool"))
}

/// What a Kafka takes of the nodes.
pub(super) fn hosted(spec: &KafkaSpec) -> HostedKafka {
    HostedKafka {
        capacity: Capacity::from(&spec.capacity),
        brokers: spec.brokers,
        need: BrokerNeed {
            memory_bytes: quantity::bytes(&spec.broker_memory).unwrap_or(0),
            cpu_milli: spec.broker_cpu_milli,
        },
    }
}

/// A Kafka of ours that is there.
#[derive(Debug)]
pub(super) struct Present {
    id: String,
    object: DynamicObject,
    /// What it takes, if it says so.
    pub(super) takes: Option<HostedKafka>,
}

impl Agent {
    /// The Kafkas of ours that are there, whoever lists them.
    pub(super) async fn present(&self) -> Result<Vec<Present>, AgentError> {
        let (kafkas, _) = resources();
        let api: Api<DynamicObject> = Api::all_with(self.kubernetes.clone(), &kafkas);
        let list = match api.list(&ListParams::default()).await {
            Ok(list) => list.items,
            // The resource is not defined yet, so there is none.
            Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
            Err(error) => return Err(AgentError::Kafkas(error)),
        };
        let ours = list.into_iter().filter_map(|object| {
            let annotations = object.metadata.annotations.as_ref()?;
            let id = annotations.get(ID)?.clone();
            let takes = annotations.get(TAKES);
            let takes = takes.and_then(|text| serde_json::from_str::<KafkaSpec>(text).ok());
            Some(Present { id, takes: takes.as_ref().map(hosted), object })
        });
        Ok(ours.collect())
    }

    /// Makes and deletes Kafkas as the manager says, and returns how each of its list is.
    pub(super) async fn bring_about(
        &self,
        config: &AgentConfig,
        wanted: &ManagedKafkaList,
    ) -> Result<BTreeMap<String, DataPlaneKafkaStatus>, AgentError> {
        let present = self.present().await?;
        let mut hosting: Vec<_> = present.iter().filter_map(|one| one.takes).collect();
        let mut statuses = BTreeMap::new();
        for kafka in &wanted.items {
            let there = present.iter().find(|one| one.id == kafka.id);
            let status = match (kafka.spec.deleted, there) {
                (true, Some(there)) => {
                    self.delete(&there.object).await?;
                    said("False", "Deprovision", "it is being deleted")
                }
                // Its namespace has what is left of it.
                (true, None) => match self.delete_namespace(kafka).await? {
                    Removal::Gone => said("False", "Deleted", ""),
                    Removal::Going => said("False", "Deprovision", "it is being deleted"),
                    Removal::NotOurs => said("False", "Deprovision", NOT_OURS),
                },
                (false, Some(there)) => {
                    // One that an older agent made has no label yet.
                    let ours = there.object.namespace().as_deref()
                        == Some(kafka.metadata.namespace.as_str());
                    match self.make_namespace(kafka, ours).await? {
                        true => {
                            self.apply(kafka).await?;
                            let credentials_stored = self.store_credentials(kafka).await?;
                            DataPlaneKafkaStatus { credentials_stored, ..status(&there.object) }
                        }
                        false => said("False", "Error", NOT_OURS),
                    }
                }
                (false, None) => {
                    hosting.push(hosted(&kafka.spec));
                    if self.has_room(config, &hosting).await? {
                        match self.make_namespace(kafka, false).await? {
                            true => {
                                self.apply(kafka).await?;
                                let credentials_stored = self.store_credentials(kafka).await?;
                                let said = said("False", "Installing", "");
                                DataPlaneKafkaStatus { credentials_stored, ..said }
                            }
                            false => {
                                hosting.pop();
                                said("False", "Error", NOT_OURS)
                            }
                        }
                    } else {
                        hosting.pop();
                        said("False", "Rejected", "Cluster has insufficient resources")
                    }
                }
            };
            statuses.insert(kafka.id.clone(), status);
        }
        Ok(statuses)
    }

    async fn apply(&self, kafka: &ManagedKafka) -> Result<(), AgentError> {
        let failed = |error| AgentError::Apply(kafka.metadata.name.clone(), error);
        let namespace = &kafka.metadata.namespace;
        let params = PatchParams::apply(MANAGER).force();
        let (kafkas, pools) = resources();
        let (pool, object) = manifests(kafka, self.options.kafka_version.as_deref());
        let name = &kafka.metadata.name;
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.kubernetes.clone(), namespace, &pools);
        api.patch(name, &params, &Patch::Apply(pool)).await.map_err(failed)?;
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.kubernetes.clone(), namespace, &kafkas);
        api.patch(name, &params, &Patch::Apply(object)).await.map_err(failed)?;
        Ok(())
    }

    async fn delete(&self, kafka: &DynamicObject) -> Result<(), AgentError> {
        let name = kafka.metadata.name.clone().unwrap_or_default();
        let namespace = kafka.metadata.namespace.clone().unwrap_or_default();
        let (kafkas, pools) = resources();
        for resource in [&kafkas, &pools] {
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.kubernetes.clone(), &namespace, resource);
            match api.delete(&name, &DeleteParams::foreground()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(AgentError::Delete(name, error)),
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// Makes the namespace of a Kafka; false if there is one of that name that the agent did not make for it.
    async fn make_namespace(&self, kafka: &ManagedKafka, adopt: bool) -> Result<bool, AgentError> {
        let failed = |error| AgentError::Apply(kafka.metadata.name.clone(), error);
        let namespaces = Api::<Namespace>::all(self.kubernetes.clone());
        let name = &kafka.metadata.namespace;
        if let Some(there) = namespaces.get_opt(name).await.map_err(failed)? {
            if is_for(&there, &kafka.id) {
                return Ok(true);
            }
            if !adopt {
                return Ok(false);
            }
        }
        let object = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": name, "labels": { ID: kafka.id } },
        });
        let params = PatchParams::apply(MANAGER);
        namespaces.patch(name, &params, &Patch::Apply(object)).await.map_err(failed)?;
        Ok(true)
    }

    /// Deletes the namespace that the agent made for a Kafka, and with it all that is left of it.
    async fn delete_namespace(&self, kafka: &ManagedKafka) -> Result<Removal, AgentError> {
        let failed = |error| AgentError::Delete(kafka.metadata.name.clone(), error);
        let namespaces = Api::<Namespace>::all(self.kubernetes.clone());
        let name = &kafka.metadata.namespace;
        let Some(there) = namespaces.get_opt(name).await.map_err(failed)? else {
            return Ok(Removal::Gone);
        };
        if !is_for(&there, &kafka.id) {
            tracing::error!(namespace = name, kafka = kafka.id, "{NOT_OURS}");
            return Ok(Removal::NotOurs);
        }
        // The very one that was looked at.
        let preconditions =
            Preconditions { uid: there.metadata.uid.clone(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match namespaces.delete(name, &params).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Removal::Gone),
            // It is going already, or another has come in its place.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Removal::Going),
            Err(error) => Err(failed(error)),
            Ok(_) => Ok(Removal::Going),
        }
    }
}

/// How far the namespace of a Kafka that is to be deleted has come.
enum Removal {
    Gone,
    Going,
    NotOurs,
}

/// What is said of a namespace that a Kafka should have and somebody else made.
const NOT_OURS: &str = "the namespace exists and was not created by this agent for this Kafka";

/// Whether the agent made a namespace for this Kafka.
fn is_for(namespace: &Namespace, kafka: &str) -> bool {
    namespace.labels().get(ID).is_some_and(|id| id == kafka)
}

/// Whose pods may connect: those of the organisation, and of the Kafka's own namespace. A manager that names no
/// organisation permits the latter only.
fn peers(kafka: &ManagedKafka) -> Value {
    let namespaces = |label: &str, value: &str| json!({ "namespaceSelector": { "matchLabels": { label: value } } });
    let organisation = kafka.metadata.labels.get(ORGANISATION_LABEL);
    let own = namespaces("kubernetes.io/metadata.name", &kafka.metadata.namespace);
    let organisation = organisation.map(|label| namespaces(ORGANISATION_LABEL, label));
    organisation.into_iter().chain([own]).collect()
}

/// A pool of nodes with both roles, and the Kafka. One broker is all there is for one without zones.
fn manifests(kafka: &ManagedKafka, version: Option<&str>) -> (Value, Value) {
    let spec = &kafka.spec;
    let (name, namespace) = (&kafka.metadata.name, &kafka.metadata.namespace);
    let copies = spec.brokers.clamp(1, 3);
    let in_sync = copies.saturating_sub(1).max(1);
    let brokers = u64::from(spec.brokers.max(1));
    let storage = spec.capacity.max_data_retention_size.div_ceil(brokers);
    let pool = json!({
        "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaNodePool",
        "metadata": {
            "name": name, "namespace": namespace, "labels": { CLUSTER_LABEL: name },
        },
        "spec": {
            "replicas": spec.brokers,
            "roles": ["controller", "broker"],
            "resources": { "requests": {
                "memory": spec.broker_memory, "cpu": format!("{}m", spec.broker_cpu_milli),
            } },
            "storage": { "type": "jbod", "volumes": [{
                "id": 0, "type": "persistent-claim", "size": storage.to_string(),
                "deleteClaim": true, "kraftMetadata": "shared",
            }] },
        },
    });
    let mut object = json!({
        "apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka",
        "metadata": {
            "name": name, "namespace": namespace,
            "annotations": {
                ID: kafka.id,
                "bf2.org/placementId": kafka.metadata.annotations.get("bf2.org/placementId"),
                TAKES: serde_json::to_string(spec).unwrap_or_default(),
            },
        },
        "spec": { "kafka": {
            "listeners": [{
                "name": "tls", "port": 9093, "type": "internal", "tls": true,
                "authentication": { "type": "scram-sha-512" },
                "networkPolicyPeers": peers(kafka),
            }],
            "authorization": { "type": "simple" },
            "config": {
                "default.replication.factor": copies,
                "min.insync.replicas": in_sync,
                "offsets.topic.replication.factor": copies,
                "transaction.state.log.replication.factor": copies,
                "transaction.state.log.min.isr": in_sync,
            },
        }, "entityOperator": { "userOperator": {} } },
    });
    if spec.multi_az {
        object["spec"]["kafka"]["rack"] = json!({ "topologyKey": "topology.kubernetes.io/zone" });
    }
    if let Some(version) = version {
        object["spec"]["kafka"]["version"] = json!(version);
    }
    (pool, object)
}

fn said(status: &str, reason: &str, message: &str) -> DataPlaneKafkaStatus {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let condition = Condition {
        kind: some("Ready"),
        status: some(status),
        reason: some(reason),
        message: some(message),
    };
    DataPlaneKafkaStatus { conditions: Some(vec![condition]), ..DataPlaneKafkaStatus::default() }
}

/// How a Kafka is, as its operator says; nothing that was said of an older spec counts.
fn status(kafka: &DynamicObject) -> DataPlaneKafkaStatus {
    let status = &kafka.data["status"];
    let seen = status["observedGeneration"].as_i64() >= kafka.metadata.generation;
    let conditions = status["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|one| one["type"] == "Ready");
    let is_ready = seen && ready.is_some_and(|one| one["status"] == "True");
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let message = ready.and_then(|one| text(&one["message"])).unwrap_or_default();
    let mut told = match is_ready {
        true => said("True", "", ""),
        false => said("False", "Installing", &message),
    };
    told.bootstrap_server_host = text(&status["listeners"][0]["bootstrapServers"]);
    told.ca_certificate = text(&status["listeners"][0]["certificates"][0]);
    told.versions = Some(Versions { kafka: text(&status["kafkaVersion"]) });
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(status: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka",
            "metadata": { "name": "k", "generation": 2 }, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_namespace_is_ours_by_its_label_and_not_by_its_name() {
        let namespace = |labels: Value| -> Namespace {
            let metadata = json!({ "name": "kafka-k", "labels": labels });
            serde_json::from_value(json!({ "metadata": metadata })).unwrap()
        };
        assert!(is_for(&namespace(json!({ "bf2.org/id": "k" })), "k"));
        assert!(!is_for(&namespace(json!({ "bf2.org/id": "other" })), "k"));
        assert!(!is_for(&namespace(json!({ "kubernetes.io/metadata.name": "kafka-k" })), "k"));
    }

    /// Every Kafka is made by this function, so none of a fleet is open.
    #[test]
    fn every_listener_has_authentication_and_names_who_may_connect() {
        let kafka = |labels: Value| -> ManagedKafka {
            let capacity = json!({
                "ingressEgressThroughputPerSec": 1, "totalMaxConnections": 1,
                "maxDataRetentionSize": 1, "maxPartitions": 1,
            });
            serde_json::from_value(json!({
                "id": "i", "kind": "ManagedKafka",
                "metadata": { "name": "k", "namespace": "kafka-i", "annotations": {}, "labels": labels },
                "spec": {
                    "capacity": capacity, "brokers": 3, "brokerMemory": "1Gi", "brokerCpuMilli": 100,
                    "multiAz": false, "owners": ["ann"], "deleted": false,
                },
                "credentials": [{ "id": "c", "username": "u", "password": "hush" }],
            }))
            .unwrap()
        };
        let own = json!({ "namespaceSelector": {
            "matchLabels": { "kubernetes.io/metadata.name": "kafka-i" },
        } });
        let of_organisation = json!({ "namespaceSelector": {
            "matchLabels": { "gregor.io/organisation": "o" },
        } });
        for (labels, peers) in [
            (json!({ "gregor.io/organisation": "o" }), json!([of_organisation, own])),
            (json!({}), json!([own])),
        ] {
            let (pool, object) = manifests(&kafka(labels), None);
            assert!(!format!("{pool}{object}").contains("hush"), "{object}");
            let spec = &object["spec"]["kafka"];
            assert_eq!(spec["authorization"], json!({ "type": "simple" }), "and no super users");
            for listener in spec["listeners"].as_array().unwrap() {
                assert_eq!(listener["authentication"]["type"], "scram-sha-512");
                assert_eq!(
                    (&listener["tls"], &listener["networkPolicyPeers"]),
                    (&json!(true), &peers)
                );
            }
            assert_eq!(object["spec"]["entityOperator"], json!({ "userOperator": {} }));
        }
    }

    #[test]
    fn a_kafka_is_ready_if_its_operator_says_so_of_this_spec() {
        let ready = json!([{ "type": "Ready", "status": "True" }]);
        let rows = [
            (json!({ "observedGeneration": 2, "conditions": ready }), "True"),
            (json!({ "observedGeneration": 1, "conditions": ready }), "False"),
            (json!({ "conditions": ready }), "False"),
            (json!({ "observedGeneration": 2, "conditions": [] }), "False"),
            (json!({}), "False"),
        ];
        for (facts, expected) in rows {
            let told = status(&object(&facts)).conditions.unwrap();
            assert_eq!(told[0].status.as_deref(), Some(expected), "{facts}");
        }
        let listener = json!({ "bootstrapServers": "k:9093", "certificates": ["PEM"] });
        let told = status(&object(&json!({ "listeners": [listener] })));
        assert_eq!(told.ca_certificate.as_deref(), Some("PEM"));
        assert_eq!(told.bootstrap_server_host.as_deref(), Some("k:9093"));
    }
}
