//! `gregor fleet demo`: a small fleet on this machine that grows and shrinks, from the first data plane to
//! the last turn.
//!
//! Everything is real: a fleet manager with its API and its store, data planes that are Kubernetes control
//! planes with kubelets, the agent and the operator in them, and a Kafka process for each Kafka.

mod story;
mod tenants;
mod view;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use fleet::client::Client;
use fleet::config::{
    AgentNodes, CloudProvider, Config, InstanceType, LocalAccess, Realm, Region, Size,
};
use fleet::provider::{Provider, Providers};
use fleet::tokens::Issuer;
use tokio::net::TcpListener;

use crate::machine::planes::{self, Local, Programs};
use crate::output::{Format, Out, note};
use crate::progress;
use story::{NODES_MAX, NODES_MIN, Story};
use view::Fleet;

pub(crate) const EXAMPLES: &str = "\
One region, data planes of three or four nodes, and capacity for one Kafka per node. The demonstration creates
Kafkas until a node is added, and until the data plane is full and another one is created; then it deletes them
until a node and the empty data plane are removed. Each line shows a decision and its reason.

Needs about 4 GB of memory. It stops by itself, with exit code 0 if every step was observed, or on Ctrl-C. Nothing
is left behind.

Examples:
  gregor fleet demo
  gregor fleet demo --keep                 keep running at the end, and try the printed commands
  GREGOR_LOG=info gregor fleet demo        also print what the manager logs";

/// Validity of the demonstration's tokens.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Time limit of requests.
const DEADLINE: Duration = Duration::from_secs(15);

/// Options of the demonstration.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// State directory while it runs [default: gregor/fleet-demo in the user's state directory]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Seconds between reports of agents when nothing changes
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    report_seconds: u64,
    /// Milliseconds between passes of the manager
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 500)]
    round_ms: u64,
    /// Seconds after a scale-up in which no node is removed
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    cool_down_seconds: u64,
    /// Time limit of each step in seconds; increase it on a slow machine
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    patience_seconds: u64,
    /// Keep running at the end until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Stop at end of file on stdin, for tests
    #[arg(long, hide = true)]
    end_with_stdin: bool,
}

impl Demo {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        super::log("error,gregor=warn,kube_client=off,kube_runtime=off");
        let dir = self.dir()?;
        let progress = progress::for_stderr();
        let programs = Programs::prepare(&*progress)?;
        progress.finish();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.context("cannot start")?.block_on(self.live(&dir, programs))
    }

    fn dir(&self) -> anyhow::Result<PathBuf> {
        if let Some(dir) = &self.state {
            return std::path::absolute(dir).with_context(|| format!("cannot find {dir:?}"));
        }
        let user = directories::ProjectDirs::from("", "", "gregor")
            .context("this user has no home directory: name a directory with --state")?;
        let base = user.state_dir().unwrap_or_else(|| user.data_local_dir());
        Ok(base.join("fleet-demo"))
    }

    async fn live(self, dir: &Path, programs: Programs) -> anyhow::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
        let url = format!("http://{}", listener.local_addr()?);
        let mut config = self.config(dir, &url);
        let access = config.local.clone().context("the provider is missing")?;
        let local = Arc::new(Local::open(&access, programs, &mut config)?);
        // One that was killed has left its data planes, and its store would not know them.
        local.clear().await;
        forget(dir)?;
        let issuer = Issuer::open(&dir.join("key.der"), &realm())?;
        let fleet = Fleet::new(&url, &issuer, dir)?;
        let provider = Arc::clone(&local) as Arc<dyn Provider>;
        let providers = Providers::from([(planes::NAME.to_owned(), provider)]);
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let database = format!("sqlite:{}", dir.join("fleet.db").display());
        let served = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            fleet::service::run(config, &database, listener, providers, stopped).await
        });
        let mut out = Out::new(Format::Table);
        out.text(&format!("the fleet manager listens on {url}\n\n"))?;
        let patience = Duration::from_secs(self.patience_seconds);
        let told = tokio::select! {
            told = async { Story::new(fleet, &mut out, patience).tell().await } => told,
            () = self.interrupted() => Err(anyhow::anyhow!("interrupted before the end")),
        };
        if told.is_ok() && self.keep {
            note(&format!("everything keeps running in {}; Ctrl-C stops it", dir.display()));
            self.interrupted().await;
        }
        note("stopping all processes");
        drop(stop);
        let _ = served.await;
        local.clear().await;
        local.stop().await;
        forget(dir)?;
        told
    }

    async fn interrupted(&self) {
        let stdin_ends = async {
            if !self.end_with_stdin {
                return std::future::pending().await;
            }
            let (tell, ended) = tokio::sync::oneshot::channel();
            // Nothing waits for this thread: it may never come to its end.
            std::thread::spawn(move || {
                let _ = std::io::read_to_string(std::io::stdin());
                let _ = tell.send(());
            });
            let _ = ended.await;
        };
        tokio::select! {
            () = super::told_to_stop() => {}
            () = stdin_ends => {}
        }
    }

    /// A fleet with minimal sizes: one Kafka per node.
    fn config(&self, dir: &Path, url: &str) -> Config {
        let size = Size {
            id: "x1".to_owned(),
            multi_az: false,
            brokers: 1,
            connections: story::ROOM,
            partitions: story::ROOM,
            throughput: "1Mi".to_owned(),
            retention: "1Gi".to_owned(),
            // More than half of what a node offers.
            memory: "640Mi".to_owned(),
            cpu_milli: 300,
        };
        let region = Region {
            id: "here".to_owned(),
            display_name: "This machine".to_owned(),
            provider: planes::NAME.to_owned(),
            multi_az: false,
            nodes: NODES_MIN,
            planes_max: 2,
        };
        let mut config = Config {
            cloud_providers: vec![CloudProvider {
                id: "local".to_owned(),
                display_name: String::new(),
                regions: vec![region],
            }],
            instance_types: vec![InstanceType {
                id: "developer".to_owned(),
                display_name: String::new(),
                sizes: vec![size.clone()],
            }],
            model_t: size.clone(),
            agent: AgentNodes {
                nodes_min: NODES_MIN,
                nodes_max: NODES_MAX,
                node_delta: 1,
                connections: size.connections,
                partitions: size.partitions,
                throughput: size.throughput,
                retention: size.retention,
            },
            public_url: url.to_owned(),
            local: Some(LocalAccess {
                dir: dir.to_owned(),
                node_capacity: "cpu=1,memory=1Gi".to_owned(),
                report_seconds: self.report_seconds,
            }),
            ..Config::default()
        };
        config.times.round_ms = self.round_ms.clamp(50, 10_000);
        config.times.cool_down_ms = self.cool_down_seconds.saturating_mul(1000);
        (config.auth.agent, config.auth.public) = (realm(), realm());
        config.auth.admin = realm();
        config
    }
}

fn realm() -> Realm {
    Realm {
        issuer: "gregor-fleet-demo".to_owned(),
        audience: "gregor-fleet".to_owned(),
        ..Realm::default()
    }
}

/// Deletes the manager's database; its data planes are gone.
fn forget(dir: &Path) -> anyhow::Result<()> {
    for name in ["fleet.db", "fleet.db-wal", "fleet.db-shm"] {
        match std::fs::remove_file(dir.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {name}"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A client for the manager.
fn client() -> anyhow::Result<Client> {
    Ok(Client::new(DEADLINE)?)
}
