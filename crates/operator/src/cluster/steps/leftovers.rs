//! Takes away what belonged to nodes and listeners that are gone.
//!
//! Only objects that carry this cluster's labels, and only kinds whose names say which node or listener they
//! were for. Claims are kept unless their user said otherwise.

use std::collections::BTreeSet;

use api::names::{KIND_LABEL, NAME_LABEL, POD_NAME_LABEL, POOL_LABEL};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service};
use kube::{Resource, ResourceExt as _};

use crate::cluster::error::PassError;
use crate::cluster::pass::{Step, Work};
use crate::cluster::resources::claims::DELETE_CLAIM;
use crate::cluster::resources::services;

pub(crate) async fn run(work: &mut Work) -> Result<Step, PassError> {
    let pods: BTreeSet<_> =
        work.blueprint.nodes.iter().map(|node| work.blueprint.pod(node)).collect();
    // A node whose pod is still there is not gone, whatever was decided.
    let in_use = |name: &str| pods.contains(name) || work.found.pods.contains_key(name);
    let of_node = |labels: &std::collections::BTreeMap<String, String>| {
        labels.get(POD_NAME_LABEL).is_some_and(|pod| !in_use(pod))
    };
    let maps = work.found.config_maps.values().filter(|map| of_node(map.labels()));
    let maps: Vec<_> = maps.cloned().collect();
    let secrets = work.found.secrets.values().filter(|secret| of_node(secret.labels()));
    let secrets: Vec<_> = secrets.cloned().collect();
    let wanted: BTreeSet<_> =
        services::all(&work.blueprint)?.iter().map(|service| service.name_any()).collect();
    let ours = work.found.services.values().filter(|service| is_ours(work, *service));
    let services: Vec<_> =
        ours.filter(|service| !wanted.contains(&service.name_any())).cloned().collect();
    // A node that is recorded may come back, whether it runs or not: its claims are the guard's.
    let recorded = work.record.nodes();
    let recorded: Vec<_> =
        recorded.iter().map(|node| work.blueprint.names.pod(&node.pool, node.id)).collect();
    let claims = work.found.claims.values().filter(|claim| {
        let known = recorded.iter().chain(work.found.pods.keys());
        let mut known = known.map(|pod| format!("-{pod}"));
        let named = known.any(|suffix| claim.name_any().ends_with(&suffix));
        let delete = claim.annotations().get(DELETE_CLAIM).is_some_and(|value| value == "true");
        is_ours(work, *claim) && delete && !named
    });
    let claims: Vec<_> = claims.cloned().collect();
    delete::<ConfigMap>(work, &maps).await?;
    delete::<Secret>(work, &secrets).await?;
    delete::<Service>(work, &services).await?;
    delete::<PersistentVolumeClaim>(work, &claims).await?;
    delete_pod_sets(work).await?;
    Ok(Step::Done)
}

/// Whether an object was made for the Kafka nodes of this cluster.
fn is_ours<K: Resource>(work: &Work, object: &K) -> bool {
    let labels = object.meta().labels.clone().unwrap_or_default();
    let has = |name: &str, value: &str| labels.get(name).is_some_and(|found| found == value);
    has(KIND_LABEL, "Kafka") && has(NAME_LABEL, &work.blueprint.names.component())
}

/// Pod sets of pools without nodes: their pods are gone already.
async fn delete_pod_sets(work: &mut Work) -> Result<(), PassError> {
    let pools: BTreeSet<_> = work.blueprint.nodes.iter().map(|node| node.pool.clone()).collect();
    let sets: Vec<_> = work
        .found
        .pod_sets
        .values()
        .filter(|set| is_ours(work, *set))
        .filter(|set| set.labels().get(POOL_LABEL).is_some_and(|pool| !pools.contains(pool)))
        .filter(|set| {
            let pool = set.labels().get(POOL_LABEL);
            !work.found.pods.values().any(|pod| pod.labels().get(POOL_LABEL) == pool)
        })
        .cloned()
        .collect();
    delete(work, &sets).await
}

async fn delete<K>(work: &Work, objects: &[K]) -> Result<(), PassError>
where
    K: crate::write::Object + Resource<Scope = k8s_openapi::NamespaceResourceScope>,
{
    for object in objects {
        // What is on its way out already need not be asked again.
        if object.meta().deletion_timestamp.is_some() {
            continue;
        }
        if let Some(uid) = object.uid() {
            work.ctx.writer.delete(&work.api::<K>(), &object.name_any(), &uid, None).await?;
        }
    }
    Ok(())
}
