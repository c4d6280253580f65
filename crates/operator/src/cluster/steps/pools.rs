//! What the pools are told: their nodes in their statuses, where people and other operators look for them,
//! and the finalizer that makes the deletion of a pool a scale-down.

use std::collections::BTreeMap;

use api::names::POOL_LABEL;
use api::node_pool::Role;
use api::{KafkaNodePool, KafkaNodePoolStatus};
use control::node::Roles;
use control::scaling::pool::{self, Cluster, Decision, FINALIZER};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt as _};
use model::NodeId;
use serde_json::json;

use crate::cluster::error::PassError;
use crate::cluster::pass::Work;
use crate::words::chain;

/// Tells all pools, before anything of theirs is made.
pub(crate) async fn tell(work: &Work) -> Result<(), PassError> {
    let api: Api<KafkaNodePool> = work.api();
    for pool in &work.blueprint.pools {
        let decision = pool::decide(&facts(work, pool).await);
        if let Some(finalizers) = finalizers(pool, decision) {
            let patch = json!({ "metadata": {
                "finalizers": finalizers,
                "resourceVersion": pool.resource_version(),
            } });
            work.ctx.writer.patch(&api, &pool.name_any(), &patch, Some(pool)).await?;
        }
        // One that is let go may be gone by now.
        let let_go = pool.metadata.deletion_timestamp.is_some() && decision == Decision::Release;
        if !let_go {
            tell_status(work, &api, pool).await?;
        }
    }
    Ok(())
}

async fn facts(work: &Work, pool: &KafkaNodePool) -> pool::Facts {
    let name = pool.name_any();
    let deleting = pool.metadata.deletion_timestamp.is_some();
    let recorded = work.record.pools.get(&name).map_or(0, BTreeMap::len);
    let pods = work.found.pods.values();
    let pods = pods.filter(|pod| pod.labels().get(POOL_LABEL) == Some(&name)).count();
    pool::Facts {
        deleting,
        has_finalizer: pool.finalizers().iter().any(|finalizer| finalizer == FINALIZER),
        // One that is being deleted, or is gone, has no pass.
        cluster: Some(Cluster::Present),
        namespace_deleting: if deleting { namespace_deleting(work).await } else { None },
        nodes_left: Some(recorded.max(pods)),
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
            tracing::info!("whether the namespace goes is not known: {}", chain(&error));
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
fn roles(nodes: &BTreeMap<NodeId, Roles>, wished: &[Role]) -> Vec<Role> {
    if nodes.is_empty() {
        return wished.to_vec();
    }
    let has = |role: &Role| match role {
        Role::Broker => nodes.values().any(|roles| roles.is_broker()),
        Role::Controller => nodes.values().any(|roles| roles.is_controller()),
    };
    // In the order in which the user wrote them.
    let all = [Role::Controller, Role::Broker];
    let more = all.iter().filter(|role| !wished.contains(role));
    wished.iter().chain(more).filter(|role| has(role)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Role::{Broker, Controller};

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
        for (had, wished, expected) in rows {
            assert_eq!(roles(&nodes(had), wished), expected, "{had:?} {wished:?}");
        }
    }
}
