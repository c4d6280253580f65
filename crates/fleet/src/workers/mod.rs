//! What is done about what is stored, by one replica at a time for each kind of work.
//!
//! 1. What is to be done is stored first; then it is done; then that is stored. A crash between any two only
//!    repeats something that can be repeated.
//! 2. A worker writes only while it holds the right to ([`Tx::fence`]), and asks a provider only if that right
//!    outlasts the answer.
//! 3. One that fails goes on with the next; retrying in the next round.

mod kafkas;
mod nodes;
mod planes;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::config::Config;
use crate::identity::{Identity, IdentityError};
use crate::metrics::Counters;
use crate::provider::{PlaneRef, ProviderError, Providers};
use crate::store::{Lease, Plane, Store, StoreError, Tx, new_id};

/// Why a piece of work was not done.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The provider.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The identity provider.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Nobody provides such data planes.
    #[error("there is no provider named \"{0}\"")]
    NoProvider(String),
    /// The answer took too long. Whether it was done is not known; it is asked for again.
    #[error("the provider timed out")]
    TimedOut,
    /// Another replica does it now.
    #[error("another replica has taken over")]
    LeaseLost,
}

/// The kinds of work, which replicas may share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Planes,
    Nodes,
    Kafkas,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Planes => "planes",
            Kind::Nodes => "nodes",
            Kind::Kafkas => "kafkas",
        }
    }
}

/// What workers need.
#[derive(Debug, Clone)]
pub struct Workers {
    store: Store,
    config: Arc<Config>,
    providers: Arc<Providers>,
    identity: Arc<dyn Identity>,
    wake: Arc<Notify>,
    holder: String,
    counters: Counters,
}

impl Workers {
    /// Workers of a replica.
    #[must_use]
    pub fn new(
        store: Store,
        config: Arc<Config>,
        providers: Providers,
        identity: Arc<dyn Identity>,
        wake: Arc<Notify>,
    ) -> Self {
        let providers = Arc::new(providers);
        let counters = Counters::default();
        Self { store, config, providers, identity, wake, holder: new_id(), counters }
    }

    /// Counts with these.
    #[must_use]
    pub fn counting(mut self, counters: Counters) -> Self {
        self.counters = counters;
        self
    }

    /// Works until told to stop, and then gives its rights back.
    pub async fn run(self, stop: watch::Receiver<bool>) {
        let mut tasks = JoinSet::new();
        for kind in [Kind::Planes, Kind::Nodes, Kind::Kafkas] {
            tasks.spawn(self.clone().rounds(kind, stop.clone()));
        }
        tasks.join_all().await;
    }

    async fn rounds(self, kind: Kind, mut stop: watch::Receiver<bool>) {
        let round = Duration::from_millis(self.config.times.round_ms);
        loop {
            let woken = self.wake.notified();
            if let Err(error) = self.round(kind).await {
                tracing::warn!(kind = kind.name(), error = %crate::chain(&error), "a round failed");
            }
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                // Many changes at once are one reason to look.
                () = async { woken.await; tokio::time::sleep(round.min(Duration::from_millis(20))).await } => {}
                () = tokio::time::sleep(round) => {}
            }
        }
        if let Err(error) = self.store.give_lease_back(kind.name(), &self.holder).await {
            tracing::warn!(error = %crate::chain(&error), "a lease was not released");
        }
    }

    async fn round(&self, kind: Kind) -> Result<(), WorkError> {
        let Some(work) = self.take(kind).await? else { return Ok(()) };
        match kind {
            Kind::Planes => self.reconcile_planes(work).await,
            Kind::Nodes => self.reconcile_nodes(work).await,
            Kind::Kafkas => self.reconcile_kafkas(work).await,
        }
    }

    async fn take(&self, kind: Kind) -> Result<Option<Work<'_>>, WorkError> {
        let length = Duration::from_millis(self.config.times.lease_ms);
        let lease = self.store.take_lease(kind.name(), &self.holder, length).await?;
        Ok(lease.map(|lease| Work { workers: self, kind, lease }))
    }

    async fn dry_run(&self) -> Result<bool, WorkError> {
        Ok(self.store.setting("dry_run").await?.as_deref() == Some("true"))
    }
}

/// The right to do one kind of work, with what it needs.
#[derive(Debug)]
struct Work<'a> {
    workers: &'a Workers,
    kind: Kind,
    lease: Lease,
}

impl Work<'_> {
    /// A transaction in which the right is ours.
    async fn begin(&self) -> Result<Tx, WorkError> {
        let mut tx = self.workers.store.begin().await?;
        let ours = tx.fence(self.kind.name(), &self.workers.holder, self.lease.term).await?;
        if ours { Ok(tx) } else { Err(WorkError::LeaseLost) }
    }

    /// Asks somebody outside, if the right outlasts the answer; it is renewed if need be.
    async fn ask<T, E>(
        &mut self,
        question: impl Future<Output = Result<T, E>>,
    ) -> Result<T, WorkError>
    where
        WorkError: From<E>,
    {
        let deadline = Duration::from_millis(self.workers.config.times.provider_ms);
        if self.lease.left() <= deadline {
            let renewed = self.workers.take(self.kind).await?;
            let renewed = renewed.filter(|renewed| renewed.lease.term == self.lease.term);
            self.lease = renewed.ok_or(WorkError::LeaseLost)?.lease;
        }
        let answer = tokio::time::timeout(deadline, question).await;
        let outcome = match &answer {
            Ok(Ok(_)) => "done",
            Ok(Err(_)) => "failed",
            Err(_) => "timed-out",
        };
        self.workers.counters.provider_call(self.kind.name(), outcome);
        match answer {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(WorkError::TimedOut),
        }
    }
}

fn plane_ref(plane: &Plane) -> PlaneRef {
    PlaneRef {
        id: plane.id.clone(),
        provider_id: plane.provider_id.clone(),
        cloud_provider: plane.cloud_provider.clone(),
        region: plane.region.clone(),
        multi_az: plane.multi_az,
        nodes: plane.nodes_wanted.and_then(|nodes| u32::try_from(nodes).ok()).unwrap_or(3),
    }
}
