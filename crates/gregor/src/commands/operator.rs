//! `gregor operator`: looks after the Kafka clusters of a Kubernetes cluster.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use control::life::coexist::Selector;
use operator::context::{OPERATION_TIMEOUT, Settings};
use operator::crash::CrashSwitch;
use operator::install;
use operator::lease::Timing;
use operator::runtime::{self, ElectionOptions, Ended, Options};
use operator::strimzi;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::log::{Format, Traces};

pub(crate) const HELP: &str = "\
Runs in the Deployment that `gregor install` prints, with the pod's service account. Outside of a pod it uses the
kubeconfig, as kubectl does.

Exit codes:
  0  stopped on request, after finishing in-flight work
  1  error, or another replica holds the lease: restart it";

/// No JVM starts faster: a lower value is most likely a mistake, and would restart pods during their start.
pub(crate) const TIMEOUT_MIN_MS: u64 = 1_000;
/// A day. A pod that is not ready by then will not be.
pub(crate) const TIMEOUT_MAX_MS: u64 = 86_400_000;

fn timeout_ms() -> u64 {
    u64::try_from(OPERATION_TIMEOUT.as_millis()).unwrap_or(u64::MAX)
}

/// Options of the operator.
#[derive(Debug, Args)]
pub(crate) struct Operator {
    /// Namespaces to watch, separated by commas [default: all]
    #[arg(
        long,
        value_name = "NAMESPACE",
        env = "GREGOR_NAMESPACES",
        value_delimiter = ',',
        hide_env_values = true
    )]
    namespaces: Vec<String>,
    /// Image of a Kafka node for a Kafka version; may be repeated, or separated by spaces
    #[arg(
        long = "kafka-image",
        value_name = "VERSION=IMAGE",
        env = "GREGOR_KAFKA_IMAGES",
        value_delimiter = ' ',
        hide_env_values = true
    )]
    kafka_images: Vec<String>,
    /// Interval of reconciliation passes when nothing happens
    #[arg(long, value_name = "SECONDS", env = "GREGOR_INTERVAL", default_value_t = 120)]
    interval: u64,
    /// Time limit for a pod to become ready, also in a rolling restart
    #[arg(
        long,
        value_name = "MILLISECONDS",
        env = install::TIMEOUT_VARIABLE,
        default_value_t = timeout_ms(),
        value_parser = clap::value_parser!(u64).range(TIMEOUT_MIN_MS..=TIMEOUT_MAX_MS)
    )]
    operation_timeout_ms: u64,
    /// Honor `watchedNamespace` in `spec.entityOperator`: manage KafkaTopics and KafkaUsers in other
    /// namespaces
    #[arg(
        long,
        value_name = "BOOL",
        env = "STRIMZI_ENTITY_OPERATOR_WATCHED_NAMESPACE_ENABLED",
        default_value_t = false,
        action = clap::ArgAction::Set
    )]
    watched_namespace_enabled: bool,
    /// Labels that a Kafka resource must have to be managed, such as team=a,stage=test [default: none]
    #[arg(
        long,
        value_name = "LABELS",
        env = strimzi::SELECTOR_VARIABLE,
        default_value = "",
        hide_default_value = true
    )]
    custom_resource_selector: Selector,
    /// DNS domain of the Kubernetes cluster
    #[arg(
        long,
        value_name = "DOMAIN",
        env = "GREGOR_CLUSTER_DOMAIN",
        default_value = "cluster.local"
    )]
    cluster_domain: String,
    /// Address of the health and metrics endpoint
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "GREGOR_HTTP_HOST",
        default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    )]
    http_host: IpAddr,
    /// Port of the health and metrics endpoint; 0 disables it
    #[arg(long, value_name = "PORT", env = "GREGOR_HTTP_PORT", default_value_t = 8080)]
    http_port: u16,
    /// Unique name of this process, such as that of its pod [default: this machine and process]
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    identity: Option<String>,
    /// Namespace of the leader election Lease
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE", default_value = "default")]
    lease_namespace: String,
    /// Name of the leader election Lease
    #[arg(long, value_name = "NAME", env = "GREGOR_LEASE", default_value = install::NAME)]
    lease: String,
    /// Disable leader election; only if no second operator can exist
    #[arg(long, env = "GREGOR_NO_ELECTION")]
    no_election: bool,
    /// Format of log lines
    #[arg(
        long,
        value_name = "FORMAT",
        env = "GREGOR_LOG_FORMAT",
        value_enum,
        default_value = "text"
    )]
    log_format: Format,
    /// Address of an OpenTelemetry collector for traces (OTLP over HTTP), such as http://collector:4318
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    otlp_endpoint: Option<String>,
    /// Increase verbosity; may be repeated. GREGOR_LOG sets a filter instead
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Exit after every write, for tests
    #[arg(long, env = "GREGOR_ONE_ACT_PER_LIFE", hide = true)]
    one_act_per_life: bool,
    /// Pause before the write that this file names, for tests
    #[arg(long, value_name = "FILE", env = "GREGOR_PAUSE_BEFORE", hide = true)]
    pause_before: Option<PathBuf>,
}

impl Operator {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .context("cannot start the runtime")?;
        let traces = self.traces(&runtime)?;
        init_log(self.verbose, self.log_format, traces.clone());
        let options = self.options()?;
        let ended = runtime.block_on(async {
            let ended = live(options).await;
            if let Some(traces) = &traces {
                traces.flush().await;
            }
            ended
        });
        match ended? {
            Ended::Stopped => Ok(()),
            // Nothing that is still going on may go on.
            Ended::LeadershipLost => process::exit(1),
        }
    }

    /// Where traces go.
    fn traces(&self, runtime: &Runtime) -> anyhow::Result<Option<Traces>> {
        let Some(endpoint) = self.otlp_endpoint.as_deref().filter(|url| !url.is_empty()) else {
            return Ok(None);
        };
        let identity = self.identity.clone().unwrap_or_else(own_name);
        let traces = Traces::start(runtime.handle(), endpoint, &identity);
        Ok(Some(traces.context("cannot send traces")?))
    }

    fn options(self) -> anyhow::Result<Options> {
        let identity = self.identity.filter(|name| !name.is_empty()).unwrap_or_else(own_name);
        let images = self.kafka_images.iter().filter(|text| !text.trim().is_empty());
        let images: Vec<KafkaImage> =
            images.map(|text| text.trim().parse()).collect::<Result<_, _>>()?;
        let election = ElectionOptions {
            namespace: self.lease_namespace,
            lease: self.lease,
            timing: Timing::default(),
        };
        let namespaces = self.namespaces.into_iter().map(|name| name.trim().to_owned());
        Ok(Options {
            settings: Settings {
                namespaces: namespaces.filter(|name| !name.is_empty()).collect(),
                kafka_images: KafkaImage::map(images),
                cluster_domain: self.cluster_domain,
                interval: Duration::from_secs(self.interval.max(1)),
                operation_timeout: Duration::from_millis(self.operation_timeout_ms),
                watches_other_namespaces: self.watched_namespace_enabled,
                selector: self.custom_resource_selector,
            },
            identity,
            election: (!self.no_election).then_some(election),
            http: (self.http_port > 0).then_some(SocketAddr::new(self.http_host, self.http_port)),
            crash: match (self.one_act_per_life, self.pause_before) {
                (true, _) => CrashSwitch::OneActPerLife,
                // For as long as the process lives.
                (false, Some(file)) => CrashSwitch::PauseBefore(Box::leak(file.into_boxed_path())),
                (false, None) => CrashSwitch::Off,
            },
        })
    }
}

async fn live(options: Options) -> anyhow::Result<Ended> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let shutdown = async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        tracing::info!("shutting down: finishing requests in progress");
    };
    // A pod of local mode sees the user's files: a kubeconfig there is not the operator's own.
    let of_pod = match std::env::var_os("KUBECONFIG") {
        Some(_) => None,
        None => kube::Config::incluster().ok(),
    };
    let config = match of_pod {
        Some(config) => config,
        None => kube::Config::infer().await.context("cannot find a Kubernetes cluster")?,
    };
    Ok(runtime::run(config, options, shutdown).await?)
}

/// A unique name where there is no pod.
fn own_name() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}-{}", process::id())
}

/// An image of a Kafka node, as on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KafkaImage {
    /// Its Kafka version.
    pub(crate) version: String,
    /// Its name.
    pub(crate) image: String,
}

impl KafkaImage {
    /// Images by version; the last one for a version counts.
    pub(crate) fn map(images: Vec<Self>) -> BTreeMap<String, String> {
        images.into_iter().map(|image| (image.version, image.image)).collect()
    }
}

impl FromStr for KafkaImage {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (version, image) = text
            .split_once('=')
            .filter(|(version, image)| !version.is_empty() && !image.is_empty())
            .with_context(|| format!("{text:?} is not VERSION=IMAGE"))?;
        Ok(Self { version: version.to_owned(), image: image.to_owned() })
    }
}

/// The client logs every failed request, including retried ones, which the operator logs itself where it
/// matters.
fn init_log(verbose: u8, format: Format, traces: Option<Traces>) {
    use tracing_subscriber::EnvFilter;
    let default = match verbose {
        0 => "info,kube_client=error,kube_runtime=error,tower=error",
        1 => "info,operator=debug,gregor=debug,kafka_admin=debug",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_env("GREGOR_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    crate::log::to_stdout_as(format, filter, traces);
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        operator: Operator,
    }

    fn options(words: &[&str]) -> anyhow::Result<Options> {
        let words = ["gregor"].iter().chain(words);
        Cli::try_parse_from(words).unwrap().operator.options()
    }

    #[test]
    fn options_are_read_as_they_are_written() {
        let options = options(&[
            "--namespaces=a, b,",
            "--kafka-image=4.3.1=x/y:1 4.1.2=z",
            "--identity=me",
            "--http-host=::1",
            "--no-election",
            "--operation-timeout-ms=600000",
            "--watched-namespace-enabled=true",
            "--custom-resource-selector=team=a, stage=test",
        ])
        .unwrap();
        assert_eq!(options.settings.operation_timeout, Duration::from_secs(600));
        assert!(options.settings.watches_other_namespaces);
        assert_eq!(options.settings.namespaces, ["a", "b"]);
        assert_eq!(options.settings.selector.to_string(), "stage=test,team=a");
        let images: Vec<_> = options.settings.kafka_images.into_iter().collect();
        assert_eq!(images, [("4.1.2".into(), "z".into()), ("4.3.1".into(), "x/y:1".into())]);
        assert_eq!(options.identity, "me");
        assert_eq!(options.http.unwrap().to_string(), "[::1]:8080");
        assert!(options.election.is_none());
        assert_eq!(options.crash, CrashSwitch::Off);
    }

    #[test]
    fn without_options_it_works_everywhere_and_under_a_name_of_its_own() {
        let options = options(&["--identity="]).unwrap();
        assert_eq!(options.settings.namespaces, Vec::<String>::new());
        assert!(options.identity.ends_with(&process::id().to_string()), "{}", options.identity);
        assert_eq!(options.election.unwrap().lease, "gregor-operator");
        assert_eq!(options.settings.interval, Duration::from_secs(120));
        assert_eq!(options.settings.operation_timeout, Duration::from_secs(300));
        assert!(!options.settings.watches_other_namespaces);
        assert!(options.settings.selector.is_empty());
    }

    #[test]
    fn a_time_in_which_no_pod_becomes_ready_is_a_mistake() {
        let parse = |text: &str| {
            Cli::try_parse_from(["gregor", &format!("--operation-timeout-ms={text}")]).is_ok()
        };
        assert_eq!(
            ["300000", "1000", "999", "0", "-1", "5m"].map(parse),
            [true, true, false, false, false, false]
        );
    }

    #[test]
    fn an_image_without_a_version_is_a_mistake() {
        assert!(options(&["--kafka-image=x"]).is_err());
    }
}
