//! The configuration of a topic: what is changed, what is kept, and what is only said.

use std::collections::BTreeMap;

use super::report::{Problem, Reason, Warning};
use super::resource::{ConfigMode, Resource, Spec, Value};
use super::settings::Settings;

/// Settings that moves of replicas make for a while. They are left unchanged unless the spec has them.
const THROTTLES: [&str; 2] =
    ["follower.replication.throttled.replicas", "leader.replication.throttled.replicas"];

/// A setting of a topic in Kafka.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The value in force.
    pub value: Option<String>,
    /// Whether it is set on the topic, and not inherited.
    pub is_override: bool,
}

/// A change of a setting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Sets a value on the topic.
    Set(String, String),
    /// Deletes the value on the topic, so that the inherited one holds.
    Delete(String),
}

/// How the configuration of a topic is brought to its spec.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// What is changed.
    pub changes: Vec<Change>,
    /// Overrides that stay although the spec does not have them.
    pub kept: Vec<String>,
    /// What its user should know.
    pub warnings: Vec<Warning>,
}

/// The configuration of a spec as Kafka reads it.
///
/// # Errors
/// A value is none that Kafka can be given.
pub fn values(spec: &Spec) -> Result<BTreeMap<String, String>, Problem> {
    let config = spec.config.iter().flatten();
    let value = |(name, value): (&String, &Value)| match value {
        Value::Text(text) => Ok((name.clone(), text.clone())),
        Value::Null => Err(Problem::null_value(name)),
        Value::Nested => Err(Problem::nested_value(name)),
    };
    config.map(value).collect()
}

/// Compares the configuration of a spec with that of its topic. `owns` says that the resource managed this very topic
/// before, so that whatever differs was changed behind its back.
#[must_use]
pub fn difference(
    resource: &Resource,
    desired: &BTreeMap<String, String>,
    found: &BTreeMap<String, Setting>,
    owns: bool,
    settings: &Settings,
) -> Difference {
    let mut difference = Difference::default();
    for (name, value) in desired {
        if THROTTLES.contains(&name.as_str()) {
            let message = format!("Property {name} may conflict with throttled rebalances");
            difference.warnings.push(Warning { reason: Reason::InvalidConfig, message });
        } else if !settings.alterable.allows(name) {
            let message = format!("Property {name} is ignored according to alterable config");
            difference.warnings.push(Warning { reason: Reason::InvalidConfig, message });
            continue;
        }
        let current = found.get(name).and_then(|setting| setting.value.as_deref());
        if !current.is_some_and(|current| is_same(current, value)) {
            difference.changes.push(Change::Set(name.clone(), value.clone()));
        }
    }
    let says_nothing = resource.spec.as_ref().is_some_and(|spec| spec.config.is_none());
    let keeps = match resource.config_mode {
        Some(ConfigMode::Replace) => false,
        Some(ConfigMode::Keep) => says_nothing,
        None => says_nothing && !owns,
    };
    let overrides = found.iter().filter(|(_, setting)| setting.is_override).map(|(name, _)| name);
    for name in overrides.filter(|name| !desired.contains_key(*name)) {
        if THROTTLES.contains(&name.as_str()) || !settings.alterable.allows(name) {
            continue;
        }
        if keeps {
            difference.kept.push(name.clone());
        } else {
            difference.changes.push(Change::Delete(name.clone()));
        }
    }
    difference
}

/// Whether two values mean the same to Kafka, which writes lists, numbers and booleans its own way.
#[must_use]
pub fn is_same(current: &str, desired: &str) -> bool {
    if current == desired {
        return true;
    }
    let items = |text: &str| text.split(',').map(|item| item.trim().to_owned()).collect::<Vec<_>>();
    if items(current) == items(desired) {
        return true;
    }
    let flag = |text: &str| match text.trim().to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    };
    let whole = |text: &str| text.trim().parse::<i64>().ok();
    let real = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    if let (Some(a), Some(b)) = (flag(current), flag(desired)) {
        return a == b;
    }
    // Not as floating-point numbers, which have no room for all digits of a long.
    if let (Some(a), Some(b)) = (whole(current), whole(desired)) {
        return a == b;
    }
    matches!((real(current), real(desired)), (Some(a), Some(b)) if a == b)
}
