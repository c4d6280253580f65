//! What the user wants to apply: the documents of a file, and the cluster that they are about.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use api::names::CLUSTER_LABEL;
use operator::cluster::foresee::Edit;
use serde_json::Value;

/// The name of stdin.
const STDIN: &str = "-";

/// What was asked for, and of which cluster.
#[derive(Debug)]
pub(in super::super) struct Asked {
    pub(in super::super) cluster: String,
    /// The namespace that the documents name.
    pub(in super::super) namespace: Option<String>,
    pub(in super::super) edit: Edit,
    /// What the API server would refuse.
    pub(in super::super) problems: Vec<String>,
    /// Documents that are about something else.
    pub(in super::super) ignored: Vec<String>,
}

impl Asked {
    /// The Kafka that is asked for.
    pub(super) fn version(&self) -> Option<&str> {
        self.edit.kafka.as_ref()?["spec"]["kafka"]["version"].as_str()
    }
}

/// Reads a file, or stdin.
pub(super) fn read(file: &Path) -> anyhow::Result<Vec<Value>> {
    let text = if file == Path::new(STDIN) {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).context("cannot read stdin")?;
        text
    } else {
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?
    };
    documents(&text).map_err(|error| {
        // What follows are the lines of the file, which its author has at hand.
        let error = error.to_string();
        let first = error.lines().next().unwrap_or_default();
        anyhow::anyhow!("{} is not YAML: {first}", file.display())
    })
}

pub(in super::super) fn documents(text: &str) -> Result<Vec<Value>, serde_saphyr::Error> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    let mut all = Vec::new();
    for document in documents {
        match document["items"].as_array() {
            Some(items) if document["kind"] == "List" => all.extend(items.iter().cloned()),
            _ if document.is_null() => {}
            _ => all.push(document),
        }
    }
    Ok(all)
}

/// The clusters that documents are about: the names of the Kafkas, or else those that pools belong to.
pub(super) fn clusters(documents: &[Value]) -> BTreeSet<String> {
    let all = |kind: &str, name: fn(&Value) -> &Value| -> BTreeSet<String> {
        let names = documents.iter().filter(|one| one["kind"] == kind).map(name);
        names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let kafkas = all("Kafka", |one| &one["metadata"]["name"]);
    match kafkas.is_empty() {
        true => all("KafkaNodePool", |one| &one["metadata"]["labels"][CLUSTER_LABEL]),
        false => kafkas,
    }
}

/// Finds out what the documents ask for.
pub(in super::super) fn asked(
    documents: Vec<Value>,
    cluster: Option<&str>,
    deleted_pools: &[String],
) -> anyhow::Result<Asked> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let name = |document: &Value| text(&document["metadata"]["name"]);
    let label = |document: &Value| text(&document["metadata"]["labels"][CLUSTER_LABEL]);
    let named = clusters(&documents);
    let (mut kafkas, mut pools) = (BTreeMap::new(), BTreeMap::new());
    let (mut ignored, mut namespaces) = (Vec::new(), BTreeSet::new());
    for (index, document) in documents.into_iter().enumerate() {
        let kind = text(&document["kind"]).unwrap_or_default();
        let Some(name) = name(&document).filter(|_| !kind.is_empty()) else {
            bail!("document {} has no kind or no metadata.name", index + 1);
        };
        match kind.as_str() {
            "Kafka" | "KafkaNodePool" => {
                namespaces.extend(text(&document["metadata"]["namespace"]));
                let of = if kind == "Kafka" { &mut kafkas } else { &mut pools };
                if of.insert(name.clone(), document).is_some() {
                    bail!("there are two documents for {kind} {name}");
                }
            }
            _ => ignored.push(format!("{kind} {name}")),
        }
    }
    if namespaces.len() > 1 {
        let all: Vec<_> = namespaces.into_iter().collect();
        bail!("the documents are of several namespaces: {}", all.join(", "));
    }
    let cluster = chosen(cluster, named)?;
    let (mine, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
        pools.into_iter().partition(|(_, pool)| label(pool).is_none_or(|label| label == cluster));
    let kafka = kafkas.remove(&cluster);
    ignored.extend(kafkas.keys().map(|name| format!("Kafka {name}")));
    ignored.extend(others.keys().map(|name| format!("KafkaNodePool {name}")));
    let mut problems = Vec::new();
    for document in kafka.iter().chain(mine.values()) {
        problems.extend(api::schema::problems(document).iter().map(ToString::to_string));
    }
    for (name, pool) in &mine {
        if label(pool).is_none() {
            problems.push(format!(
                "KafkaNodePool {name}: metadata.labels.{CLUSTER_LABEL} is missing: it names the cluster"
            ));
        }
    }
    let deleted_pools = deleted_pools.iter().cloned().collect();
    let edit = Edit { kafka, pools: mine, deleted_pools };
    let namespace = namespaces.into_iter().next();
    Ok(Asked { cluster, namespace, edit, problems, ignored })
}

/// The one cluster that is meant.
fn chosen(named: Option<&str>, clusters: BTreeSet<String>) -> anyhow::Result<String> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let mut clusters = clusters.into_iter();
    match (clusters.next(), clusters.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => bail!(
            "the documents contain neither a Kafka nor a KafkaNodePool: name one with --cluster"
        ),
        (Some(one), Some(other)) => {
            bail!(
                "the documents belong to several clusters ({one}, {other}): name one with --cluster"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "
apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata: {name: a, namespace: here}
spec: {kafka: {version: 4.3.1, listeners: [{name: x, port: 9092, type: internal, tls: false}]}}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {name: p, labels: {strimzi.io/cluster: a}}
spec: {replicas: 3, roles: [broker], storage: {type: ephemeral}}
---
# nothing
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
";

    #[test]
    fn a_file_with_several_documents_is_about_one_cluster() {
        let asked = asked(documents(TWO).unwrap(), None, &["old".to_owned()]).unwrap();
        assert_eq!((asked.cluster.as_str(), asked.namespace.as_deref()), ("a", Some("here")));
        assert_eq!(asked.version(), Some("4.3.1"));
        assert_eq!(asked.edit.pools.keys().collect::<Vec<_>>(), ["p"]);
        assert!(asked.edit.deleted_pools.contains("old"));
        assert_eq!(asked.ignored, ["ConfigMap c"]);
        assert_eq!(asked.problems, Vec::<String>::new());
    }

    #[track_caller]
    fn refused(text: &str, cluster: Option<&str>, expected: &str) {
        let error = asked(documents(text).unwrap(), cluster, &[]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn what_cannot_be_meant_is_said() {
        refused("", None, "name one with --cluster");
        refused("kind: Kafka", None, "document 1 has no kind or no metadata.name");
        let kafka = |name: &str| format!("---\nkind: Kafka\nmetadata: {{name: {name}}}\n");
        refused(&(kafka("a") + &kafka("b")), None, "belong to several clusters (a, b)");
        refused(&(kafka("a") + &kafka("a")), None, "two documents for Kafka a");
        let both = asked(documents(&(kafka("a") + &kafka("b"))).unwrap(), Some("b"), &[]).unwrap();
        assert_eq!(both.ignored, ["Kafka a"]);
        let error = documents("a: [").unwrap_err().to_string();
        assert!(error.contains("line 1"), "{error}");
    }

    #[test]
    fn problems_name_the_field() {
        let text = TWO
            .replace("replicas: 3", "replicas: many")
            .replace("labels: {strimzi.io/cluster: a}", "annotations: {}");
        let asked = asked(documents(&text).unwrap(), None, &[]).unwrap();
        assert_eq!(
            asked.problems,
            [
                "KafkaNodePool p: spec.replicas is \"many\": it has to be a whole number",
                "KafkaNodePool p: metadata.labels.strimzi.io/cluster is missing: it names the cluster",
            ]
        );
    }
}
