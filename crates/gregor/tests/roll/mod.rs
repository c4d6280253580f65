//! Watches a cluster while it is rolled: its pods as Kubernetes tells of them, and every 100 ms its
//! partitions as a broker tells of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kafka_admin::{Admin, ClientOptions};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use tokio::task::JoinHandle;

/// How often the partitions are looked at.
const PERIOD: Duration = Duration::from_millis(100);
/// A broker that is being stopped or is frozen is not waited for; there are others.
const PATIENCE: Duration = Duration::from_secs(2);
/// What every topic of the test must have in sync.
pub(crate) const MIN_ISR: usize = 2;

/// What a client of the cluster waits for.
pub(crate) fn patience() -> ClientOptions {
    ClientOptions {
        attempt_timeout: PATIENCE,
        connect_timeout: PATIENCE,
        ..ClientOptions::default()
    }
}

/// One look at a partition.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) replicas: Vec<i32>,
    pub(crate) isr: Vec<i32>,
}

/// One look at all partitions, and who led the quorum.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) begun: Instant,
    pub(crate) partitions: Vec<Seen>,
    pub(crate) active: Option<i32>,
}

impl Sample {
    /// The partitions of a node that have too few in sync while those that are down are.
    fn lacking(&self, node: i32, down: &BTreeSet<i32>) -> Vec<String> {
        let theirs = self.partitions.iter().filter(|seen| seen.replicas.contains(&node));
        let left = |seen: &&Seen| seen.isr.iter().filter(|one| !down.contains(one)).count();
        let lacking = theirs.filter(|seen| left(seen) < MIN_ISR);
        lacking.map(|seen| format!("{} {:?} of {:?}", seen.name, seen.isr, seen.replicas)).collect()
    }

    /// Whether two brokers have a partition in common.
    pub(crate) fn share(&self, a: i32, b: i32) -> bool {
        let both = |seen: &Seen| seen.replicas.contains(&a) && seen.replicas.contains(&b);
        self.partitions.iter().any(both)
    }
}

/// That a pod began to be deleted.
#[derive(Debug, Clone)]
pub(crate) struct Restart {
    pub(crate) node: i32,
    uid: String,
    at: Instant,
    /// It, and all others that were being deleted or were not ready at that moment.
    pub(crate) down: BTreeSet<i32>,
    /// The last look before it, and the first after.
    pub(crate) before: Arc<Sample>,
    after: Option<Arc<Sample>>,
}

impl Restart {
    /// Fails if it took a partition below its min-ISR.
    ///
    /// The operator may have asked a broker that knew of a replica that is in sync again a moment before
    /// the one that we asked, so what counts is what both looks say.
    pub(crate) fn check(&self) {
        let before = self.before.lacking(self.node, &self.down);
        let after = self.after.as_ref().map(|after| after.lacking(self.node, &self.down));
        let age = self.at.saturating_duration_since(self.before.begun);
        println!("  node {} with {:?} down, seen {age:?} before", self.node, self.down);
        let is_bad = !before.is_empty() && after.as_ref().is_none_or(|after| !after.is_empty());
        assert!(!is_bad, "the restart of node {} began with {before:?}, {after:?}", self.node);
    }
}

#[derive(Debug, Default)]
struct State {
    last: Option<Arc<Sample>>,
    samples: usize,
    restarts: Vec<Restart>,
    /// By node: the pod, and whether it is well.
    pods: BTreeMap<i32, (String, bool)>,
}

/// What is seen of a cluster, from the moment that it is made until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    state: Arc<Mutex<State>>,
    tasks: [JoinHandle<()>; 2],
}

impl Watch {
    /// Begins, and returns when both pods and partitions are seen.
    pub(crate) async fn start(client: Client, namespace: &str, admin: Admin) -> Self {
        let state = Arc::<Mutex<State>>::default();
        let pods = Api::namespaced(client, namespace);
        let sampling = tokio::spawn(sample(admin, Arc::clone(&state)));
        while state.lock().unwrap().samples == 0 {
            tokio::time::sleep(PERIOD).await;
        }
        let tasks = [sampling, tokio::spawn(watch(pods, Arc::clone(&state)))];
        let watch = Self { state, tasks };
        while watch.state().pods.is_empty() {
            tokio::time::sleep(PERIOD).await;
        }
        watch
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn last(&self) -> Arc<Sample> {
        self.state().last.clone().unwrap()
    }

    /// How many looks there were.
    pub(crate) fn samples(&self) -> usize {
        self.state().samples
    }

    /// All restarts since so many.
    pub(crate) fn restarts(&self, since: usize) -> Vec<Restart> {
        self.state().restarts[since..].to_vec()
    }

    /// Whether a node's pod is ready and stays.
    pub(crate) fn is_well(&self, node: i32) -> bool {
        self.state().pods.get(&node).is_some_and(|(_, well)| *well)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn watch(pods: Api<Pod>, state: Arc<Mutex<State>>) {
    let events = watcher(pods, watcher::Config::default()).default_backoff().touched_objects();
    let mut events = std::pin::pin!(events);
    while let Some(pod) = events.next().await {
        // After an error it begins anew, and tells of all pods once more.
        let Ok(pod) = pod else { continue };
        let Some(node) = api::names::node_of_pod(&pod.name_any()) else { continue };
        state.lock().unwrap().see(node.get(), &pod);
    }
}

impl State {
    fn see(&mut self, node: i32, pod: &Pod) {
        let uid = pod.uid().unwrap();
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        let ready = conditions.any(|one| one.type_ == "Ready" && one.status == "True");
        let well = ready && pod.metadata.deletion_timestamp.is_none();
        self.pods.insert(node, (uid.clone(), well));
        // A pod that is being deleted is told of several times.
        let begins = pod.metadata.deletion_timestamp.is_some()
            && !self.restarts.iter().any(|restart| restart.node == node && restart.uid == uid);
        if begins {
            let ill = self.pods.iter().filter(|(_, (_, well))| !well);
            let down = ill.map(|(node, _)| *node).collect();
            let (at, before) = (Instant::now(), self.last.clone().unwrap());
            self.restarts.push(Restart { node, uid, at, down, before, after: None });
        }
    }
}

async fn sample(admin: Admin, state: Arc<Mutex<State>>) {
    let mut active = None;
    for number in 0_u64.. {
        let begun = Instant::now();
        // The quorum changes less often than the partitions.
        if number % 5 == 0
            && let Ok(quorum) = admin.describe_quorum().await
        {
            active = Some(quorum.leader.get());
        }
        if let Ok(page) = admin.describe_topics(&[]).await {
            let ids = |nodes: &[model::NodeId]| nodes.iter().map(|node| node.get()).collect();
            let topics = page.topics.iter();
            let partitions = topics.flat_map(|topic| {
                topic.partitions.iter().map(|partition| Seen {
                    name: format!("{}-{}", topic.name, partition.id),
                    replicas: ids(&partition.replicas),
                    isr: ids(&partition.isr),
                })
            });
            let sample = Arc::new(Sample { begun, partitions: partitions.collect(), active });
            let mut state = state.lock().unwrap();
            for restart in state.restarts.iter_mut().filter(|one| one.after.is_none()) {
                if restart.at < begun {
                    restart.after = Some(Arc::clone(&sample));
                }
            }
            state.last = Some(sample);
            state.samples += 1;
        }
        tokio::time::sleep(PERIOD.saturating_sub(begun.elapsed())).await;
    }
}
