//! `gregor install`: everything that has to be in a Kubernetes cluster, for `kubectl apply -f -`.

mod diff;

use std::collections::BTreeMap;
use std::path::PathBuf;

use artifacts::KafkaVersion;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use control::life::coexist::Selector;
use operator::install::{self, Installation};

use super::crds;
use super::operator::{KafkaImage, TIMEOUT_MAX_MS, TIMEOUT_MIN_MS};
use super::reach::Reach;
use crate::machine::images::{kafka_image, operator_image};
use crate::output::{Format, Out};

pub(crate) const EXAMPLES: &str = "\
Examples:
  gregor install | kubectl apply --server-side -f -
  gregor install --image registry.example.org/gregor-operator:0.1.0 \\
      --kafka-image 4.3.1=registry.example.org/gregor-kafka:0.1.0-kafka-4.3.1
  gregor install --image-registry registry.example.org/kafka
  gregor install --watch-namespaces team-a,team-b --replicas 2
  gregor install --console
  gregor install --diff

To upgrade, apply the output of the newer gregor: it contains the CustomResourceDefinitions, which Helm never upgrades.

Exit codes:
  0  success; with --diff, nothing would change
  1  error, see stderr
  5  with --diff, objects would be created or changed

The images are built from deploy/docker.";

/// Options of the installation.
#[derive(Debug, Args)]
pub(crate) struct Install {
    /// Namespace of the operator
    #[arg(long, short, value_name = "NAMESPACE", default_value = install::NAMESPACE)]
    namespace: String,
    /// Image of the operator [default: gregor-operator in this version]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Image of a Kafka node for a Kafka version; may be repeated [default: gregor-kafka in this version, for
    /// every tested Kafka version]
    #[arg(long = "kafka-image", value_name = "VERSION=IMAGE")]
    kafka_images: Vec<KafkaImage>,
    /// Registry of all images, and path in it; precedes their names
    #[arg(long, value_name = "REGISTRY", value_parser = NonEmptyStringValueParser::new())]
    image_registry: Option<String>,
    /// Namespaces to watch, separated by commas; they must exist [default: all]
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',')]
    watch_namespaces: Vec<String>,
    /// Number of operator replicas: one is the leader, the others stand by
    #[arg(long, value_name = "N", default_value_t = 1)]
    replicas: u32,
    /// Labels that a Kafka resource must have to be managed, such as team=a,stage=test [default: none]
    #[arg(long, value_name = "LABELS", default_value = "", hide_default_value = true)]
    selector: Selector,
    /// Time limit for a pod to become ready [default: that of gregor operator]
    #[arg(
        long,
        value_name = "MILLISECONDS",
        value_parser = clap::value_parser!(u64).range(TIMEOUT_MIN_MS..=TIMEOUT_MAX_MS)
    )]
    operation_timeout_ms: Option<u64>,
    /// Install the console as well; users log in to it with a bearer token
    #[arg(long)]
    console: bool,
    /// Show what applying the manifests would change, without changing it
    #[arg(long)]
    diff: bool,
    /// Kubeconfig for --diff [default: as for kubectl]
    #[arg(long, value_name = "FILE", requires = "diff")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig for --diff [default: the current one]
    #[arg(long, value_name = "NAME", requires = "diff")]
    context: Option<String>,
    /// Output format
    #[arg(long, short = 'o', value_enum, default_value = "yaml")]
    output: Syntax,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Syntax {
    /// One YAML document per object
    Yaml,
    /// One list
    Json,
}

impl Install {
    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        let output = self.output;
        if self.diff {
            let reach = Reach::new(None, self.kubeconfig.take(), self.context.take());
            return diff::run(&reach, &install::manifest(&self.installation()), output);
        }
        let objects = install::manifest(&self.installation());
        let text = match output {
            Syntax::Yaml => crds::yaml(&objects)?,
            Syntax::Json => crds::json(objects)?,
        };
        Out::new(Format::Table).text(&text)
    }

    fn installation(self) -> Installation {
        let kafka_images = match self.kafka_images.is_empty() {
            true => default_kafka_images(),
            false => KafkaImage::map(self.kafka_images),
        };
        let registry = self.image_registry.as_deref();
        let image = self.image.unwrap_or_else(operator_image);
        let kafka_images = kafka_images.into_iter();
        Installation {
            namespace: self.namespace,
            image: in_registry(registry, image),
            kafka_images: kafka_images
                .map(|(version, image)| (version, in_registry(registry, image)))
                .collect(),
            watch_namespaces: self.watch_namespaces,
            replicas: self.replicas,
            operation_timeout_ms: self.operation_timeout_ms,
            selector: self.selector,
            console: self.console,
        }
    }
}

/// The name of an image in a registry. As in `_helpers.tpl` of the chart.
fn in_registry(registry: Option<&str>, image: String) -> String {
    match registry {
        Some(registry) => format!("{}/{image}", registry.trim_end_matches('/')),
        None => image,
    }
}

fn default_kafka_images() -> BTreeMap<String, String> {
    [KafkaVersion::oldest_supported(), KafkaVersion::default_version()]
        .into_iter()
        .map(|version| (version.to_string(), kafka_image(version)))
        .collect()
}
