//! The blueprint: the input of all builders.

use std::collections::{BTreeMap, BTreeSet};

use api::names::{Labels, Names};
use api::{Kafka, KafkaNodePool, ObjectTemplate};
use control::cluster::spec::ClusterSpec;
use control::node::Roles;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource as _;
use model::NodeId;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub use control::cluster::record::Node;

/// The input of all builders.
#[derive(Debug)]
pub struct Blueprint {
    /// Names of its objects.
    pub names: Names,
    /// The Kafka resource.
    pub kafka: Kafka,
    /// The KafkaNodePool resources.
    pub pools: Vec<KafkaNodePool>,
    /// The validated spec.
    pub spec: ClusterSpec,
    /// All nodes with a pod, including leaving ones, sorted by id, with their current roles.
    pub nodes: Vec<Node>,
    /// The desired nodes with their desired roles.
    pub desired: BTreeMap<NodeId, Roles>,
    /// Desired controllers that cannot be added because the quorum is static.
    pub refused: BTreeSet<NodeId>,
    /// The DNS domain of the Kubernetes cluster.
    pub domain: String,
}

impl Blueprint {
    /// The owner reference with which the garbage collector deletes an object with the cluster.
    #[must_use]
    pub fn owner(&self) -> Option<OwnerReference> {
        owner_of(&self.kafka)
    }

    /// The resource of a pool.
    #[must_use]
    pub fn pool(&self, name: &str) -> Option<&KafkaNodePool> {
        self.pools.iter().find(|pool| pool.metadata.name.as_deref() == Some(name))
    }

    /// The name of the pod of a node.
    #[must_use]
    pub fn pod(&self, node: &Node) -> String {
        self.names.pod(&node.pool, node.id)
    }

    /// The nodes that are brokers.
    pub fn brokers(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.roles.is_broker())
    }

    /// The nodes that are controllers.
    pub fn controllers(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.roles.is_controller())
    }

    /// Labels of objects of the whole cluster.
    #[must_use]
    pub fn labels(&self) -> Labels {
        self.names.labels(self.kafka.metadata.labels.as_ref().unwrap_or(&Labels::new()))
    }

    /// Labels of objects of a pool.
    #[must_use]
    pub fn pool_labels(&self, pool: &str) -> Labels {
        let user = self.pool(pool).and_then(|pool| pool.metadata.labels.as_ref());
        self.names.pool_labels(pool, user.unwrap_or(&Labels::new()))
    }

    /// Labels of objects of a node.
    #[must_use]
    pub fn node_labels(&self, node: &Node) -> Labels {
        let mut labels = self.pool_labels(&node.pool);
        labels.insert(api::names::POD_NAME_LABEL.to_owned(), self.pod(node));
        labels
    }

    /// Metadata of an object of this cluster: `template` adds labels, but never overrides.
    #[must_use]
    pub fn metadata(&self, name: &str, labels: Labels, template: Option<&ObjectTemplate>) -> Value {
        let (labels, annotations) = with_template(labels, template);
        let mut metadata = json!({
            "name": name,
            "namespace": self.names.namespace,
            "labels": labels,
            "ownerReferences": self.owner().into_iter().collect::<Vec<_>>(),
        });
        if !annotations.is_empty() {
            metadata["annotations"] = json!(annotations);
        }
        metadata
    }
}

/// The owner reference to a cluster.
#[must_use]
pub fn owner_of(kafka: &Kafka) -> Option<OwnerReference> {
    let mut owner = kafka.owner_ref(&())?;
    owner.block_owner_deletion = Some(true);
    owner.controller = Some(false);
    Some(owner)
}

/// Labels and annotations with those of a user's template. Our own labels take precedence, because objects
/// are selected by them.
pub(crate) fn with_template(
    labels: Labels,
    template: Option<&ObjectTemplate>,
) -> (Labels, BTreeMap<String, String>) {
    let mut all = template.and_then(|template| template.labels.clone()).unwrap_or_default();
    all.extend(labels);
    let annotations = template.and_then(|template| template.annotations.clone());
    (all, annotations.unwrap_or_default())
}

/// Converts a JSON value to an object. Fails only if a user's value has another type than Kubernetes
/// requires.
pub fn object<K: DeserializeOwned>(value: Value) -> Result<K, serde_json::Error> {
    serde_json::from_value(value)
}
