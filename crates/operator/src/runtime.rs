//! The frame in which the operator runs: health, election, controllers, an orderly end.
//!
//! 1. Nothing is watched and nothing written before this process leads.
//! 2. One that is asked to stop begins no new pass, finishes the step in hand and then gives the Lease away,
//!    in this order: the next leader begins when nothing of this one can still happen.
//! 3. One that has lost the Lease ends at once, whatever is in hand.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use control::annotations::Annotation;
use control::cluster::record::FormatVersion;
use control::liveness::Loop;
use futures::FutureExt as _;
use tokio::sync::watch;

use crate::context::{Context, Settings};
use crate::crash::CrashSwitch;
use crate::fence::Fence;
use crate::lag::{self, Pictures};
use crate::lease::{Election, Timing};
use crate::liveness::Beats;
use crate::metrics::Metrics;
use crate::write::Writer;
use crate::{client, cluster, http, pod_set, rebalance, topics, users, words};

/// How the operator is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// How clusters are treated.
    pub settings: Settings,
    /// The name of this process in the election and in Events: that of its pod.
    pub identity: String,
    /// The election; `None` if this process is alone by construction.
    pub election: Option<ElectionOptions>,
    /// Where to answer probes and tell the numbers; `None` for nowhere.
    pub http: Option<SocketAddr>,
    /// For tests: whether the process ends itself after each act.
    pub crash: CrashSwitch,
}

/// The Lease that is held.
#[derive(Debug, Clone)]
pub struct ElectionOptions {
    /// Where it is.
    pub namespace: String,
    /// What it is called.
    pub lease: String,
    /// How long things take.
    pub timing: Timing,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to.
    Stopped,
    /// Another process leads, or may. Tasks may still be running: the process must end at once.
    LeadershipLost,
}

/// Why the operator did not start, or did not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no client of the API server.
    #[error("cannot create a Kubernetes client")]
    Client(#[source] Box<kube::Error>),
    /// The address for probes cannot be had.
    #[error("cannot listen on {address}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A controller broke one of its own rules.
    #[error("a controller has failed")]
    Panicked(#[source] tokio::task::JoinError),
}

/// Runs the operator until `shutdown` resolves or leadership is lost.
pub async fn run(
    config: kube::Config,
    options: Options,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<Ended, RunError> {
    let metrics = Metrics::new();
    let (beats, pictures) = (Beats::default(), Pictures::default());
    let client =
        client::counted(config, &metrics).map_err(|error| RunError::Client(error.into()))?;
    let (end, ended) = watch::channel(false);
    if let Some(address) = options.http {
        let listener =
            http::listen(address).await.map_err(|source| RunError::Listen { address, source })?;
        tracing::info!("probes and metrics on {address}");
        let answers = http::Answers {
            metrics: metrics.clone(),
            beats: beats.clone(),
            pictures: pictures.clone(),
        };
        tokio::spawn(http::serve(listener, answers, told(ended)));
    }
    let shutdown = shutdown.shared();
    let mut election = options.election.as_ref().map(|election| {
        let (namespace, lease) = (&election.namespace, &election.lease);
        Election::new(client.clone(), namespace, lease, &options.identity, election.timing)
            .with_beats(&beats)
            .with_annotations(published(&options.settings))
    });
    if let Some(election) = &mut election {
        tracing::info!("waiting for the Lease as {}", options.identity);
        tokio::select! {
            () = election.win() => {}
            () = shutdown.clone() => return Ok(Ended::Stopped),
        }
    }
    metrics.set_leader(true);
    tracing::info!("{} leads", options.identity);
    let fence = election.as_ref().map_or_else(Fence::open, Election::fence);
    let writer = Writer::new(client, fence, options.crash, metrics.clone());
    let context = Context::new(writer, options.settings, &options.identity);
    let context = Arc::new(context.with_beats(beats.clone()).with_pictures(pictures));
    // A task of its own: however long it computes, the Lease is renewed. If it hangs, the liveness probe fails.
    let work = tokio::spawn(async move {
        beats.watch_loop(Loop::Controllers, controllers(context, shutdown)).await;
    });
    let outcome = tokio::select! {
        result = work => result.map(|()| Ended::Stopped).map_err(RunError::Panicked)?,
        () = keep(&mut election) => Ended::LeadershipLost,
    };
    metrics.set_leader(false);
    match (outcome, election) {
        (Ended::Stopped, Some(election)) => {
            if let Err(error) = election.release().await {
                // The next one waits until it runs out.
                tracing::warn!("{}", words::chain(&error));
            }
        }
        (Ended::Stopped, None) => {}
        (Ended::LeadershipLost, _) => tracing::error!("the Lease is lost"),
    }
    let _ = end.send(true);
    Ok(outcome)
}

/// All controllers, until they are told to stop and have finished what is in hand.
async fn controllers(
    context: Arc<Context>,
    shutdown: impl Future<Output = ()> + Clone + Send + Unpin + 'static,
) {
    let clusters = cluster::run(context.clone(), shutdown.clone());
    let rebalances = rebalance::request::run(context.clone(), shutdown.clone());
    let topics = topics::run(context.clone(), shutdown.clone());
    let lag = lag::run(context.clone(), shutdown.clone());
    let users = users::run(context.clone(), shutdown.clone());
    tokio::join!(clusters, rebalances, topics, users, lag, pod_set::run(context, shutdown));
}

/// What clients read about the operator: [`control::life::skew`] compares it with theirs.
fn published(settings: &Settings) -> BTreeMap<String, String> {
    let kafka: Vec<_> = settings.kafka_images.keys().map(String::as_str).collect();
    let all = [
        (Annotation::Version, env!("CARGO_PKG_VERSION").to_owned()),
        (Annotation::RecordFormat, FormatVersion::CURRENT.to_string()),
        (Annotation::KafkaVersions, kafka.join(",")),
    ];
    all.map(|(annotation, value)| (annotation.name().to_owned(), value)).into()
}

async fn keep(election: &mut Option<Election>) {
    match election {
        Some(election) => election.keep().await,
        None => std::future::pending().await,
    }
}

async fn told(mut word: watch::Receiver<bool>) {
    // One that will never speak has gone, and everything with it.
    let _ = word.wait_for(|said| *said).await;
}
