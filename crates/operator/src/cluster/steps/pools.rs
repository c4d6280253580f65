//! What the pools are told: their nodes in their statuses, where people and other operators look for them,
//! and the finalizer that makes the deletion of a pool a scale-down.

use std::collections::BTreeMap;

use api::names::POOL_LABEL;
use api::node_pool::Role;
use api::{Kafka, KafkaNodePool, KafkaNodePoolStatus};
use control::node::Roles;
use control::scaling::pool::{self, Cluster, Decision, FINALIZER};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt as _};
use model::NodeId;
use serde_json::json;

use crate::cluster::error::PassError;
use crate::cluster::pass::Work;
use crate::context::Context;
use crate::words::chain;

/// Tells all pools, before anything of theirs is made.
pub(crate) async fn tell(work: &Work) -> Result<(), PassError> {
    let api: Api<KafkaNodePool> = work.api();
    for pool in &work.blueprint.pools {
        let decision = protect(&work.ctx, pool, &facts(work, pool).await).await?;
        // One that is let go may be gone by now.
        let let_go = pool.metadata.deletion_timestamp.is_some() && decision == Decision::Release;
        if !let_go {
            tell_status(work, &api, pool).await?;
        }
    }
    Ok(())
}

/// Releases a pool whose cluster is being deleted or is gone, if the decision says so.
pub(crate) async fn release(
    ctx: &Context,
    pool: &KafkaNodePool,
    cluster: Cluster,
) -> Result<(), PassError> {
    protect(ctx, pool, &of_pool(pool, cluster)).await.map(|_| ())
}

/// Adds or removes the finalizer of a pool as decided.
async fn protect(
    ctx: &Context,
    pool: &KafkaNodePool,
    facts: &pool::Facts,
) -> Result<Decision, PassError> {
    let decision = pool::decide(facts);
    if let Some(finalizers) = finalizers(pool, decision) {
        let namespace = pool.namespace().unwrap_or_default();
        let api: Api<KafkaNodePool> = Api::namespaced(ctx.client.clone(), &namespace);
        let version = pool.resource_version();
        let patch = json!({ "metadata": { "finalizers": finalizers, "resourceVersion": version } });
        ctx.writer.patch(&api, &pool.name_any(), &patch, Some(pool)).await?;
    }
    Ok(decision)
}

/// The facts that the resource of a pool gives.
fn of_pool(pool: &KafkaNodePool, cluster: Cluster) -> pool::Facts {
    pool::Facts {
        deleting: pool.metadata.deletion_timestamp.is_some(),
        has_finalizer: pool.finalizers().iter().any(|finalizer| finalizer == FINALIZER),
        cluster,
        namespace_deleting: None,
        nodes_left: None,
    }
}

async fn facts(work: &Work, pool: &KafkaNodePool) -> pool::Facts {
    let name = pool.name_any();
    let recorded = work.record.pools.get(&name).map_or(0, BTreeMap::len);
    let pods = work.found.pods.values();
    let pods = pods.filter(|pod| pod.labels().get(POOL_LABEL) == Some(&name)).count();
    let facts = of_pool(pool, cluster_of(&work.blueprint.kafka));
    let namespace_deleting = if facts.deleting { namespace_deleting(work).await } else { None };
    pool::Facts { namespace_deleting, nodes_left: Some(recorded.max(pods)), ..facts }
}

/// A cluster whose resource was read.
pub(crate) fn cluster_of(kafka: &Kafka) -> Cluster {
    match kafka.metadata.deletion_timestamp {
        Some(_) => Cluster::Deleting,
        None => Cluster::Present,
    }
}

/// Whether the namespace goes, with everything in it.
async fn namespace_deleting(work: &Work) -> Option<bool> {
    let api: Api<Namespace> = Api::all(work.ctx.client.clone());
    match api.get_opt(&work.blueprint.names.namespace).await {
        Ok(found) => {
            Some(found.is_none_or(|namespace| namespace.metadata.deletion_timestamp.is_some()))
        }
        Err(error) => {
            tracing::info!(
                "it is unknown whether the namespace is being deleted: {}",
                chain(&error)
            );
            None
        }
    }
}

/// The finalizers that the pool shall have, if that is a change.
fn finalizers(pool: &KafkaNodePool, decision: Decision) -> Option<Vec<String>> {
    let mut finalizers = pool.finalizers().to_vec();
    match decision {
        Decision::Keep | Decision::Drain(_) => return None,
        Decision::Protect => finalizers.push(FINALIZER.to_owned()),
        Decision::Release => finalizers.retain(|finalizer| finalizer != FINALIZER),
    }
    Some(finalizers)
}

async fn tell_status(
    work: &Work,
    api: &Api<KafkaNodePool>,
    pool: &KafkaNodePool,
) -> Result<(), PassError> {
    let name = pool.name_any();
    let nodes: BTreeMap<_, _> = work.record.pools.get(&name).cloned().unwrap_or_default();
    let selector = work.blueprint.names.selector(Some(&name));
    let status = KafkaNodePoolStatus {
        observed_generation: pool.metadata.generation,
        node_ids: Some(nodes.keys().map(|id| i64::from(id.get())).collect()),
        cluster_id: work.record.cluster_id.clone(),
        roles: Some(roles(&nodes, &pool.spec.roles)),
        replicas: i64::try_from(nodes.len()).ok(),
        label_selector: Some(api::names::selector_text(&selector)),
        ..KafkaNodePoolStatus::default()
    };
    let status = serde_json::to_value(&status)?;
    work.ctx.writer.patch_status(api, &name, &status, Some(pool)).await?;
    Ok(())
}

/// The roles that the nodes of a pool have: a role that they lose is theirs until it is gone, as a lost
/// record is made again from here.
fn roles(nodes: &BTreeMap<NodeId, Roles>, desired: &[Role]) -> Vec<Role> {
    if nodes.is_empty() {
        return desired.to_vec();
    }
    let has = |role: &Role| match role {
        Role::Broker => nodes.values().any(|roles| roles.is_broker()),
        Role::Controller => nodes.values().any(|roles| roles.is_controller()),
    };
    // In the order in which the user wrote them.
    let all = [Role::Controller, Role::Broker];
    let more = all.iter().filter(|role| !desired.contains(role));
    desired.iter().chain(more).filter(|role| has(role)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Role::{Broker, Controller};

    fn pool(metadata: serde_json::Value) -> KafkaNodePool {
        serde_json::from_value(json!({
            "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaNodePool", "metadata": metadata,
            "spec": { "replicas": 1, "roles": ["broker"], "storage": { "type": "ephemeral" } },
        }))
        .unwrap()
    }

    #[test]
    fn pools_without_a_cluster_lose_only_our_finalizer() {
        let kafka = |deleted: Option<&str>| -> Kafka {
            let metadata = json!({ "name": "c", "deletionTimestamp": deleted });
            let spec = json!({ "kafka": { "listeners": [] } });
            let all = json!({ "apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka", "metadata": metadata, "spec": spec });
            serde_json::from_value(all).unwrap()
        };
        let deleted = Some("2026-01-01T00:00:00Z");
        let (present, deleting) = (cluster_of(&kafka(None)), cluster_of(&kafka(deleted)));
        let (ours, both) = (json!([FINALIZER]), json!(["x/y", FINALIZER]));
        // The finalizers, when the pool was deleted, its cluster, and the finalizers after that.
        let rows: [(&serde_json::Value, Option<&str>, Cluster, Option<&[&str]>); 7] = [
            (&both, None, present, None),
            (&both, None, deleting, Some(&["x/y"])),
            (&both, None, Cluster::Missing, Some(&["x/y"])),
            (&both, deleted, Cluster::Missing, Some(&["x/y"])),
            (&ours, deleted, deleting, Some(&[])),
            (&ours, deleted, present, None),
            (&json!(["x/y"]), deleted, Cluster::Missing, None),
        ];
        for (found, deletion, cluster, expected) in rows {
            let pool =
                pool(json!({ "name": "p", "finalizers": found, "deletionTimestamp": deletion }));
            let after = finalizers(&pool, pool::decide(&of_pool(&pool, cluster)));
            let expected = expected.map(|all| all.iter().map(|one| (*one).to_owned()).collect());
            assert_eq!(after, expected, "{found} {deletion:?} {cluster:?}");
        }
    }

    #[test]
    fn a_role_is_told_as_long_as_a_node_has_it() {
        let nodes = |texts: &[&str]| {
            let ids = (0..).filter_map(NodeId::new);
            ids.zip(texts.iter().map(|text| text.parse().unwrap())).collect()
        };
        let rows: [(&[&str], &[Role], &[Role]); 6] = [
            (&[], &[Broker], &[Broker]),
            (&["broker", "broker"], &[Broker], &[Broker]),
            (&["broker,controller"], &[Broker, Controller], &[Broker, Controller]),
            // Those that are to go are still there.
            (&["broker,controller", "controller"], &[Controller], &[Controller, Broker]),
            (&["broker,controller", "broker"], &[Broker], &[Broker, Controller]),
            // Those that are to come are not there yet.
            (&["broker"], &[Controller, Broker], &[Broker]),
        ];
        for (had, desired, expected) in rows {
            assert_eq!(roles(&nodes(had), desired), expected, "{had:?} {desired:?}");
        }
    }
}
