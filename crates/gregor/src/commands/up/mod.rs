//! `gregor up`: a Kubernetes on this machine.
//!
//! All that can be found wrong before anything is started is: files that do not parse, programs that
//! are missing, a state directory that is in use.

mod console;
mod detach;
mod kafka;
mod nodes;
mod session;
pub(crate) mod words;

use std::io::IsTerminal as _;
use std::path::PathBuf;

use anyhow::Context as _;
use artifacts::kubernetes::{self, Binaries};
use artifacts::{Environment, KafkaVersion};
use clap::Args;
use local::manifests::{self, Manifest};

use super::state::StateArgs;
use crate::machine::{Image, Operator};
use crate::progress;

pub(crate) const EXAMPLES: &str = "\
Examples:
  gregor up                        start, and stop with Ctrl-C
  gregor up -f examples/kafka-ephemeral.yaml
                                   start, create that Kafka cluster, and print its bootstrap addresses
  gregor up --no-operator          only Kubernetes
  gregor up --image app=/opt/app   local program for the image app
  gregor up --detach               start in the background; gregor down stops it
  gregor up --state /tmp/second    a second one, beside the first
  JDK_JAVA_OPTIONS=-XX:TieredStopAtLevel=1 gregor up
                                   Java options for all nodes: these start with less CPU, and run slower";

/// Options of `gregor up`.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Apply the manifests in this file or directory; may be repeated
    #[arg(short, long = "file", value_name = "FILE|DIR")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    state: StateArgs,
    /// Number of nodes, each in its own zone
    #[arg(long, value_name = "N", default_value_t = 1)]
    nodes: u32,
    /// Local program for an image; may be repeated. A container with its own command runs that instead
    #[arg(long = "image", value_name = "NAME=PROGRAM")]
    images: Vec<Image>,
    /// Do not install the operator
    #[arg(long, env = "GREGOR_NO_OPERATOR")]
    no_operator: bool,
    /// Additional Kafka version, besides the default one and those in the files; may be repeated
    #[arg(long = "kafka-version", value_name = "VERSION")]
    kafka_versions: Vec<KafkaVersion>,
    /// Return when everything is ready, and keep running in the background
    #[arg(long)]
    detach: bool,
    /// Do not open the console in a browser; its address is printed
    #[arg(long)]
    no_open: bool,
    /// Run as the background process
    #[arg(long, hide = true, conflicts_with_all = ["detach", "files"])]
    supervise: bool,
}

/// The validated options.
struct Plan {
    state_dir: PathBuf,
    binaries: Binaries,
    nodes: u32,
    images: Vec<Image>,
    manifests: Vec<Manifest>,
    operator: Option<Operator>,
    /// Whether the browser is opened at the console.
    opens: bool,
}

impl Up {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        nodes::check(self.nodes)?;
        let manifests = manifests::read(&self.files)?;
        let state_dir = self.state.path()?;
        let progress = progress::for_stderr();
        let binaries = kubernetes::ensure(&Environment::from_process(), None, &*progress)?;
        // Without a node there is nothing that it could run on.
        let operator = (!self.no_operator && self.nodes > 0)
            .then(|| Operator::prepare(&self.kafka_versions, &manifests, &*progress))
            .transpose()?;
        progress.finish();
        let (nodes, images) = (self.nodes, self.images);
        // Not for scripts: a person looks at a terminal.
        let opens = !self.no_open && std::io::stdout().is_terminal();
        let plan = Plan { state_dir, binaries, nodes, images, manifests, operator, opens };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            // The components do the work; this only waits for them.
            .worker_threads(2)
            .enable_all()
            .build()
            .context("cannot start the runtime")?;
        runtime.block_on(async {
            match (self.detach, self.supervise) {
                (true, _) => detach::run(plan).await,
                (false, true) => session::supervise(plan).await,
                (false, false) => session::foreground(plan).await,
            }
        })
    }
}
