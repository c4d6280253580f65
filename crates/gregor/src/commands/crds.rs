//! `gregor crds`: the definitions of the custom resources, for `kubectl apply -f -`.

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::output::{Format, Out};

pub(crate) const EXAMPLES: &str = "\
Examples:
  gregor crds | kubectl apply --server-side -f -
  gregor crds --only kafkas.kafka.strimzi.io -o json";

/// Definitions to print, and the format.
#[derive(Debug, Args)]
pub(crate) struct Crds {
    /// Output format
    #[arg(long, short = 'o', value_enum, default_value = "yaml")]
    output: Syntax,
    /// Only this one, by its full name (kafkas.kafka.strimzi.io), kind (Kafka) or short name (k)
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Syntax {
    /// One YAML document per definition
    Yaml,
    /// One list; or the definition itself if there is only one
    Json,
}

impl Crds {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let chosen = chosen(self.only.as_deref())?;
        let text = match self.output {
            Syntax::Yaml => yaml(&chosen)?,
            Syntax::Json => json(chosen)?,
        };
        Out::new(Format::Table).text(&text)
    }
}

fn chosen(only: Option<&str>) -> anyhow::Result<Vec<Value>> {
    let all = api::crds::crds();
    let is_chosen = |crd: &&api::crds::CustomResourceDefinition| {
        only.is_none_or(|name| api::crds::is_called(crd, name))
    };
    let chosen: Vec<Value> = all.iter().filter(is_chosen).map(api::crds::manifest).collect();
    if let (Some(name), true) = (only, chosen.is_empty()) {
        let names: Vec<_> = all.iter().filter_map(|crd| crd.metadata.name.as_deref()).collect();
        anyhow::bail!("there is no definition {name:?}; there are {}", names.join(", "));
    }
    Ok(chosen)
}

pub(super) fn yaml(definitions: &[Value]) -> anyhow::Result<String> {
    let mut text = String::new();
    for definition in definitions {
        text += "---\n";
        let document = serde_saphyr::to_string(definition).context("cannot write YAML")?;
        for line in document.lines() {
            // The empty lines of a text are written with its indentation, which is trailing white space in a file.
            text += if line.trim().is_empty() { "" } else { line };
            text.push('\n');
        }
    }
    Ok(text)
}

pub(super) fn json(mut definitions: Vec<Value>) -> anyhow::Result<String> {
    let value = match definitions.len() {
        1 => definitions.remove(0),
        _ => json!({ "apiVersion": "v1", "kind": "List", "items": definitions }),
    };
    Ok(serde_json::to_string_pretty(&value).context("cannot write JSON")? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_says_the_same_as_json() {
        let definitions = chosen(None).unwrap();
        let text = yaml(&definitions).unwrap();
        let read: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        assert_eq!(read, definitions);
    }

    #[test]
    fn every_run_prints_the_same() {
        let print = || yaml(&chosen(None).unwrap()).unwrap();
        assert_eq!(print(), print());
    }

    #[test]
    fn one_is_found_by_any_of_its_names() {
        for name in ["kafkanodepools.kafka.strimzi.io", "KafkaNodePool", "kafkanodepools", "knp"] {
            let chosen = chosen(Some(name)).unwrap();
            assert_eq!(chosen.len(), 1, "{name}");
            assert_eq!(chosen[0]["spec"]["names"]["kind"], "KafkaNodePool");
        }
    }

    #[test]
    fn a_name_that_is_not_there_is_answered_with_those_that_are() {
        let error = chosen(Some("kafkabridges")).unwrap_err().to_string();
        assert!(error.contains("kafkas.kafka.strimzi.io"), "{error}");
    }
}
