//! The log4j2 configuration of a node's Kafka.
//!
//! 1. Every node has a configuration that log4j2 reloads, so that a change never needs a restart.
//! 2. The keys of the default configuration are those of Strimzi: `spec.kafka.logging.loggers` replaces them by name.
//! 3. A value of the user stays a value: it cannot add lines.

use std::collections::BTreeMap;

use super::properties::java::{self, Entry};
use super::properties::render;
use super::spec::{ConfigMapEntry, Logging};

/// The setting that makes log4j2 look for changes, in seconds.
const INTERVAL: (&str, &str) = ("monitorInterval", "30");

/// The default configuration at this level of the root logger.
///
/// Everything goes to standard output, where the container runtime collects it.
#[must_use]
pub fn default_text(level: &str) -> String {
    render(&default_keys(level))
}

/// The ConfigMap entry that the configuration is read from, for [`text`].
#[must_use]
pub fn needs(logging: &Logging) -> Option<&ConfigMapEntry> {
    match logging {
        Logging::External(entry) => Some(entry),
        Logging::Default | Logging::Inline(_) => None,
    }
}

/// The configuration, before [`problem`] is asked. `external` is the text of the entry that [`needs`] names; `None` if a text is needed and missing.
#[must_use]
pub fn text(logging: &Logging, external: Option<&str>) -> Option<String> {
    match logging {
        Logging::Default => Some(inline(&BTreeMap::new())),
        Logging::Inline(keys) => Some(inline(keys)),
        Logging::External(_) => external.map(|text| {
            let (key, seconds) = INTERVAL;
            if has_key(text, key) {
                return text.to_owned();
            }
            let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            format!("{text}{newline}{key}={seconds}\n")
        }),
    }
}

/// The default configuration with keys that are replaced or added.
fn inline(keys: &BTreeMap<String, String>) -> String {
    let mut all = default_keys("INFO");
    all.push((INTERVAL.0.to_owned(), INTERVAL.1.to_owned()));
    for (key, value) in keys {
        match all.iter_mut().find(|(known, _)| known == key) {
            Some((_, current)) => current.clone_from(value),
            None => all.push((key.clone(), value.clone())),
        }
    }
    render(&all)
}

fn default_keys(level: &str) -> Vec<(String, String)> {
    let keys = [
        ("name", "KafkaConfig"),
        ("status", "error"),
        ("appender.console.type", "Console"),
        ("appender.console.name", "STDOUT"),
        ("appender.console.layout.type", "PatternLayout"),
        ("appender.console.layout.pattern", "[%d{ISO8601}] %p %m (%c)%n"),
        ("rootLogger.level", level),
        ("rootLogger.appenderRef.console.ref", "STDOUT"),
    ];
    // Key, logger and level. The authorizer and the state change logger write a line per request and per partition at INFO.
    let loggers = [
        ("kafka", "kafka", level),
        ("orgapachekafka", "org.apache.kafka", level),
        ("requestlogger", "kafka.request.logger", "WARN"),
        ("requestchannel", "kafka.network.RequestChannel$", "WARN"),
        ("controller", "org.apache.kafka.controller", level),
        ("logcleaner", "kafka.log.LogCleaner", level),
        ("statechange", "state.change.logger", "WARN"),
        ("authorizer", "kafka.authorizer.logger", "WARN"),
    ];
    let loggers = loggers.iter().flat_map(|(key, name, level)| {
        [
            (format!("logger.{key}.name"), (*name).to_owned()),
            (format!("logger.{key}.level"), (*level).to_owned()),
        ]
    });
    let keys = keys.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    keys.chain(loggers).collect()
}

/// Whether properties set this key. Comments do not.
fn has_key(text: &str, key: &str) -> bool {
    java::entries(text).is_ok_and(|entries| entries.iter().any(|entry| entry.key == key))
}

/// Why log4j2 would not work with a configuration; `None` if nothing speaks against it. An unknown level is no reason: log4j2
/// reports it and uses its default.
#[must_use]
pub fn problem(text: &str) -> Option<String> {
    let entries = match java::entries(text) {
        Ok(entries) => entries,
        Err(line) => return Some(format!("line {line}: the escape is malformed")),
    };
    let at = |entry: &Entry, what: &str| Some(format!("line {}: {} {what}", entry.line, entry.key));
    let interval = entries.iter().find(|entry| entry.key == INTERVAL.0);
    if let Some(entry) = interval.filter(|entry| entry.value.trim().parse::<u32>().is_err()) {
        return at(entry, "is not a number of seconds");
    }
    if !entries
        .iter()
        .any(|entry| entry.key == "rootLogger" || entry.key.starts_with("rootLogger."))
    {
        return Some("rootLogger is missing, so nothing would be logged".to_owned());
    }
    let names: Vec<_> = entries.iter().filter_map(appender_name).collect();
    let refers = |entry: &&Entry| {
        let parts: Vec<_> = entry.key.split('.').collect();
        matches!(parts[..], [.., "appenderRef", _, "ref"])
    };
    let unknown = entries.iter().filter(refers).find(|entry| !names.contains(&entry.value.trim()));
    unknown.and_then(|entry| {
        at(entry, &format!("is {}, which is not the name of an appender", entry.value))
    })
}

/// The name of an appender that this entry gives.
fn appender_name(entry: &Entry) -> Option<&str> {
    let parts: Vec<_> = entry.key.split('.').collect();
    matches!(parts[..], ["appender", _, "name"]).then(|| entry.value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::properties::java;

    fn given(text: &str) -> BTreeMap<String, String> {
        let read = java::read(text);
        let count = read.len();
        let keys: BTreeMap<_, _> = read.into_iter().collect();
        assert_eq!(keys.len(), count, "a key is there twice: {text}");
        keys
    }

    fn loggers(rows: &[(&str, &str)]) -> Logging {
        Logging::Inline(rows.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    fn external() -> Logging {
        let entry = ConfigMapEntry { config_map: "m".to_owned(), key: "k".to_owned() };
        Logging::External(entry)
    }

    #[test]
    fn inline_keys_replace_the_default_or_are_added() {
        let default = given(&text(&Logging::Default, None).unwrap());
        assert_eq!(default["rootLogger.level"], "INFO");
        assert_eq!(default["monitorInterval"], "30");
        assert_eq!(default["logger.orgapachekafka.name"], "org.apache.kafka");
        let rows: [(&[(&str, &str)], &[(&str, &str)]); 6] = [
            (&[], &[]),
            (&[("rootLogger.level", "DEBUG")], &[("rootLogger.level", "DEBUG")]),
            (&[("logger.kafka.level", "TRACE")], &[("logger.kafka.level", "TRACE")]),
            (
                &[("logger.mine.name", "org.mine"), ("logger.mine.level", "PAPRIKA")],
                &[("logger.mine.name", "org.mine"), ("logger.mine.level", "PAPRIKA")],
            ),
            (&[("monitorInterval", "5")], &[("monitorInterval", "5")]),
            (&[("log4j.rootLogger", "INFO, x")], &[("log4j.rootLogger", "INFO, x")]),
        ];
        for (keys, expected) in rows {
            let mut all = default.clone();
            all.extend(expected.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
            assert_eq!(given(&text(&loggers(keys), None).unwrap()), all, "{keys:?}");
        }
    }

    #[test]
    fn a_value_cannot_add_lines() {
        let value = "INFO\nappender.evil.type = Http";
        let keys = given(&text(&loggers(&[("rootLogger.level", value)]), None).unwrap());
        assert_eq!(keys["rootLogger.level"], value);
        assert!(!keys.contains_key("appender.evil.type"));
    }

    #[test]
    fn external_text_is_used_as_it_is_and_reloads() {
        let rows = [
            ("", "monitorInterval=30\n"),
            ("a=b", "a=b\nmonitorInterval=30\n"),
            ("a=b\n", "a=b\nmonitorInterval=30\n"),
            ("monitorInterval=5", "monitorInterval=5"),
            (" monitorInterval : 5\na=b\n", " monitorInterval : 5\na=b\n"),
            ("monitor\\\nInterval 5\n", "monitor\\\nInterval 5\n"),
            ("# monitorInterval=5\n", "# monitorInterval=5\nmonitorInterval=30\n"),
            ("monitorIntervals=5\n", "monitorIntervals=5\nmonitorInterval=30\n"),
        ];
        for (given, expected) in rows {
            assert_eq!(text(&external(), Some(given)).as_deref(), Some(expected), "{given:?}");
        }
        assert_eq!(text(&external(), None), None);
        assert!(needs(&external()).is_some() && needs(&Logging::Default).is_none());
    }

    #[test]
    fn a_configuration_that_cannot_work_is_refused_with_its_line() {
        let good = "appender.c.type=Console\nappender.c.name=OUT\nrootLogger.level=INFO\n\
                    rootLogger.appenderRef.c.ref=OUT\n";
        let rows = [
            (good.to_owned(), None),
            (format!("{good}logger.x.level=PAPRIKA\n"), None),
            (format!("{good}# \\u\n"), None),
            (format!("{good}a=\\u12\n"), Some("line 5: the escape is malformed")),
            (
                format!("{good}\nmonitorInterval=soon\n"),
                Some("line 6: monitorInterval is not a number of seconds"),
            ),
            (
                format!("{good}logger.x.appenderRef.y.ref=FILE\n"),
                Some(
                    "line 5: logger.x.appenderRef.y.ref is FILE, which is not the name of an appender",
                ),
            ),
            (
                "log4j.rootLogger=INFO\n".to_owned(),
                Some("rootLogger is missing, so nothing would be logged"),
            ),
            (String::new(), Some("rootLogger is missing, so nothing would be logged")),
        ];
        for (text, expected) in rows {
            assert_eq!(problem(&text).as_deref(), expected, "{text}");
        }
        assert_eq!(problem(&default_text("INFO")), None);
        assert_eq!(problem(&text(&Logging::Default, None).unwrap()), None);
    }
}
