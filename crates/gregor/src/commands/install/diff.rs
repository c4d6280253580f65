//! `gregor install --diff`: what applying the manifests would change. The API server computes it with dry runs of server-side
//! apply, so that defaults and fields of other managers are taken into account.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::Context as _;
use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde::Serialize;
use serde_json::Value;

use super::Syntax;
use crate::commands::dynamic::{self, what};
use crate::commands::reach::Reach;
use crate::failure::Said;
use crate::output::{Format, Out, View};

/// Exit code if something would change.
const DIFFERS: u8 = 5;

/// The field manager of `kubectl apply --server-side`, which `gregor install` is made for: fields that a former manifest
/// had are removed.
const MANAGER: &str = "kubectl";

/// Lines per object. A definition of custom resources may change in thousands of lines.
const LINES_MAX: usize = 20;

/// Fields that the API server sets.
const SERVER_FIELDS: [&str; 6] =
    ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"];

/// The annotation in which `kubectl apply` keeps the manifest.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What would change.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Diff {
    objects: Vec<Changed>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Changed {
    object: String,
    change: Change,
    /// Changed fields, as `path: before -> after`.
    fields: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Change {
    Create,
    Update,
    None,
}

pub(super) fn run(reach: &Reach, objects: &[Value], syntax: Syntax) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let diff = runtime.context("cannot start the runtime")?.block_on(async {
        let (client, _) = reach.client().await?;
        let mut diff = Diff { objects: Vec::new() };
        for object in objects {
            let changed = compare(&client, object).await;
            diff.objects.push(changed.with_context(|| format!("cannot compare {}", what(object)))?);
        }
        anyhow::Ok(diff)
    })?;
    let format = match syntax {
        Syntax::Yaml => Format::Table,
        Syntax::Json => Format::Json,
    };
    Out::new(format).view(&diff)?;
    Said::code(if diff.differs() { DIFFERS } else { 0 })
}

async fn compare(client: &Client, object: &Value) -> anyhow::Result<Changed> {
    let changed = |change, fields| Changed { object: what(object), change, fields };
    let Some((api, name)) = dynamic::api(client, object).await? else {
        return Ok(changed(Change::Create, Vec::new()));
    };
    let Some(live) = api.get_opt(&name).await? else {
        return Ok(changed(Change::Create, Vec::new()));
    };
    let params = PatchParams { dry_run: true, ..PatchParams::apply(MANAGER).force() };
    let after = api.patch(&name, &params, &Patch::Apply(object)).await?;
    let fields = fields(&plain(&live)?, &plain(&after)?);
    let change = if fields.is_empty() { Change::None } else { Change::Update };
    Ok(changed(change, fields))
}

/// An object without what the API server sets.
fn plain(object: &DynamicObject) -> anyhow::Result<Value> {
    let mut value = serde_json::to_value(object).context("cannot serialize an object")?;
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.retain(|field, _| !SERVER_FIELDS.contains(&field.as_str()));
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
        }
        metadata.retain(|_, value| value.as_object().is_none_or(|fields| !fields.is_empty()));
    }
    Ok(value)
}

/// Fields that differ.
fn fields(before: &Value, after: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare_at("", before, after, &mut found);
    found
}

fn compare_at(path: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let names: BTreeSet<_> = old.keys().chain(new.keys()).collect();
            for name in names {
                let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let (old, new) = (old.get(name), new.get(name));
                compare_at(&at, old.unwrap_or(&Value::Null), new.unwrap_or(&Value::Null), found);
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            for index in 0..old.len().max(new.len()) {
                let (old, new) = (old.get(index), new.get(index));
                let at = format!("{path}[{index}]");
                compare_at(&at, old.unwrap_or(&Value::Null), new.unwrap_or(&Value::Null), found);
            }
        }
        (old, new) if old == new => {}
        (Value::Null, new) => found.push(format!("{path}: + {}", short(new))),
        (old, Value::Null) => found.push(format!("{path}: - {}", short(old))),
        (old, new) => found.push(format!("{path}: {} -> {}", short(old), short(new))),
    }
}

/// A value in one line.
fn short(value: &Value) -> String {
    const LENGTH_MAX: usize = 80;
    let text = value.to_string();
    match text.char_indices().nth(LENGTH_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

impl Diff {
    fn differs(&self) -> bool {
        self.objects.iter().any(|object| object.change != Change::None)
    }
}

impl View for Diff {
    fn table(&self, _: Option<u16>) -> String {
        let mut text = String::new();
        for Changed { object, change, fields } in &self.objects {
            let word = match change {
                Change::Create => "create",
                Change::Update => "update",
                Change::None => continue,
            };
            // Writing to a String does not fail.
            let _ = writeln!(text, "{word} {object}");
            for field in fields.iter().take(LINES_MAX) {
                let _ = writeln!(text, "  {field}");
            }
            if fields.len() > LINES_MAX {
                let _ = writeln!(text, "  and {} more fields", fields.len() - LINES_MAX);
            }
        }
        let changed = self.objects.iter().filter(|object| object.change != Change::None).count();
        let _ = writeln!(text, "{changed} of {} objects would change", self.objects.len());
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_named_by_path() {
        let before = json!({ "a": 1, "b": { "c": [1, 2], "gone": true }, "same": [{ "x": "y" }] });
        let after = json!({ "a": "1", "b": { "c": [1, 3, 4], "new": {} }, "same": [{ "x": "y" }] });
        assert_eq!(
            fields(&before, &after),
            ["a: 1 -> \"1\"", "b.c[1]: 2 -> 3", "b.c[2]: + 4", "b.gone: - true", "b.new: + {}"]
        );
        assert!(fields(&before, &before).is_empty());
    }

    #[test]
    fn what_the_server_sets_is_no_difference() {
        let object = |version: &str, annotations: Value| -> DynamicObject {
            serde_json::from_value(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": "a", "resourceVersion": version, "uid": version, "annotations": annotations },
                "data": { "x": "1" }, "status": { "at": version },
            }))
            .unwrap()
        };
        let kept = json!({ LAST_APPLIED: "{}" });
        let (one, other) = (object("1", kept), object("2", Value::Null));
        assert_eq!(plain(&one).unwrap(), plain(&other).unwrap());
    }

    #[test]
    fn long_differences_are_cut_and_counted() {
        let changed = |change, count: usize| Changed {
            object: "ClusterRole a".to_owned(),
            change,
            fields: (0..count).map(|number| format!("rules[{number}]: + 1")).collect(),
        };
        let objects =
            vec![changed(Change::Update, 25), changed(Change::None, 0), changed(Change::Create, 0)];
        let diff = Diff { objects };
        let text = diff.table(None);
        assert!(text.starts_with("update ClusterRole a\n  rules[0]: + 1\n"), "{text}");
        assert!(text.contains("  and 5 more fields\ncreate ClusterRole a\n"), "{text}");
        assert!(text.ends_with("2 of 3 objects would change\n"), "{text}");
        assert!(diff.differs());
        assert!(!Diff { objects: vec![changed(Change::None, 0)] }.differs());
    }
}
