//! What an installation has: its objects, the clusters that it manages, and the resources with its finalizers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use anyhow::Context as _;
use api::names::{CLUSTER_LABEL, MANAGED_BY, MANAGER, Names};
use api::{Kafka, KafkaNodePool, KafkaRebalance, KafkaTopic};
use control::life::coexist::Selector;
use control::life::uninstall::{Cluster, Held, Kind};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use operator::install::{self, Installation};
use operator::strimzi::SELECTOR_VARIABLE;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::commands::{dynamic, installed};

/// The environment variable with the namespaces that an operator watches.
const NAMESPACES: &str = "GREGOR_NAMESPACES";

/// Objects that stay while clusters do, or while another operator runs: the right of Kafka nodes, and what is not in a
/// namespace.
const OF_NODES: &str = "gregor-kafka-node";

/// Something that stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stay {
    /// What.
    pub(super) what: String,
    /// The command that removes it.
    pub(super) remove: Option<String>,
}

impl Stay {
    pub(super) fn text(&self) -> String {
        match &self.remove {
            Some(remove) => format!("{}: {remove}", self.what),
            None => self.what.clone(),
        }
    }
}

/// An installation.
#[derive(Debug)]
pub(super) struct Installed {
    pub(super) clusters: Vec<Cluster>,
    pub(super) held: Vec<Held>,
    pub(super) operator_runs: Option<bool>,
    /// Objects of the operator that exist and are removed, in order.
    pub(super) removable: Vec<Value>,
    pub(super) stays: Vec<Stay>,
}

impl Installed {
    /// Reads what is in the namespaces that the operator watches, or in this one only.
    pub(super) async fn read(
        client: &Client,
        operator_namespace: &str,
        place: Option<&str>,
    ) -> anyhow::Result<Self> {
        let (watched, selector) = match place {
            Some(place) => (vec![place.to_owned()], Selector::default()),
            None => scope(client, operator_namespace).await?,
        };
        let places: Vec<Option<&str>> = match watched.as_slice() {
            [] => vec![None],
            some => some.iter().map(|name| Some(name.as_str())).collect(),
        };
        let operators = installed::operators(client, None).await.ok();
        let is_other = |one: &installed::Operator| {
            let is_own = one.namespace == operator_namespace && one.name == install::NAME;
            one.runs && !is_own
        };
        // Unknown operators may use what is shared.
        let has_others = operators.as_ref().is_none_or(|all| all.iter().any(is_other));
        let operator_runs =
            operators.as_ref().map(|operators| operators.iter().any(|operator| operator.runs));
        let (mut clusters, mut held, mut stays) = (Vec::new(), Vec::new(), Vec::new());
        // Clusters of other operators, with the resources that belong to them.
        let mut foreign = BTreeSet::new();
        for place in &places {
            let (ours, theirs) = clusters_of(client, *place, &selector).await?;
            clusters.extend(ours);
            foreign.extend(theirs);
        }
        let living: BTreeSet<_> =
            clusters.iter().filter(|one| !one.is_deleting).map(|one| one.name.clone()).collect();
        for place in &places {
            let found = held_in(client, *place, &living).await?;
            held.extend(found.into_iter().filter(|one| !foreign.contains(&one.0)).map(|one| one.1));
            stays.extend(of_clusters(client, *place).await?);
        }
        held.sort();
        let installation = Installation {
            namespace: operator_namespace.to_owned(),
            image: String::new(),
            kafka_images: BTreeMap::new(),
            watch_namespaces: watched,
            replicas: 1,
            operation_timeout_ms: None,
            selector,
            console: true,
        };
        let mut removable = Vec::new();
        for object in install::manifest(&installation).into_iter().rev() {
            let Some(found) = find(client, &object).await? else { continue };
            let what = dynamic::what(&object);
            let is_shared = object["metadata"]["namespace"].is_null();
            let is_of_nodes = object["metadata"]["name"] == OF_NODES && !living.is_empty();
            let kind = object["kind"].as_str().unwrap_or_default().to_owned();
            match kind.as_str() {
                "Namespace" | "CustomResourceDefinition" => stays.push(kept(&object, &what)),
                _ if !is_ours(&found) => {}
                _ if is_shared && has_others => stays.push(Stay {
                    what: format!("{what}, which another operator uses"),
                    remove: None,
                }),
                _ if is_of_nodes => stays
                    .push(Stay { what: format!("{what}, which Kafka nodes use"), remove: None }),
                _ => removable.push(object),
            }
        }
        Ok(Self { clusters, held, operator_runs, removable, stays })
    }
}

/// What stays of the installation itself.
fn kept(object: &Value, what: &str) -> Stay {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let (what, remove) = match object["kind"].as_str() {
        Some("Namespace") => (what.to_owned(), format!("kubectl delete namespace {name}")),
        _ => (
            format!("{what}, and its resources: deleting the definition deletes all of them"),
            format!("kubectl delete crd {name}"),
        ),
    };
    Stay { what, remove: Some(remove) }
}

/// An object of the installation, if it exists.
async fn find(client: &Client, object: &Value) -> anyhow::Result<Option<ObjectMeta>> {
    let Some((api, name)) = dynamic::api(client, object).await? else { return Ok(None) };
    let found = api.get_metadata_opt(&name).await;
    let found = found.with_context(|| format!("cannot read {}", dynamic::what(object)))?;
    Ok(found.map(|found| found.metadata))
}

/// Whether an object was installed by Gregor, and not by something else of the same name.
fn is_ours(metadata: &ObjectMeta) -> bool {
    let labels = metadata.labels.as_ref();
    labels
        .and_then(|labels| labels.get("app.kubernetes.io/part-of"))
        .is_some_and(|of| of == "gregor")
}

/// The namespaces that the operator watches, and its selector; all if there is no Deployment that says otherwise.
async fn scope(client: &Client, namespace: &str) -> anyhow::Result<(Vec<String>, Selector)> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let found =
        api.get_opt(install::NAME).await.context("cannot read the operator's Deployment")?;
    let spec = found.and_then(|found| found.spec?.template.spec);
    let containers = spec.iter().flat_map(|spec| &spec.containers);
    let env: Vec<_> = containers.flat_map(|one| one.env.iter().flatten()).collect();
    let value = |name: &str| {
        let found = env.iter().filter(|one| one.name == name).find_map(|one| one.value.clone());
        found.unwrap_or_default()
    };
    let names = value(NAMESPACES);
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
    let selector = value(SELECTOR_VARIABLE).parse::<Selector>();
    let selector = selector.context("cannot read the selector of the operator's Deployment")?;
    Ok((names.map(str::to_owned).collect(), selector))
}

/// The clusters that the selector matches, and the names of others.
async fn clusters_of(
    client: &Client,
    place: Option<&str>,
    selector: &Selector,
) -> anyhow::Result<(Vec<Cluster>, Vec<String>)> {
    let kafkas = metadata::<Kafka>(client, place, &ListParams::default()).await?;
    let (mut clusters, mut others) = (Vec::new(), Vec::new());
    for kafka in kafkas {
        let namespace = kafka.namespace.unwrap_or_default();
        let name = kafka.name.unwrap_or_default();
        if !selector.matches(&kafka.labels.unwrap_or_default()) {
            others.push(format!("{namespace}/{name}"));
            continue;
        }
        let names = Names::new(&namespace, &name);
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
        let is_moving = match api.get_opt(&names.moves()).await {
            Ok(Some(map)) => ::operator::rebalance::is_moving(&map),
            Ok(None) => Some(false),
            Err(_) => None,
        };
        let is_deleting = kafka.deletion_timestamp.is_some();
        clusters.push(Cluster { name: format!("{namespace}/{name}"), is_deleting, is_moving });
    }
    Ok((clusters, others))
}

/// Resources with finalizers, each with the cluster that it belongs to.
async fn held_in(
    client: &Client,
    place: Option<&str>,
    living: &BTreeSet<String>,
) -> anyhow::Result<Vec<(String, Held)>> {
    let mut held = Vec::new();
    let all = ListParams::default();
    for kind in Kind::ALL {
        let found = match kind {
            Kind::Pool => metadata::<KafkaNodePool>(client, place, &all).await?,
            Kind::Topic => metadata::<KafkaTopic>(client, place, &all).await?,
            Kind::Rebalance => metadata::<KafkaRebalance>(client, place, &all).await?,
            Kind::User => {
                metadata::<Secret>(client, place, &all.clone().labels(CLUSTER_LABEL)).await?
            }
        };
        let has_ours = |one: &ObjectMeta| {
            one.finalizers.iter().flatten().any(|finalizer| finalizer == kind.finalizer())
        };
        held.extend(found.into_iter().filter(has_ours).map(|one| {
            let cluster = one.labels.as_ref().and_then(|labels| labels.get(CLUSTER_LABEL));
            let namespace = one.namespace.unwrap_or_default();
            let cluster = format!("{namespace}/{}", cluster.map_or("", String::as_str));
            let held = Held {
                kind,
                namespace,
                name: one.name.unwrap_or_default(),
                is_deleting: one.deletion_timestamp.is_some(),
                is_abandoned: !living.contains(&cluster),
            };
            (cluster, held)
        }));
    }
    Ok(held)
}

/// Objects of clusters, counted.
async fn of_clusters(client: &Client, place: Option<&str>) -> anyhow::Result<Vec<Stay>> {
    let ours = ListParams::default().labels(&format!("{CLUSTER_LABEL},{MANAGED_BY}={MANAGER}"));
    let mut counts: BTreeMap<String, BTreeMap<&str, usize>> = BTreeMap::new();
    let found = [
        ("pods", metadata::<Pod>(client, place, &ours).await?),
        ("claims", metadata::<PersistentVolumeClaim>(client, place, &ours).await?),
        ("Secrets", metadata::<Secret>(client, place, &ours).await?),
        ("ConfigMaps", metadata::<ConfigMap>(client, place, &ours).await?),
    ];
    for (what, objects) in found {
        for object in objects {
            let cluster = object.labels.as_ref().and_then(|labels| labels.get(CLUSTER_LABEL));
            let namespace = object.namespace.as_deref().unwrap_or_default();
            let cluster = format!("{namespace}/{}", cluster.map_or("", String::as_str));
            *counts.entry(cluster).or_default().entry(what).or_default() += 1;
        }
    }
    Ok(counts
        .into_iter()
        .map(|(cluster, counts)| {
            let counts: Vec<_> =
                counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
            Stay { what: format!("cluster {cluster} with {}", counts.join(", ")), remove: None }
        })
        .collect())
}

/// The metadata of objects; none if the server does not have their kind.
async fn metadata<K>(
    client: &Client,
    place: Option<&str>,
    params: &ListParams,
) -> anyhow::Result<Vec<ObjectMeta>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let api: Api<K> = match place {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    match api.list_metadata(params).await {
        Ok(found) => Ok(found.items.into_iter().map(|one| one.metadata).collect()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("cannot list {}", K::plural(&()))),
    }
}
