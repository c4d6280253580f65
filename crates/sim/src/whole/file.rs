//! The configuration file of a node, as Kafka reads it.

use std::collections::BTreeMap;

/// The configuration file of a node.
pub(crate) fn properties(files: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let text = files.get("server.config").map(String::as_str).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once('='));
    lines.map(|(key, value)| (unescaped(key).trim().to_owned(), unescaped(value))).collect()
}

/// A key or a value as the operator writes it: a backslash stands before what would mean something else.
fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut chars = text.trim().chars();
    while let Some(one) = chars.next() {
        match (one, chars.as_str()) {
            ('\\', rest) if rest.starts_with('u') => {
                let digits = rest.get(1..5).unwrap_or_default();
                let code = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
                plain.extend(code);
                chars = rest.get(5..).unwrap_or_default().chars();
            }
            ('\\', _) => plain.extend(chars.next().map(|one| match one {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'f' => '\u{c}',
                other => other,
            })),
            _ => plain.push(one),
        }
    }
    plain
}
