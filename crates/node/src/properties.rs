//! Parses Java properties files.
//!
//! Supports comments, separators, line continuations and escapes, except Unicode escapes outside the basic
//! plane. The last value of a key wins, as in Java. Values are not interpreted.

use std::collections::BTreeMap;

/// Keys and values of a file.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Properties(BTreeMap<String, String>);

// Values can be passwords.
impl std::fmt::Debug for Properties {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Properties {
    /// Parses a text. Any text is valid.
    pub(crate) fn parse(text: &str) -> Self {
        let mut all = BTreeMap::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let line = line.trim_start();
            if line.is_empty() || line.starts_with(['#', '!']) {
                continue;
            }
            let mut logical = line.to_owned();
            while is_continued(&logical) {
                logical.pop();
                logical.push_str(lines.next().unwrap_or_default().trim_start());
            }
            let (key, value) = split(&logical);
            all.insert(unescape(key), unescape(value));
        }
        Self(all)
    }

    /// The value of a key; an empty value counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(|value| value.trim()).filter(|value| !value.is_empty())
    }
}

/// Whether the line ends in an odd number of backslashes.
fn is_continued(line: &str) -> bool {
    line.chars().rev().take_while(|c| *c == '\\').count() % 2 == 1
}

/// Splits a line at the first unescaped separator; one `=` or `:` and the white space around it are dropped.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let is_end = |c: char| {
        let end = !escaped && (c == '=' || c == ':' || c.is_ascii_whitespace());
        escaped = !escaped && c == '\\';
        end
    };
    let Some(at) = line.find(is_end) else { return (line, "") };
    let rest = line[at..].trim_start();
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (&line[..at], rest.trim_start())
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => plain.push('\n'),
            Some('r') => plain.push('\r'),
            Some('t') => plain.push('\t'),
            Some('f') => plain.push('\u{c}'),
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                plain.push(code.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(other) => plain.push(other),
            None => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_java_reads_them() {
        let rows = [
            ("a=1", "a", Some("1")),
            ("a = 1 ", "a", Some("1")),
            ("  a : 1", "a", Some("1")),
            ("a 1", "a", Some("1")),
            ("a\t=\t1", "a", Some("1")),
            ("a=1\na=2", "a", Some("2")),
            ("# a=1", "a", None),
            ("! a=1", "a", None),
            ("a=", "a", None),
            ("a", "a", None),
            ("a=b=c:d", "a", Some("b=c:d")),
            ("a==b", "a", Some("=b")),
            ("a=x\\\n   y", "a", Some("xy")),
            ("a=x\\\\\nb=1", "a", Some("x\\")),
            ("a=x\\", "a", Some("x")),
            ("a\\:b=1", "a:b", Some("1")),
            ("a=\\u0041\\n", "a", Some("A")),
            ("a=\\uZZZZ", "a", Some("\u{fffd}")),
            ("a=\\u00", "a", Some("\0")),
            ("a=1\r\nb=2\r\n", "b", Some("2")),
        ];
        for (text, key, expected) in rows {
            assert_eq!(Properties::parse(text).get(key), expected, "{text:?}");
        }
    }

    #[test]
    fn values_are_not_in_debug_output() {
        let text = format!("{:?}", Properties::parse("ssl.key.password=hunter2"));
        assert!(text.contains("ssl.key.password") && !text.contains("hunter2"), "{text}");
    }
}
