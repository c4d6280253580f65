//! What an installation has in Kubernetes: operators by their Leases, and the records of clusters. Reads only.

use std::collections::BTreeMap;

use anyhow::Context as _;
use api::names::{CLUSTER_LABEL, MANAGED_BY, MANAGER, Names};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use operator::install;

/// An operator, by its Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operator {
    /// The namespace of the Lease.
    pub(crate) namespace: String,
    /// The name of the Lease.
    pub(crate) name: String,
    /// Whether a process holds the Lease, and it has not expired.
    pub(crate) runs: bool,
    /// What the holder publishes.
    pub(crate) annotations: BTreeMap<String, String>,
}

/// Operators of a namespace, or of all.
pub(crate) async fn operators(
    client: &Client,
    namespace: Option<&str>,
) -> anyhow::Result<Vec<Operator>> {
    let api: Api<Lease> = place(client, namespace);
    let ours = ListParams::default().fields(&format!("metadata.name={}", install::NAME));
    let leases = api.list(&ours).await.context("cannot list the Leases of operators")?;
    let now = Timestamp::now();
    Ok(leases.iter().map(|lease| operator(lease, now)).collect())
}

/// Records of the clusters of a namespace, or of all.
pub(crate) async fn records(
    client: &Client,
    namespace: Option<&str>,
) -> anyhow::Result<Vec<ConfigMap>> {
    let api: Api<ConfigMap> = place(client, namespace);
    let ours = ListParams::default().labels(&format!("{MANAGED_BY}={MANAGER},{CLUSTER_LABEL}"));
    let maps = api.list(&ours).await.context("cannot list the records of clusters")?;
    Ok(maps.items.into_iter().filter(|map| cluster_of(map).is_some()).collect())
}

/// The cluster whose record a ConfigMap is.
pub(crate) fn cluster_of(map: &ConfigMap) -> Option<String> {
    let cluster = map.labels().get(CLUSTER_LABEL)?;
    let names = Names::new(&map.namespace().unwrap_or_default(), cluster);
    (map.name_any() == names.record()).then(|| cluster.clone())
}

/// Objects of a namespace, or of all.
pub(crate) fn place<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

fn operator(lease: &Lease, now: Timestamp) -> Operator {
    Operator {
        namespace: lease.namespace().unwrap_or_default(),
        name: lease.name_any(),
        runs: is_held(lease, now),
        annotations: lease.annotations().clone(),
    }
}

/// Whether a process holds a Lease now. Clocks differ a little, so an expired Lease counts as held for as long again.
fn is_held(lease: &Lease, now: Timestamp) -> bool {
    let Some(spec) = &lease.spec else { return false };
    let has_holder = spec.holder_identity.as_ref().is_some_and(|holder| !holder.is_empty());
    let seconds = i64::from(spec.lease_duration_seconds.unwrap_or_default());
    let is_recent = |renewed: Timestamp| now.as_second() <= renewed.as_second() + 2 * seconds;
    has_holder && spec.renew_time.as_ref().is_none_or(|time| is_recent(time.0))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::coordination::v1::LeaseSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

    use super::*;

    #[test]
    fn a_lease_is_held_until_it_has_expired_for_certain() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        // The holder, seconds since the last renewal, and whether it is held.
        let rows = [
            (Some("pod-a"), Some(0), true),
            (Some("pod-a"), Some(30), true),
            (Some("pod-a"), Some(31), false),
            // A clock that is ahead of ours.
            (Some("pod-a"), Some(-5), true),
            (Some("pod-a"), None, true),
            (Some(""), Some(0), false),
            (None, Some(0), false),
        ];
        for (holder, ago, expected) in rows {
            let renewed =
                ago.map(|ago| MicroTime(Timestamp::from_second(1_000_000 - ago).unwrap()));
            let spec = LeaseSpec {
                holder_identity: holder.map(str::to_owned),
                lease_duration_seconds: Some(15),
                renew_time: renewed,
                ..LeaseSpec::default()
            };
            let lease = Lease { spec: Some(spec), ..Lease::default() };
            assert_eq!(is_held(&lease, now), expected, "{holder:?} {ago:?}");
        }
        assert!(!is_held(&Lease::default(), now));
    }
}
