//! How the JVM of a node is started: the lines of `jvm.options`.
//!
//! 1. What the user says of the heap holds; else it comes from the memory that the node may use
//!    ([`heap`]).
//! 2. An option is one line and one argument of the command line, and its name is all of what is in front of
//!    the value. One that would be something else is left out and named.

use super::spec::JvmSettings;
use crate::node::heap;

/// The garbage collector's log goes where all logs go.
const GC_LOG: &str = "-Xlog:gc*:stdout:time";

/// The options of a JVM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JvmOptions {
    /// One option each.
    pub lines: Vec<String>,
    /// The names of options that were left out.
    pub left_out: Vec<String>,
}

impl JvmOptions {
    /// The text of `jvm.options`.
    #[must_use]
    pub fn render(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// The options of a node's JVM. `memory_bytes` is what the node may use: its limit, or what it asked for.
#[must_use]
pub fn options(settings: &JvmSettings, memory_bytes: Option<u64>) -> JvmOptions {
    let mut options: Vec<(String, bool, String)> = Vec::new();
    let heap_sizes = [("-Xms", &settings.heap_initial), ("-Xmx", &settings.heap_max)];
    for (name, size) in heap_sizes {
        let option = |size: &String| (name.to_owned(), is_size(size), format!("{name}{size}"));
        options.extend(size.iter().map(option));
    }
    for (name, value) in &settings.xx {
        // As users write switches of Java in a map.
        let option = match value.as_str() {
            "true" => format!("-XX:+{name}"),
            "false" => format!("-XX:-{name}"),
            value => format!("-XX:{name}={value}"),
        };
        let fits = is_flag(name) && is_value(value);
        options.push((format!("-XX:{name}"), fits, option));
    }
    for (name, value) in &settings.system_properties {
        let fits = is_property(name) && is_value(value);
        options.push((format!("-D{name}"), fits, format!("-D{name}={value}")));
    }
    let (lines, broken): (Vec<_>, Vec<_>) = options.into_iter().partition(|(_, fits, _)| *fits);
    let given: Vec<String> = lines.into_iter().map(|(_, _, option)| option).collect();
    let mut lines = heap::options(&given, memory_bytes);
    lines.extend(given);
    if settings.gc_logging {
        lines.push(GC_LOG.to_owned());
    }
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let shown = |(name, _, _): (String, bool, String)| name.chars().map(plain).collect();
    JvmOptions { lines, left_out: broken.into_iter().map(shown).collect() }
}

/// A size as the schema of the resource has it.
fn is_size(text: &str) -> bool {
    let number = text.strip_suffix(['m', 'M', 'g', 'G', 'k', 'K']).unwrap_or(text);
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_flag(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Java takes everything in front of the first `=` for the name.
fn is_property(name: &str) -> bool {
    let odd = |c: char| c == '=' || c.is_control() || c.is_whitespace();
    !name.is_empty() && !name.contains(odd)
}

/// Control characters end lines and arguments, and white space at the end of a line is no part of it.
fn is_value(value: &str) -> bool {
    !value.contains(char::is_control) && value.trim_end() == value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(change: impl FnOnce(&mut JvmSettings)) -> JvmSettings {
        let mut settings = JvmSettings::default();
        change(&mut settings);
        settings
    }

    fn xx(rows: &[(&str, &str)]) -> JvmSettings {
        let rows = rows.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        settings(|settings| settings.xx = rows.collect())
    }

    #[test]
    fn options_by_what_was_asked_for() {
        let gi = Some(2 << 30);
        let heap = ["-Xms1073741824", "-Xmx1073741824"];
        let rows: Vec<(JvmSettings, Option<u64>, Vec<&str>)> = vec![
            (JvmSettings::default(), None, vec!["-Xms128M"]),
            (JvmSettings::default(), gi, heap.to_vec()),
            (settings(|w| w.heap_max = Some("4g".into())), gi, vec!["-Xmx4g"]),
            (
                settings(|w| (w.heap_initial, w.heap_max) = (Some("1g".into()), Some("4g".into()))),
                None,
                vec!["-Xms1g", "-Xmx4g"],
            ),
            (xx(&[("MaxRAMPercentage", "70")]), gi, vec!["-XX:MaxRAMPercentage=70"]),
            (
                xx(&[("UseZGC", "true"), ("UseG1GC", "false"), ("MaxGCPauseMillis", "20")]),
                gi,
                [heap.as_slice(), &["-XX:MaxGCPauseMillis=20", "-XX:-UseG1GC", "-XX:+UseZGC"]]
                    .concat(),
            ),
            (
                settings(|w| {
                    w.gc_logging = true;
                    w.system_properties = vec![("b".into(), "x y".into()), ("a".into(), "".into())];
                }),
                None,
                vec!["-Xms128M", "-Db=x y", "-Da=", "-Xlog:gc*:stdout:time"],
            ),
        ];
        for (settings, memory_bytes, expected) in rows {
            let found = options(&settings, memory_bytes);
            assert_eq!(found.lines, expected, "{settings:?}");
            assert!(found.left_out.is_empty());
        }
    }

    #[test]
    fn one_option_cannot_become_two() {
        let settings = settings(|w| {
            w.heap_max = Some("1g\n-javaagent:x".into());
            w.system_properties = vec![("a\rb".into(), "1".into()), ("c".into(), "1".into())];
        });
        let found = options(&settings, None);
        assert_eq!(found.render(), "-Xms128M\n-Dc=1\n");
        assert_eq!(found.left_out, ["-Xmx", "-Da b"]);
    }

    #[test]
    fn an_option_that_java_would_read_otherwise_is_left_out() {
        let property = |name: &str, value: &str| {
            settings(|w| w.system_properties = vec![(name.to_owned(), value.to_owned())])
        };
        let rows: [(JvmSettings, &str); 12] = [
            (settings(|w| w.heap_max = Some("1g -javaagent:x".into())), "-Xmx"),
            (settings(|w| w.heap_initial = Some(String::new())), "-Xms"),
            (xx(&[("UseZGC -javaagent:x", "true")]), "-XX:UseZGC -javaagent:x"),
            (xx(&[("Flags=/etc/x", "1")]), "-XX:Flags=/etc/x"),
            (xx(&[("", "1")]), "-XX:"),
            (xx(&[("A", "1\u{0}2")]), "-XX:A"),
            (xx(&[("A", "1 ")]), "-XX:A"),
            (property("a=b", "c"), "-Da=b"),
            (property("a b", "c"), "-Da b"),
            (property("", "c"), "-D"),
            (property("a", "c\u{85}"), "-Da"),
            (property("a", "c\u{2028}"), "-Da"),
        ];
        for (settings, name) in rows {
            let found = options(&settings, None);
            assert_eq!(found.left_out, [name], "{settings:?}");
            assert_eq!(found.lines, ["-Xms128M"], "{settings:?}");
        }
    }
}
