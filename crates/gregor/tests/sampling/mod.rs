//! A cluster looked at again and again while something happens to it: which pods were restarted, in which
//! order, and who led the controllers then.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kafka_admin::{Admin, Quorum};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use tokio::runtime::Runtime;

/// Between two looks. A pod needs seconds to end and to start.
const PAUSE: Duration = Duration::from_millis(200);

/// How long a controller has been behind, by the leader's clock.
pub(crate) fn lag_ms(quorum: &Quorum, controller: i32) -> Option<u64> {
    let leader = quorum.leader_replica()?.last_caught_up_ms?;
    let voter = quorum.voters.iter().find(|voter| voter.id.get() == controller)?;
    Some(leader.saturating_sub(voter.last_caught_up_ms?))
}

/// A pod at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    uid: String,
    ready: bool,
    ending: bool,
}

/// The cluster at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Who led the controllers, as far as anybody said.
    leader: Option<i32>,
    pods: BTreeMap<String, Seen>,
}

/// A pod that was restarted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Restart {
    pub(crate) pod: String,
    /// Who led when it was last seen untouched.
    pub(crate) leader: Option<i32>,
}

/// Looks at a cluster.
#[derive(Clone)]
pub(crate) struct Sampler {
    pods: Api<Pod>,
    admin: Admin,
}

impl Sampler {
    pub(crate) fn new(client: Client, namespace: &str, admin: Admin) -> Self {
        let admin = admin.with_call_timeout(Duration::from_secs(3));
        Self { pods: Api::namespaced(client, namespace), admin }
    }

    /// Looks at the cluster again and again while something is done, once before and once after.
    pub(crate) fn during(&self, runtime: &Runtime, act: impl FnOnce()) -> Vec<Sample> {
        let first = runtime.block_on(self.look()).unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let (sampler, until) = (self.clone(), Arc::clone(&ended));
        let task = runtime.spawn(async move {
            let mut samples = vec![first];
            while !until.load(Ordering::Relaxed) {
                samples.extend(sampler.look().await);
                tokio::time::sleep(PAUSE).await;
            }
            samples.extend(sampler.look().await);
            samples
        });
        act();
        ended.store(true, Ordering::Relaxed);
        runtime.block_on(task).unwrap()
    }

    /// None if Kubernetes did not answer.
    async fn look(&self) -> Option<Sample> {
        // The leader first: whoever is untouched afterwards was so when it led.
        let leader = self.admin.describe_quorum().await.ok().map(|quorum| quorum.leader.get());
        let pods = self.pods.list(&ListParams::default()).await.ok()?;
        let seen = pods.items.iter().map(|pod| {
            let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
            let mut conditions = conditions.into_iter().flatten();
            let ready = conditions.any(|one| one.type_ == "Ready" && one.status == "True");
            let ending = pod.metadata.deletion_timestamp.is_some();
            (pod.name_any(), Seen { uid: pod.uid().unwrap(), ready, ending })
        });
        Some(Sample { leader, pods: seen.collect() })
    }
}

/// The restarts in their order.
pub(crate) fn restarts(samples: &[Sample]) -> Vec<Restart> {
    let mut untouched: BTreeMap<&String, &String> = BTreeMap::new();
    let mut leader = None;
    let mut all = Vec::new();
    for sample in samples {
        for (pod, seen) in &sample.pods {
            let before = untouched.get(pod).copied();
            if seen.ending || before.is_some_and(|uid| *uid != seen.uid) {
                untouched.remove(pod);
                if before.is_some() {
                    all.push(Restart { pod: pod.clone(), leader });
                }
            }
            if !seen.ending {
                untouched.insert(pod, &seen.uid);
            }
        }
        leader = sample.leader.or(leader);
    }
    all
}

/// No two of the pods that were there at first were down at once.
pub(crate) fn assert_one_at_a_time(samples: &[Sample]) {
    for sample in samples {
        let is_up =
            |pod: &&String| sample.pods.get(*pod).is_some_and(|seen| seen.ready && !seen.ending);
        let down: Vec<_> = samples[0].pods.keys().filter(|pod| !is_up(pod)).collect();
        assert!(down.len() < 2, "{down:?} are down at once: {sample:?}");
    }
}
