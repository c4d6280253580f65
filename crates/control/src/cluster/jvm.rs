//! How the JVM of a node is started: the lines of `jvm.options`.
//!
//! 1. What the user says of the heap holds; else it comes from the memory that the node may use
//!    ([`heap`]).
//! 2. An option is a line. A text with a line break would be two options, so it is left out and told.

use super::spec::JvmWishes;
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
pub fn options(wishes: &JvmWishes, memory_bytes: Option<u64>) -> JvmOptions {
    let mut options: Vec<(String, String)> = Vec::new();
    let heap_sizes = [("-Xms", &wishes.heap_initial), ("-Xmx", &wishes.heap_max)];
    for (name, size) in heap_sizes {
        options.extend(size.iter().map(|size| (name.to_owned(), format!("{name}{size}"))));
    }
    for (name, value) in &wishes.xx {
        // As users write switches of Java in a map.
        let option = match value.as_str() {
            "true" => format!("-XX:+{name}"),
            "false" => format!("-XX:-{name}"),
            value => format!("-XX:{name}={value}"),
        };
        options.push((format!("-XX:{name}"), option));
    }
    for (name, value) in &wishes.system_properties {
        options.push((format!("-D{name}"), format!("-D{name}={value}")));
    }
    let (lines, broken): (Vec<_>, Vec<_>) =
        options.into_iter().partition(|(_, option)| !option.contains(['\n', '\r']));
    let given: Vec<String> = lines.into_iter().map(|(_, option)| option).collect();
    let mut lines = heap::options(&given, memory_bytes);
    lines.extend(given);
    if wishes.gc_logging {
        lines.push(GC_LOG.to_owned());
    }
    let left_out = broken.into_iter().map(|(name, _)| name.replace(['\n', '\r'], " ")).collect();
    JvmOptions { lines, left_out }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(change: impl FnOnce(&mut JvmWishes)) -> JvmWishes {
        let mut wishes = JvmWishes::default();
        change(&mut wishes);
        wishes
    }

    fn xx(rows: &[(&str, &str)]) -> JvmWishes {
        let rows = rows.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        wishes(|wishes| wishes.xx = rows.collect())
    }

    #[test]
    fn options_by_what_was_asked_for() {
        let gi = Some(2 << 30);
        let heap = ["-Xms1073741824", "-Xmx1073741824"];
        let rows: Vec<(JvmWishes, Option<u64>, Vec<&str>)> = vec![
            (JvmWishes::default(), None, vec!["-Xms128M"]),
            (JvmWishes::default(), gi, heap.to_vec()),
            (wishes(|w| w.heap_max = Some("4g".into())), gi, vec!["-Xmx4g"]),
            (
                wishes(|w| (w.heap_initial, w.heap_max) = (Some("1g".into()), Some("4g".into()))),
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
                wishes(|w| {
                    w.gc_logging = true;
                    w.system_properties = vec![("b".into(), "x y".into()), ("a".into(), "".into())];
                }),
                None,
                vec!["-Xms128M", "-Db=x y", "-Da=", "-Xlog:gc*:stdout:time"],
            ),
        ];
        for (wishes, memory_bytes, expected) in rows {
            let found = options(&wishes, memory_bytes);
            assert_eq!(found.lines, expected, "{wishes:?}");
            assert!(found.left_out.is_empty());
        }
    }

    #[test]
    fn one_option_cannot_become_two() {
        let wishes = wishes(|w| {
            w.heap_max = Some("1g\n-javaagent:x".into());
            w.system_properties = vec![("a\rb".into(), "1".into()), ("c".into(), "1".into())];
        });
        let found = options(&wishes, None);
        assert_eq!(found.render(), "-Xms128M\n-Dc=1\n");
        assert_eq!(found.left_out, ["-Xmx", "-Da b"]);
    }
}
