//! Runs one actor per pod of this node, and cleans up after pods that no longer exist.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::events::Level;
use super::pod::status::is_terminal;
use super::pod::{Actor, Mail, end_orphan};
use super::shared::Shared;

/// Poll interval for the hosts file.
const HOSTS_EVERY: Duration = Duration::from_millis(500);

/// A message to the agent.
pub(crate) enum Order {
    /// Stop all containers so that the next start resumes them.
    Pause,
    /// A pod could not be accepted; retry.
    Again(Arc<Pod>),
}

/// The pods of a node.
pub(crate) struct Agent {
    shared: Arc<Shared>,
    actors: BTreeMap<String, UnboundedSender<Mail>>,
    tasks: JoinSet<String>,
    /// Uids in the list that is being read.
    listed: BTreeSet<String>,
    own: UnboundedSender<Order>,
    pausing: bool,
    /// Number of pods.
    count: watch::Sender<usize>,
}

impl Agent {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        own: UnboundedSender<Order>,
        count: watch::Sender<usize>,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            actors: BTreeMap::new(),
            tasks: JoinSet::new(),
            listed: BTreeSet::new(),
            own,
            pausing: false,
            count,
        }
    }

    /// Runs until it is told to pause and all pods have stopped.
    pub(crate) async fn run(mut self, mut orders: UnboundedReceiver<Order>) {
        let fields = format!("spec.nodeName={}", self.shared.options.name);
        let config = watcher::Config::default().fields(&fields);
        let api = Api::<Pod>::all(self.shared.client.clone());
        let mut events = std::pin::pin!(watcher(api, config).default_backoff());
        while !(self.pausing && self.tasks.is_empty()) {
            tokio::select! {
                Some(event) = events.next() => match event {
                    Ok(event) => self.take(event),
                    Err(error) => tracing::info!(%error, "the watch of pods restarts"),
                },
                Some(order) = orders.recv() => match order {
                    Order::Pause => self.pause(),
                    Order::Again(pod) => self.deliver(pod),
                },
                Some(ended) = self.tasks.join_next() => match ended {
                    Ok(uid) => drop(self.actors.remove(&uid)),
                    // Its channel is closed now; the next event of the pod starts another actor.
                    Err(error) => tracing::error!(%error, "the actor of a pod failed"),
                },
                else => return,
            }
            self.count.send_replace(self.tasks.len());
        }
    }

    fn pause(&mut self) {
        self.pausing = true;
        for actor in self.actors.values() {
            let _ = actor.send(Mail::Pause);
        }
    }

    fn take(&mut self, event: watcher::Event<Pod>) {
        match event {
            watcher::Event::Init => self.listed.clear(),
            watcher::Event::InitApply(pod) => {
                self.listed.insert(uid(&pod));
                self.deliver(Arc::new(pod));
            }
            watcher::Event::InitDone => self.forget_unlisted(),
            watcher::Event::Apply(pod) => self.deliver(Arc::new(pod)),
            watcher::Event::Delete(pod) => {
                self.known().remove(&uid(&pod));
                if let Some(actor) = self.actors.get(&uid(&pod)) {
                    // The deletion event has the grace period.
                    let _ = actor.send(Mail::Pod(Arc::new(pod)));
                    let _ = actor.send(Mail::Gone);
                }
            }
        }
    }

    /// Removes pods that are here but not in the list: they were deleted while the watch was interrupted.
    fn forget_unlisted(&mut self) {
        self.known().retain(|uid, _| self.listed.contains(uid));
        for (uid, actor) in &self.actors {
            if !self.listed.contains(uid) {
                let _ = actor.send(Mail::Gone);
            }
        }
        for record in self.shared.layout.records() {
            if !self.listed.contains(&record.uid) && !self.actors.contains_key(&record.uid) {
                tracing::info!(pod = record.name, "cleaning up a pod that no longer exists");
                let shared = Arc::clone(&self.shared);
                self.tasks.spawn(async move {
                    let uid = record.uid.clone();
                    end_orphan(shared, record).await;
                    uid
                });
            }
        }
    }

    /// Forwards a pod to its actor; starts one if necessary.
    fn deliver(&mut self, pod: Arc<Pod>) {
        let uid = uid(&pod);
        self.known().insert(uid.clone(), Arc::clone(&pod));
        let mail = Mail::Pod(Arc::clone(&pod));
        let sent = self.actors.get(&uid).is_some_and(|actor| actor.send(mail).is_ok());
        if sent || self.pausing || !self.is_wanted(&pod) {
            return;
        }
        let (bell, mail) = unbounded_channel();
        match Actor::new(&self.shared, Arc::clone(&pod), bell.clone(), mail) {
            Ok(actor) => {
                self.actors.insert(uid.clone(), bell);
                self.tasks.spawn(async move {
                    actor.run().await;
                    uid
                });
            }
            Err(error) => {
                let message = format!("Failed to create pod sandbox: {error}");
                let reason = "FailedCreatePodSandBox";
                self.shared.events.pod(&pod, Level::Warning, reason, message);
                let (own, retry) = (self.own.clone(), self.shared.options.timing.retry);
                tokio::spawn(async move {
                    sleep(retry).await;
                    let _ = own.send(Order::Again(pod));
                });
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Pod>>> {
        self.shared.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A pod that was finished before we knew it needs an actor only when it is deleted.
    fn is_wanted(&self, pod: &Pod) -> bool {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        !is_terminal(phase)
            || pod.metadata.deletion_timestamp.is_some()
            || self.shared.layout.pod(&uid(pod)).record().exists()
    }
}

fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

/// Reloads the hosts file whenever it changes. Without a file, the table never changes.
pub(crate) async fn follow_hosts(
    path: Option<PathBuf>,
    table: watch::Sender<String>,
) -> Infallible {
    loop {
        let text = path.as_ref().map(std::fs::read_to_string);
        if let Some(Ok(text)) = text {
            table.send_if_modified(|old| {
                let changed = *old != text;
                if changed {
                    *old = text;
                }
                changed
            });
        }
        sleep(HOSTS_EVERY).await;
    }
}
