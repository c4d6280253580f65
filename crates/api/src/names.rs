//! The names and labels of the objects of a cluster, which other tools know and look for.
//!
//! They are Strimzi's, so that dashboards, scripts and an adoption of a running cluster find what they
//! know. A name is made here and nowhere else.

use std::collections::BTreeMap;

use model::NodeId;

/// Labels by name.
pub type Labels = BTreeMap<String, String>;

/// The label that says to which cluster an object belongs.
pub const CLUSTER_LABEL: &str = "strimzi.io/cluster";
/// The label that says for which kind of resource an object was made.
pub const KIND_LABEL: &str = "strimzi.io/kind";
/// The label with the name of the component.
pub const NAME_LABEL: &str = "strimzi.io/name";
/// The label that says to which pool a node belongs.
pub const POOL_LABEL: &str = "strimzi.io/pool-name";
/// The label that names the pod of a node.
pub const POD_NAME_LABEL: &str = "strimzi.io/pod-name";
/// The label that says whether a node is a broker.
pub const BROKER_LABEL: &str = "strimzi.io/broker-role";
/// The label that says whether a node is a controller.
pub const CONTROLLER_LABEL: &str = "strimzi.io/controller-role";
/// The label with the kind of component.
pub const COMPONENT_LABEL: &str = "strimzi.io/component-type";
/// The label with the kind of object that creates a pod.
pub const POD_CONTROLLER_LABEL: &str = "strimzi.io/controller";
/// The label of a pod that names its set.
pub const POD_SET_LABEL: &str = "strimzi.io/controller-name";
/// The label of Services that clients may look for.
pub const DISCOVERY_LABEL: &str = "strimzi.io/discovery";
/// The label of the objects of a data plane of a fleet.
pub const DATA_PLANE_LABEL: &str = "gregor.io/data-plane";
/// Organisation of a fleet: on its Kafka clusters, and on namespaces whose pods may connect to them.
pub const ORGANISATION_LABEL: &str = "gregor.io/organisation";
/// The label that says who manages an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Who wrote an object; for server-side apply and for the label.
pub const MANAGER: &str = "gregor";
/// The organization in the subject of every certificate; access rules of users name it.
pub const ORGANIZATION: &str = "io.strimzi";

/// The port on which controllers talk to each other.
pub const CONTROLLER_PORT: u16 = 9090;
/// The port on which brokers talk to each other.
pub const REPLICATION_PORT: u16 = 9091;
/// The port on which a node tells how it is, to those with a certificate.
pub const AGENT_PORT: u16 = 8443;
/// The port on which a node tells the kubelet whether it is live and ready.
pub const HEALTH_PORT: u16 = 8080;

/// A cluster, by what everything of it is named after.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Names {
    /// The namespace of all its objects.
    pub namespace: String,
    /// The name of the `Kafka` resource.
    pub cluster: String,
}

impl Names {
    /// The names of this cluster.
    #[must_use]
    pub fn new(namespace: &str, cluster: &str) -> Self {
        Self { namespace: namespace.to_owned(), cluster: cluster.to_owned() }
    }

    /// The pod set of a pool.
    #[must_use]
    pub fn pod_set(&self, pool: &str) -> String {
        format!("{}-{pool}", self.cluster)
    }

    /// The pod of a node; its ConfigMap and its Secret have the same name.
    #[must_use]
    pub fn pod(&self, pool: &str, node: NodeId) -> String {
        format!("{}-{pool}-{node}", self.cluster)
    }

    /// What belongs to the Kafka nodes together: the ServiceAccount and the PodDisruptionBudget.
    #[must_use]
    pub fn component(&self) -> String {
        format!("{}-kafka", self.cluster)
    }

    /// The Service where clients inside the Kubernetes cluster begin.
    #[must_use]
    pub fn bootstrap_service(&self) -> String {
        format!("{}-kafka-bootstrap", self.cluster)
    }

    /// The headless Service that gives each node its name.
    #[must_use]
    pub fn brokers_service(&self) -> String {
        format!("{}-kafka-brokers", self.cluster)
    }

    /// The Service where clients of a listener begin that is not an internal one.
    #[must_use]
    pub fn listener_bootstrap_service(&self, listener: &str) -> String {
        format!("{}-kafka-{listener}-bootstrap", self.cluster)
    }

    /// The Service of one broker for a listener that is not an internal one.
    #[must_use]
    pub fn listener_broker_service(
        &self,
        pool: &str,
        node: NodeId,
        listener: (&str, i64),
    ) -> String {
        match listener {
            // The first listener of this kind had no name of its own, and its Services keep theirs.
            ("external", 9094) => format!("{}-{pool}-{node}", self.cluster),
            (name, _) => format!("{}-{pool}-{name}-{node}", self.cluster),
        }
    }

    /// The name by which other nodes reach a node, as in certificates and advertised addresses.
    #[must_use]
    pub fn host(&self, pod: &str) -> String {
        format!("{pod}.{}.{}.svc", self.brokers_service(), self.namespace)
    }

    /// A Service by all the names that clients in the Kubernetes cluster may call it.
    #[must_use]
    pub fn service_hosts(&self, service: &str, domain: &str) -> Vec<String> {
        let namespace = &self.namespace;
        vec![
            service.to_owned(),
            format!("{service}.{namespace}"),
            format!("{service}.{namespace}.svc"),
            format!("{service}.{namespace}.svc.{domain}"),
        ]
    }

    /// The NetworkPolicy of the nodes.
    #[must_use]
    pub fn network_policy(&self) -> String {
        format!("{}-network-policy-kafka", self.cluster)
    }

    /// The binding that lets nodes read the labels of the machine that they run on.
    #[must_use]
    pub fn init_binding(&self) -> String {
        format!("strimzi-{}-{}-kafka-init", self.namespace, self.cluster)
    }

    /// The Secret with the certificates of an authority (`cluster` or `clients`).
    #[must_use]
    pub fn authority_cert(&self, authority: &str) -> String {
        format!("{}-{authority}-ca-cert", self.cluster)
    }

    /// The Secret with the key of an authority (`cluster` or `clients`).
    #[must_use]
    pub fn authority_key(&self, authority: &str) -> String {
        format!("{}-{authority}-ca", self.cluster)
    }

    /// The Secret with everything that nodes trust.
    #[must_use]
    pub fn trust_bundle(&self) -> String {
        format!("{}-trustbundle", self.cluster)
    }

    /// The Secret with the operator's own certificate for this cluster.
    #[must_use]
    pub fn operator_certificate(&self) -> String {
        format!("{}-cluster-operator-certs", self.cluster)
    }

    /// The ConfigMap in which the operator remembers.
    #[must_use]
    pub fn record(&self) -> String {
        format!("{}-gregor", self.cluster)
    }

    /// The ConfigMap in which the operator remembers the moves that run.
    #[must_use]
    pub fn moves(&self) -> String {
        format!("{}-gregor-moves", self.cluster)
    }

    /// The ConfigMap in which the operator remembers the users that it manages.
    #[must_use]
    pub fn users(&self) -> String {
        format!("{}-gregor-users", self.cluster)
    }

    /// The claim of a volume; `volume` is `data` or `data-<id>`.
    #[must_use]
    pub fn claim(&self, volume: &str, pool: &str, node: NodeId) -> String {
        format!("{volume}-{}", self.pod(pool, node))
    }

    /// The pool and the node of a claim: the reverse of [`Names::claim`].
    #[must_use]
    pub fn node_of_claim(&self, claim: &str) -> Option<(String, NodeId)> {
        let rest = claim.strip_prefix("data-")?;
        let own = format!("{}-", self.cluster);
        // `data-<cluster>-...`, or `data-<volume>-<cluster>-...`; a cluster's name may begin with a number.
        let numbered = || {
            let (volume, rest) = rest.split_once('-')?;
            volume.parse::<u32>().ok()?;
            rest.strip_prefix(&own)
        };
        let node = rest.strip_prefix(&own).or_else(numbered)?;
        let (pool, id) = node.rsplit_once('-')?;
        Some((pool.to_owned(), NodeId::new(id.parse().ok()?)?)).filter(|(pool, _)| !pool.is_empty())
    }

    /// The labels of everything that belongs to the Kafka nodes; `user` is what the resource carries.
    #[must_use]
    pub fn labels(&self, user: &Labels) -> Labels {
        let mut labels: Labels = user
            .iter()
            .filter(|(name, _)| is_passed_on(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let part_of = format!("strimzi-{}", self.cluster);
        let own = [
            ("app.kubernetes.io/name", "kafka".to_owned()),
            ("app.kubernetes.io/instance", label_value(&self.cluster)),
            (MANAGED_BY, MANAGER.to_owned()),
            (COMPONENT_LABEL, "kafka".to_owned()),
        ];
        labels.extend(own.map(|(name, value)| (name.to_owned(), value)));
        labels
            .entry("app.kubernetes.io/part-of".to_owned())
            .or_insert_with(|| label_value(&part_of));
        labels.extend(self.selector(None));
        labels
    }

    /// The labels of what belongs to a pool.
    #[must_use]
    pub fn pool_labels(&self, pool: &str, user: &Labels) -> Labels {
        let mut labels = self.labels(user);
        labels.insert(POOL_LABEL.to_owned(), pool.to_owned());
        labels
    }

    /// The labels of a Secret that is not a node's: an authority, a bundle.
    #[must_use]
    pub fn secret_labels(&self, user: &Labels, component: &str) -> Labels {
        let mut labels = self.labels(user);
        labels.insert(NAME_LABEL.to_owned(), "strimzi".to_owned());
        labels.insert(COMPONENT_LABEL.to_owned(), component.to_owned());
        labels
    }

    /// The labels by which the nodes of the cluster, or of one pool, are found.
    #[must_use]
    pub fn selector(&self, pool: Option<&str>) -> Labels {
        let mut labels: Labels = [
            (CLUSTER_LABEL, self.cluster.clone()),
            (KIND_LABEL, "Kafka".to_owned()),
            (NAME_LABEL, self.component()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        labels.extend(pool.map(|pool| (POOL_LABEL.to_owned(), pool.to_owned())));
        labels
    }
}

/// Whether a label of the user's resource is put on what is made for it.
///
/// What tools put on a resource to find it must not make them find our objects too, and our own labels
/// are ours to set.
fn is_passed_on(label: &str) -> bool {
    match label.split_once('/') {
        Some(("app.kubernetes.io", name)) => name == "part-of",
        Some((domain, _)) => {
            !domain.starts_with("kustomize.toolkit.fluxcd.io") && domain != "strimzi.io"
        }
        None => true,
    }
}

/// A text as the value of a label: at most 63 characters, and letters or digits at the end.
fn label_value(text: &str) -> String {
    let short: String = text.chars().take(63).collect();
    short.trim_end_matches(['.', '-', '_']).to_owned()
}

/// A selector as the API wants it in a query and in the scale subresource.
#[must_use]
pub fn selector_text(labels: &Labels) -> String {
    labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",")
}

/// The node id at the end of a pod's name.
#[must_use]
pub fn node_of_pod(pod: &str) -> Option<NodeId> {
    pod.rsplit_once('-')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_tools_look_for() {
        let names = Names::new("kafka", "my-cluster");
        let three: NodeId = "3".parse().unwrap();
        let rows = [
            (names.pod("broker", three), "my-cluster-broker-3"),
            (names.bootstrap_service(), "my-cluster-kafka-bootstrap"),
            (
                names.host("my-cluster-broker-3"),
                "my-cluster-broker-3.my-cluster-kafka-brokers.kafka.svc",
            ),
            (names.claim("data-0", "broker", three), "data-0-my-cluster-broker-3"),
            (names.authority_cert("clients"), "my-cluster-clients-ca-cert"),
            (
                names.listener_broker_service("broker", three, ("external", 9094)),
                "my-cluster-broker-3",
            ),
            (
                names.listener_broker_service("broker", three, ("lb", 9094)),
                "my-cluster-broker-lb-3",
            ),
            (names.listener_bootstrap_service("lb"), "my-cluster-kafka-lb-bootstrap"),
            (names.init_binding(), "strimzi-kafka-my-cluster-kafka-init"),
        ];
        for (name, expected) in rows {
            assert_eq!(name, expected);
        }
        assert_eq!(node_of_pod("my-cluster-broker-3"), Some(three));
        assert_eq!(node_of_pod("my-cluster-broker-x"), None);
        let of = |pool: &str| Some((pool.to_owned(), three));
        let rows = [
            ("data-0-my-cluster-broker-3", of("broker")),
            ("data-my-cluster-broker-3", of("broker")),
            ("data-12-my-cluster-a-b-3", of("a-b")),
            ("data-0-other-broker-3", None),
            ("data-x-my-cluster-broker-3", None),
            ("data-0-my-cluster-broker-x", None),
            ("data-0-my-cluster-3", None),
            ("logs-my-cluster-broker-3", None),
        ];
        for (claim, expected) in rows {
            assert_eq!(names.node_of_claim(claim), expected, "{claim}");
        }
    }

    #[test]
    fn labels_of_the_user_are_passed_on_but_for_those_that_others_own() {
        let user = [
            ("team", "a"),
            ("app.kubernetes.io/name", "mine"),
            ("app.kubernetes.io/part-of", "shop"),
            ("kustomize.toolkit.fluxcd.io/name", "flux"),
            ("strimzi.io/cluster", "other"),
        ];
        let user = user.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let labels = Names::new("ns", "c").pool_labels("p", &user);
        let rows = [
            ("team", Some("a")),
            ("app.kubernetes.io/name", Some("kafka")),
            ("app.kubernetes.io/part-of", Some("shop")),
            ("kustomize.toolkit.fluxcd.io/name", None),
            ("strimzi.io/cluster", Some("c")),
            ("strimzi.io/pool-name", Some("p")),
            ("strimzi.io/name", Some("c-kafka")),
        ];
        for (name, expected) in rows {
            assert_eq!(labels.get(name).map(String::as_str), expected, "{name}");
        }
    }

    #[test]
    fn a_long_name_makes_a_label_that_the_server_takes() {
        let long = format!("{}-{}", "a".repeat(62), "b".repeat(20));
        let labels = Names::new("ns", &long).labels(&Labels::new());
        assert_eq!(labels["app.kubernetes.io/instance"], "a".repeat(62));
    }
}
