//! What all objects of a cluster are built from, and what they have in common.

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

/// What all objects of a cluster are built from.
#[derive(Debug)]
pub struct Blueprint {
    /// The names of its objects.
    pub names: Names,
    /// The resource of the cluster.
    pub kafka: Kafka,
    /// The resources of its pools.
    pub pools: Vec<KafkaNodePool>,
    /// The wishes after they were found good.
    pub spec: ClusterSpec,
    /// All nodes that have a pod, by id, those that leave among them, with the roles that they have now.
    pub nodes: Vec<Node>,
    /// The nodes that are wished for, with the roles that they shall have.
    pub wished: BTreeMap<NodeId, Roles>,
    /// The nodes that should be controllers too and cannot: the quorum is static.
    pub refused: BTreeSet<NodeId>,
    /// The DNS domain of the Kubernetes cluster.
    pub domain: String,
}

impl Blueprint {
    /// The reference by which the garbage collector takes an object away with the cluster.
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

    /// The labels of what belongs to the whole cluster.
    #[must_use]
    pub fn labels(&self) -> Labels {
        self.names.labels(self.kafka.metadata.labels.as_ref().unwrap_or(&Labels::new()))
    }

    /// The labels of what belongs to a pool.
    #[must_use]
    pub fn pool_labels(&self, pool: &str) -> Labels {
        let user = self.pool(pool).and_then(|pool| pool.metadata.labels.as_ref());
        self.names.pool_labels(pool, user.unwrap_or(&Labels::new()))
    }

    /// The labels of what belongs to one node.
    #[must_use]
    pub fn node_labels(&self, node: &Node) -> Labels {
        let mut labels = self.pool_labels(&node.pool);
        labels.insert(api::names::POD_NAME_LABEL.to_owned(), self.pod(node));
        labels
    }

    /// The metadata of an object of this cluster: `template` adds to the labels, but never wins.
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

/// The reference to a cluster as the owner of an object.
#[must_use]
pub fn owner_of(kafka: &Kafka) -> Option<OwnerReference> {
    let mut owner = kafka.owner_ref(&())?;
    owner.block_owner_deletion = Some(true);
    owner.controller = Some(false);
    Some(owner)
}

/// Labels and annotations after a user's template was added. Our own labels win: things are found by
/// them.
pub(crate) fn with_template(
    labels: Labels,
    template: Option<&ObjectTemplate>,
) -> (Labels, BTreeMap<String, String>) {
    let mut all = template.and_then(|template| template.labels.clone()).unwrap_or_default();
    all.extend(labels);
    let annotations = template.and_then(|template| template.annotations.clone());
    (all, annotations.unwrap_or_default())
}

/// An object that was written as a value. Fails only if something that a user wrote has another type
/// than Kubernetes wants.
pub fn object<K: DeserializeOwned>(value: Value) -> Result<K, serde_json::Error> {
    serde_json::from_value(value)
}
