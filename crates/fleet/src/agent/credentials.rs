//! Passwords of owners: a Secret for each, and the KafkaUser that has it.
//!
//! 1. A password is in its Secret and in no other object, log line or status.
//! 2. A Secret is created and never changed or read: a new password has a Secret of its own. So the agent needs no
//!    right to read or overwrite the Secrets of a data plane.
//! 3. An owner may do everything with the data of its own Kafka, and nothing that only brokers do.

use api::names::CLUSTER_LABEL;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use super::kafkas::MANAGER;
use super::{Agent, AgentError};
use crate::http::{ManagedKafka, OwnerCredential};

/// The entry of a Secret with the password.
const PASSWORD: &str = "password";

impl Agent {
    /// Stores the passwords that the manager sends with a Kafka. Returns the ids of those that are stored; the manager
    /// forgets these.
    pub(super) async fn store_credentials(
        &self,
        kafka: &ManagedKafka,
    ) -> Result<Vec<String>, AgentError> {
        let failed = |error| AgentError::Credentials(kafka.metadata.name.clone(), error);
        let namespace = &kafka.metadata.namespace;
        let secrets = Api::<Secret>::namespaced(self.kubernetes.clone(), namespace);
        let gvk = GroupVersionKind::gvk("kafka.strimzi.io", "v1", "KafkaUser");
        let users: Api<DynamicObject> =
            Api::namespaced_with(self.kubernetes.clone(), namespace, &ApiResource::from_gvk(&gvk));
        let mut stored = Vec::new();
        for credential in &kafka.credentials {
            let (secret, user) = objects(kafka, credential)?;
            match secrets.create(&PostParams::default(), &secret).await {
                // An earlier pass of ours was cut off: no other password has this name.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(failed(error)),
                Ok(_) => {}
            }
            let params = PatchParams::apply(MANAGER).force();
            users
                .patch(&credential.username, &params, &Patch::Apply(user))
                .await
                .map_err(failed)?;
            stored.push(credential.id.clone());
        }
        Ok(stored)
    }
}

/// The Secret of a password, and the user.
fn objects(
    kafka: &ManagedKafka,
    credential: &OwnerCredential,
) -> Result<(Secret, Value), AgentError> {
    let (name, namespace) = (&kafka.metadata.name, &kafka.metadata.namespace);
    let secret = format!("{}-{}", credential.username, credential.id);
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": true,
        "metadata": { "name": secret, "namespace": namespace },
        "stringData": { PASSWORD: credential.password },
    });
    let rule = |kind: &str, operations: &[&str]| {
        let mut resource = json!({ "type": kind });
        if kind != "cluster" {
            resource["name"] = json!("*");
            resource["patternType"] = json!("literal");
        }
        json!({ "resource": resource, "operations": operations })
    };
    // Not ClusterAction, by which brokers know each other.
    let cluster =
        ["Alter", "AlterConfigs", "Create", "Describe", "DescribeConfigs", "IdempotentWrite"];
    let user = json!({
        "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaUser",
        "metadata": {
            "name": credential.username, "namespace": namespace, "labels": { CLUSTER_LABEL: name },
        },
        "spec": {
            "authentication": {
                "type": "scram-sha-512",
                "password": { "valueFrom": { "secretKeyRef": { "name": secret, "key": PASSWORD } } },
            },
            "authorization": { "type": "simple", "acls": [
                rule("topic", &["All"]), rule("group", &["All"]), rule("transactionalId", &["All"]),
                rule("cluster", &cluster),
            ] },
        },
    });
    Ok((serde_json::from_value(object).map_err(AgentError::Answer)?, user))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_in_its_secret_only_and_the_owner_is_no_broker() {
        let kafka: ManagedKafka = serde_json::from_value(json!({
            "id": "i", "kind": "ManagedKafka",
            "metadata": { "name": "k", "namespace": "kafka-i", "annotations": {}, "labels": {} },
            "spec": {
                "capacity": {
                    "ingressEgressThroughputPerSec": 1, "totalMaxConnections": 1,
                    "maxDataRetentionSize": 1, "maxPartitions": 1,
                },
                "brokers": 3, "brokerMemory": "1Gi", "brokerCpuMilli": 100,
                "multiAz": false, "owners": ["ann"], "deleted": false,
            },
            "credentials": [{ "id": "c1", "username": "owner-1", "password": "hush" }],
        }))
        .unwrap();
        assert!(!format!("{kafka:?}").contains("hush"));
        let (secret, user) = objects(&kafka, &kafka.credentials[0]).unwrap();
        assert_eq!(secret.string_data.unwrap()["password"], "hush");
        assert!(!user.to_string().contains("hush"));
        let reference = &user["spec"]["authentication"]["password"]["valueFrom"]["secretKeyRef"];
        assert_eq!(reference, &json!({ "name": "owner-1-c1", "key": "password" }));
        assert_eq!(user["metadata"]["labels"], json!({ "strimzi.io/cluster": "k" }));
        // What a resource of the operator cannot be would never be a user.
        let read: api::user::KafkaUser = serde_json::from_value(user.clone()).unwrap();
        let rules = read.spec.authorization.unwrap().acls;
        assert_eq!(rules.len(), 4);
        assert!(!user.to_string().contains("ClusterAction"));
    }
}
