//! `gregor version`: the versions of the client, of operators and of records, and whether they work together.

use anyhow::Context as _;
use artifacts::KafkaVersion;
use clap::Args;
use control::annotations::Annotation;
use control::cluster::record::FormatVersion;
use control::life::skew::{self, Program};
use kube::ResourceExt as _;
use serde::Serialize;

use super::installed::{self, Operator};
use super::reach::Reach;
use crate::failure::Said;
use crate::output::{Format, Grid, Out, View, bullets, note, terminal_width};

pub(crate) const HELP: &str = "\
Examples:
  gregor version
  gregor version --client -o json

Operators publish their version in their Lease. Without -n, operators and records of all namespaces are shown.

Exit codes:
  0  success, also if versions differ
  1  error, see stderr
  4  Kubernetes is unreachable: only the client is shown";

/// Exit code if only the client is known.
const CLIENT_ONLY: u8 = 4;

/// What to show.
#[derive(Debug, Args)]
pub(crate) struct Version {
    /// Show the client only, without contacting Kubernetes
    #[arg(long)]
    client: bool,
    #[command(flatten)]
    reach: Reach,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

impl Version {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let mut out = Out::new(self.output);
        if self.client {
            return out.view(&Shown::new(Vec::new(), &[]));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime.context("cannot start the runtime")?.block_on(self.found()) {
            Ok((operators, records)) => out.view(&Shown::new(records, &operators)),
            Err(error) => {
                out.view(&Shown::new(Vec::new(), &[]))?;
                note(&format!("{error:#}"));
                Said::code(CLIENT_ONLY)
            }
        }
    }

    async fn found(&self) -> anyhow::Result<(Vec<Operator>, Vec<RecordView>)> {
        let (client, _) = self.reach.client().await?;
        let operators = installed::operators(&client, self.reach.namespace()).await?;
        let records = installed::records(&client, self.reach.namespace()).await?;
        let view = |map: &k8s_openapi::api::core::v1::ConfigMap| RecordView {
            namespace: map.namespace().unwrap_or_default(),
            kafka: installed::cluster_of(map).unwrap_or_default(),
            format: ::operator::format_version(map).map(|version| version.to_string()),
        };
        Ok((operators, records.iter().map(view).collect()))
    }
}

/// What is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    client: ClientView,
    operators: Vec<OperatorView>,
    records: Vec<RecordView>,
    /// Versions that do not work together.
    skew: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ClientView {
    version: &'static str,
    record_format: String,
    /// The oldest Kafka version that is supported, and the default.
    kafka: [String; 2],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OperatorView {
    namespace: String,
    name: String,
    /// Whether it holds its Lease.
    runs: bool,
    version: Option<String>,
    record_format: Option<String>,
    kafka: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RecordView {
    namespace: String,
    kafka: String,
    format: Option<String>,
}

impl OperatorView {
    fn of(operator: &Operator) -> Self {
        let annotation = |of: Annotation| operator.annotations.get(of.name()).cloned();
        let kafka = annotation(Annotation::KafkaVersions).unwrap_or_default();
        Self {
            namespace: operator.namespace.clone(),
            name: operator.name.clone(),
            runs: operator.runs,
            version: annotation(Annotation::Version),
            record_format: annotation(Annotation::RecordFormat),
            kafka: kafka.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect(),
        }
    }

    fn program(&self) -> Program {
        Program {
            release: self.version.as_deref().and_then(|text| text.parse().ok()),
            format: self.record_format.as_deref().and_then(|text| text.parse().ok()),
        }
    }
}

impl Shown {
    fn new(records: Vec<RecordView>, operators: &[Operator]) -> Self {
        let operators: Vec<_> = operators.iter().map(OperatorView::of).collect();
        let version = env!("CARGO_PKG_VERSION");
        let facts = skew::Facts {
            client: Program { release: version.parse().ok(), format: Some(FormatVersion::CURRENT) },
            operators: operators
                .iter()
                .filter(|operator| operator.runs)
                .map(|one| (format!("{}/{}", one.namespace, one.name), one.program()))
                .collect(),
            records: records
                .iter()
                .map(|record| {
                    let format = record.format.as_deref().and_then(|text| text.parse().ok());
                    (format!("{}/{}", record.namespace, record.kafka), format)
                })
                .collect(),
        };
        let skew = skew::findings(&facts).iter().map(ToString::to_string).collect();
        let kafka = [KafkaVersion::oldest_supported(), KafkaVersion::default_version()];
        let client = ClientView {
            version,
            record_format: FormatVersion::CURRENT.to_string(),
            kafka: kafka.map(|version| version.to_string()),
        };
        Self { client, operators, records, skew }
    }
}

impl View for Shown {
    fn table(&self, width: Option<u16>) -> String {
        let mut grid = Grid::new(&["COMPONENT", "NAME", "VERSION", "RECORD-FORMAT", "KAFKA"]);
        let [oldest, default] = &self.client.kafka;
        grid.row([
            "client".to_owned(),
            "gregor".to_owned(),
            self.client.version.to_owned(),
            self.client.record_format.clone(),
            format!("{oldest}...{default}"),
        ]);
        for operator in &self.operators {
            let component = if operator.runs { "operator" } else { "operator(stopped)" };
            grid.row([
                component.to_owned(),
                format!("{}/{}", operator.namespace, operator.name),
                operator.version.clone().unwrap_or_default(),
                operator.record_format.clone().unwrap_or_default(),
                operator.kafka.join(","),
            ]);
        }
        for record in &self.records {
            grid.row([
                "record".to_owned(),
                format!("{}/{}", record.namespace, record.kafka),
                String::new(),
                record.format.clone().unwrap_or_default(),
                String::new(),
            ]);
        }
        let width = width.or_else(terminal_width);
        grid.take(width) + &bullets("Versions that differ", &self.skew, None, width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operator(runs: bool, published: &[(Annotation, &str)]) -> Operator {
        let named = |(annotation, value): &(Annotation, &str)| {
            (annotation.name().to_owned(), (*value).to_owned())
        };
        Operator {
            namespace: "ops".to_owned(),
            name: "gregor-operator".to_owned(),
            runs,
            annotations: published.iter().map(named).collect(),
        }
    }

    fn record(format: Option<&str>) -> RecordView {
        let (namespace, kafka) = ("kafka".to_owned(), "c".to_owned());
        RecordView { namespace, kafka, format: format.map(str::to_owned) }
    }

    #[test]
    fn versions_that_differ_are_listed_below_all_versions() {
        let operators = [operator(
            true,
            &[
                (Annotation::Version, "99.0.0"),
                (Annotation::RecordFormat, "1.3"),
                (Annotation::KafkaVersions, "4.1.2,4.3.1"),
            ],
        )];
        let shown = Shown::new(vec![record(Some("7.0"))], &operators).table(None);
        let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        let (version, format) = (env!("CARGO_PKG_VERSION"), FormatVersion::CURRENT);
        let expected = [
            format!("client gregor {version} {format}"),
            "operator ops/gregor-operator 99.0.0 1.3 4.1.2,4.3.1".to_owned(),
            "record kafka/c - 7.0 -".to_owned(),
            "use gregor 99.0.0".to_owned(),
            "ops/gregor-operator cannot read the record of Kafka kafka/c".to_owned(),
        ];
        for line in expected {
            assert!(words.contains(&line), "{line}: {shown}");
        }
    }

    #[test]
    fn a_stopped_operator_is_shown_and_not_compared() {
        let shown = Shown::new(Vec::new(), &[operator(false, &[(Annotation::Version, "99.0.0")])]);
        assert!(shown.skew.is_empty(), "{:?}", shown.skew);
        assert!(shown.table(None).contains("operator(stopped)"));
    }

    #[test]
    fn an_operator_without_a_version_is_unknown() {
        let shown = Shown::new(vec![record(None)], &[operator(true, &[])]);
        assert_eq!(shown.skew.len(), 2, "{:?}", shown.skew);
        assert!(shown.skew.iter().all(|line| line.contains("unknown")), "{:?}", shown.skew);
    }
}
