//! Which of several operators acts: the one that holds a Lease.
//!
//! The rules are in [`candidate`]; here they meet the API server and the clock. Losing the Lease ends the
//! process: whatever was going on in it stops at once, and the next life begins with nothing assumed.

pub mod candidate;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use control::liveness::Loop;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};

pub use candidate::Timing;
use candidate::{Candidate, Found, Move};

use crate::fence::Fence;
use crate::liveness::{Beats, Item};

/// How long one request may take: several fit into the time after which a leader gives up.
const REQUEST: Duration = Duration::from_secs(3);

/// Why a request about the Lease failed.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The API server refused it, or could not be reached.
    #[error("the Lease {name} cannot be {attempted}")]
    Request {
        /// Which.
        name: String,
        /// What was attempted.
        attempted: &'static str,
        /// Why not.
        #[source]
        source: Box<kube::Error>,
    },
    /// No answer in time.
    #[error("the Lease {name} cannot be {attempted}: no answer in time")]
    Expired {
        /// Which.
        name: String,
        /// What was attempted.
        attempted: &'static str,
    },
}

/// One candidate in one election.
pub struct Election {
    api: Api<Lease>,
    name: String,
    candidate: Candidate,
    fence: Fence,
    /// The moment from which the candidate's times are counted.
    start: Instant,
    acquired: Option<Timestamp>,
    /// What the holder of the Lease publishes about itself.
    annotations: BTreeMap<String, String>,
    /// An error was told and has not passed since.
    complained: bool,
    /// Records each turn for the liveness probe.
    item: Option<Item>,
}

impl std::fmt::Debug for Election {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Election").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Election {
    /// A candidate that has not stood yet. `identity` must be the name of a pod, or as unique as one.
    #[must_use]
    pub fn new(
        client: Client,
        namespace: &str,
        name: &str,
        identity: &str,
        timing: Timing,
    ) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            candidate: Candidate::new(identity, timing),
            fence: Fence::closed(),
            start: Instant::now(),
            acquired: None,
            annotations: BTreeMap::new(),
            complained: false,
            item: None,
        }
    }

    /// The same, with each turn recorded for the liveness probe.
    #[must_use]
    pub fn with_beats(self, beats: &Beats) -> Self {
        Self { item: Some(beats.begin(Loop::Lease, String::new())), ..self }
    }

    /// The same, with annotations that the Lease has for as long as this process holds it.
    #[must_use]
    pub fn with_annotations(self, annotations: BTreeMap<String, String>) -> Self {
        Self { annotations, ..self }
    }

    /// Says how long this process leads.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Returns when this process leads.
    pub async fn win(&mut self) {
        while !self.candidate.leads() {
            let pause = self.turn().await;
            if !self.candidate.leads() {
                tokio::time::sleep(pause).await;
            }
        }
    }

    /// Goes on leading; returns when that is over. The fence is closed by then.
    pub async fn keep(&mut self) {
        while self.candidate.leads() {
            tokio::time::sleep(self.candidate.timing().retry).await;
            let next = self.candidate.next(self.start.elapsed());
            if next == Move::Resign || self.act(next).await == Turn::Over {
                self.fence.close();
                return;
            }
        }
    }

    /// Gives the Lease away, so that the next one need not wait. Only after everything has stopped.
    pub async fn release(self) -> Result<(), LeaseError> {
        self.fence.close();
        let Some(mut lease) = self.get().await? else { return Ok(()) };
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(self.candidate.identity()) {
            return Ok(());
        }
        spec.holder_identity = None;
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        let params = PostParams::default();
        let replaced = self.api.replace(&self.name, &params, &lease);
        self.request("released", replaced).await.map(|_| ())
    }

    /// One look at the Lease, and one attempt to take it if it may be taken.
    async fn turn(&mut self) -> Duration {
        let next = self.candidate.next(self.start.elapsed());
        self.act(next).await;
        self.candidate.timing().retry
    }

    async fn act(&mut self, next: Move) -> Turn {
        if let Some(item) = &self.item {
            item.beat();
        }
        let next = match next {
            Move::Read => match self.get().await {
                Ok(lease) => {
                    let found = lease.as_ref().map(read);
                    self.candidate.consider(self.start.elapsed(), found)
                }
                Err(error) => {
                    self.complain(&error);
                    return Turn::Goes;
                }
            },
            other => other,
        };
        match next {
            Move::Create => self.write(None, 0).await,
            Move::Replace { version, transitions } => self.write(Some(version), transitions).await,
            Move::Resign => return Turn::Over,
            Move::Wait | Move::Read => {}
        }
        Turn::Goes
    }

    async fn write(&mut self, version: Option<String>, transitions: i32) {
        let now = Timestamp::now();
        let acquired = *self.acquired.get_or_insert(now);
        let seconds = self.candidate.timing().lease.as_secs();
        let mut lease = Lease::default();
        lease.metadata.name = Some(self.name.clone());
        lease.metadata.resource_version = version;
        lease.metadata.annotations = Some(self.annotations.clone());
        lease.spec = Some(LeaseSpec {
            acquire_time: Some(MicroTime(acquired)),
            holder_identity: Some(self.candidate.identity().to_owned()),
            lease_duration_seconds: i32::try_from(seconds).ok(),
            lease_transitions: Some(transitions),
            renew_time: Some(MicroTime(now)),
            ..Default::default()
        });
        let params = PostParams::default();
        // Before anything is sent: others may count from any moment after this.
        let sent = Instant::now();
        let result = match lease.metadata.resource_version {
            Some(_) => self.request("renewed", self.api.replace(&self.name, &params, &lease)).await,
            None => self.request("made", self.api.create(&params, &lease)).await,
        };
        match result {
            Ok(written) => {
                let version = written.metadata.resource_version.unwrap_or_default();
                self.candidate.wrote(sent.duration_since(self.start), version, transitions);
                self.fence.renew(sent, self.candidate.timing().lease);
                self.complained = false;
            }
            Err(error) => {
                self.candidate.failed();
                if !self.candidate.leads() {
                    self.acquired = None;
                }
                // Two that write at once are no trouble; the next look tells who was first.
                if !is_conflict(&error) {
                    self.complain(&error);
                }
            }
        }
    }

    async fn get(&self) -> Result<Option<Lease>, LeaseError> {
        self.request("read", self.api.get_opt(&self.name)).await
    }

    async fn request<T>(
        &self,
        attempted: &'static str,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, LeaseError> {
        let name = self.name.clone();
        match tokio::time::timeout(REQUEST, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(source)) => {
                Err(LeaseError::Request { name, attempted, source: Box::new(source) })
            }
            Err(_) => Err(LeaseError::Expired { name, attempted }),
        }
    }

    /// Once until it has passed: the next attempt is two seconds away.
    fn complain(&mut self, error: &LeaseError) {
        if !std::mem::replace(&mut self.complained, true) {
            match error {
                LeaseError::Request { source, .. } => tracing::warn!("{error}: {source}"),
                LeaseError::Expired { .. } => tracing::warn!("{error}"),
            }
        }
    }
}

/// What came of an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Goes,
    /// Another process leads, or may.
    Over,
}

fn is_conflict(error: &LeaseError) -> bool {
    let LeaseError::Request { source, .. } = error else { return false };
    matches!(&**source, kube::Error::Api(status) if status.code == 409)
}

fn read(lease: &Lease) -> Found {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Found {
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
        holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
        duration: Duration::from_secs(seconds.unwrap_or_default()),
        transitions: spec.lease_transitions.unwrap_or_default(),
    }
}
