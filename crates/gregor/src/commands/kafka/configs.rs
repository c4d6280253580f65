//! `gregor kafka configs`: settings, and changing them while nodes run.

use anyhow::anyhow;
use clap::{Args, Subcommand};
use kafka_admin::{ConfigChange, ConfigEntry, ConfigResource, ConfigSource, Outcome};
use model::{NodeId, TopicName};
use serde::Serialize;

use super::after_change;
use super::connection::Session;
use crate::failure::Usage;
use crate::output::{Grid, Out, View, list, note, yes_no};

pub(super) const EXAMPLE: &str = "\
Examples:
  gregor kafka configs node 100                                  what is not built in
  gregor kafka configs topic orders --all
  gregor kafka configs topic orders --set retention.ms=3600000 --dry-run
  gregor kafka configs default --delete log.cleaner.threads";

/// Scope of a setting.
#[derive(Debug, Args)]
pub(super) struct Configs {
    #[command(subcommand)]
    whose: Whose,
}

#[derive(Debug, Subcommand)]
enum Whose {
    /// One node: a broker, or a controller with --controllers
    Node {
        /// Its id
        #[arg(value_name = "ID")]
        id: NodeId,
        #[command(flatten)]
        what: What,
    },
    /// A topic
    Topic {
        /// Its name
        #[arg(value_name = "NAME")]
        name: TopicName,
        #[command(flatten)]
        what: What,
    },
    /// All nodes without a value of their own
    Default {
        #[command(flatten)]
        what: What,
    },
}

/// Settings to show or change.
#[derive(Debug, Args)]
struct What {
    /// Also show settings with their built-in default
    #[arg(long, conflicts_with_all = ["set", "delete"])]
    all: bool,
    /// Set a value; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_set)]
    set: Vec<(String, String)>,
    /// Reset a setting to its default; may be repeated
    #[arg(long, value_name = "NAME")]
    delete: Vec<String>,
    /// Only validate the changes
    #[arg(long)]
    dry_run: bool,
}

fn parse_set(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("\"{text}\" is not NAME=VALUE")),
    }
}

impl Configs {
    pub(super) async fn run(self, session: &Session, out: &mut Out) -> anyhow::Result<()> {
        let (resource, what) = match self.whose {
            Whose::Node { id, what } => (ConfigResource::Node(id), what),
            Whose::Topic { name, what } => (ConfigResource::Topic(name), what),
            Whose::Default { what } => (ConfigResource::ClusterDefault, what),
        };
        if let ConfigResource::Topic(_) = &resource {
            session.require_brokers("topics")?;
        }
        if what.set.is_empty() && what.delete.is_empty() {
            if what.dry_run {
                return Err(Usage::error("--dry-run needs --set or --delete"));
            }
            return show(session, out, &resource, what.all).await;
        }
        alter(session, out, &resource, what).await
    }
}

/// A setting, as printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SettingView {
    name: String,
    /// `null` if it has none or is sensitive.
    value: Option<String>,
    source: String,
    read_only: bool,
    sensitive: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SettingsView {
    resource: String,
    settings: Vec<SettingView>,
}

async fn show(
    session: &Session,
    out: &mut Out,
    resource: &ConfigResource,
    all: bool,
) -> anyhow::Result<()> {
    let entries = session.admin.describe_configs(resource, None).await?;
    let view = SettingsView::new(resource, entries.into_values(), all);
    if view.settings.is_empty() {
        note(&format!("{resource} has no settings of its own"));
    }
    out.view(&view)
}

impl SettingsView {
    fn new(
        resource: &ConfigResource,
        entries: impl Iterator<Item = ConfigEntry>,
        all: bool,
    ) -> Self {
        let shown = entries.filter(|entry| all || entry.source != ConfigSource::Default);
        let view = |entry: ConfigEntry| SettingView {
            name: entry.name,
            value: entry.value.filter(|_| !entry.sensitive),
            source: source_text(entry.source),
            read_only: entry.read_only,
            sensitive: entry.sensitive,
        };
        Self { resource: resource_text(resource), settings: shown.map(view).collect() }
    }
}

impl View for SettingsView {
    fn table(&self, width: Option<u16>) -> String {
        if self.settings.is_empty() {
            return String::new();
        }
        let mut grid = Grid::new(&["NAME", "SOURCE", "READ-ONLY", "VALUE"]).wrap(3);
        for setting in &self.settings {
            let value = match (&setting.value, setting.sensitive) {
                (_, true) => "***".to_owned(),
                (Some(value), false) if value.is_empty() => "\"\"".to_owned(),
                (Some(value), false) => value.clone(),
                (None, false) => String::new(),
            };
            let (name, source) = (setting.name.clone(), setting.source.clone());
            grid.row([name, source, yes_no(setting.read_only), value]);
        }
        grid.take(width)
    }
}

/// The scope, as on the command line.
fn resource_text(resource: &ConfigResource) -> String {
    match resource {
        ConfigResource::Node(id) => format!("node {id}"),
        ConfigResource::Topic(name) => format!("topic {name}"),
        ConfigResource::ClusterDefault => "default".to_owned(),
    }
}

fn source_text(source: ConfigSource) -> String {
    let text = match source {
        ConfigSource::Topic => "topic",
        ConfigSource::DynamicNode => "node",
        ConfigSource::DynamicDefault => "default",
        ConfigSource::StaticNode => "file",
        ConfigSource::Default => "built-in",
        ConfigSource::Other(number) => return format!("source-{number}"),
    };
    text.to_owned()
}

/// An accepted change. Values are omitted: they may be secrets, and the caller knows them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ChangeView {
    resource: String,
    set: Vec<String>,
    deleted: Vec<String>,
    dry_run: bool,
}

async fn alter(
    session: &Session,
    out: &mut Out,
    resource: &ConfigResource,
    what: What,
) -> anyhow::Result<()> {
    let view = ChangeView {
        resource: resource_text(resource),
        set: what.set.iter().map(|(name, _)| name.clone()).collect(),
        deleted: what.delete.clone(),
        dry_run: what.dry_run,
    };
    let set = what.set.into_iter().map(|(name, value)| ConfigChange::Set(name, value));
    let deleted = what.delete.into_iter().map(ConfigChange::Delete);
    let changes: Vec<_> = set.chain(deleted).collect();
    let altered = session.admin.alter_configs(resource, &changes, what.dry_run).await;
    altered.map_err(|error| {
        // Nothing can have changed where nothing was to be.
        let outcome = if what.dry_run { Outcome::NotDone } else { error.outcome() };
        after_change(anyhow!(error), outcome, "the settings have changed")
    })?;
    out.view(&view)
}

impl View for ChangeView {
    fn table(&self, _: Option<u16>) -> String {
        let part = |verb: &str, names: &[String]| match names {
            [] => None,
            names => Some(format!("{verb} {}", list(names))),
        };
        let parts = [part("set", &self.set), part("deleted", &self.deleted)];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        let end = if self.dry_run { " (would be accepted; nothing was changed)" } else { "" };
        format!("{}: {}{end}\n", self.resource, parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(
        name: &str,
        value: Option<&str>,
        source: ConfigSource,
        sensitive: bool,
    ) -> ConfigEntry {
        ConfigEntry {
            name: name.to_owned(),
            value: value.map(str::to_owned),
            source,
            read_only: source == ConfigSource::StaticNode,
            sensitive,
            synonyms: vec![],
        }
    }

    fn view(all: bool) -> SettingsView {
        let entries = vec![
            entry("log.dirs", Some("/a,/b"), ConfigSource::StaticNode, false),
            // Kafka sends no value of these; if it ever did, it must not be shown either.
            entry("ssl.key.password", Some("hush"), ConfigSource::DynamicNode, true),
            entry("ssl.provider", None, ConfigSource::Default, false),
            entry("super.users", Some(""), ConfigSource::Default, false),
        ];
        let resource = ConfigResource::Node(NodeId::new(1).unwrap());
        SettingsView::new(&resource, entries.into_iter(), all)
    }

    #[test]
    fn what_is_built_in_is_shown_only_if_asked_for_and_secrets_never() {
        let own = "\
NAME              SOURCE  READ-ONLY  VALUE
log.dirs          file    yes        /a,/b
ssl.key.password  node    no         ***
";
        assert_eq!(view(false).table(None), own);
        let all = "\
NAME              SOURCE    READ-ONLY  VALUE
log.dirs          file      yes        /a,/b
ssl.key.password  node      no         ***
ssl.provider      built-in  no         -
super.users       built-in  no         \"\"
";
        assert_eq!(view(true).table(None), all);
        let json = serde_json::to_value(view(true)).unwrap();
        assert!(!json.to_string().contains("hush"));
        assert_eq!(json["resource"], "node 1");
        assert_eq!(json["settings"][0]["readOnly"], true);
    }

    #[test]
    fn a_change_is_told_by_its_names() {
        let mut view = ChangeView {
            resource: "topic a".to_owned(),
            set: vec!["x".to_owned(), "y".to_owned()],
            deleted: vec!["z".to_owned()],
            dry_run: false,
        };
        assert_eq!(view.table(None), "topic a: set x,y; deleted z\n");
        view.dry_run = true;
        assert!(view.table(None).ends_with("(would be accepted; nothing was changed)\n"));
    }

    #[test]
    fn a_value_may_have_an_equals_sign_and_may_be_empty() {
        assert_eq!(parse_set("a=b=c").unwrap(), ("a".to_owned(), "b=c".to_owned()));
        assert_eq!(parse_set("a=").unwrap(), ("a".to_owned(), String::new()));
        assert!(parse_set("a").is_err() && parse_set("=b").is_err());
    }
}
