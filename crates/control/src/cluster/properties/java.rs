//! Reads properties as `java.util.Properties` does, by its documentation.
//!
//! It shares nothing with [`render`](super::render), so that tests can compare both.

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(dead_code, reason = "tests of other programs need no line")]
pub(crate) struct Entry {
    /// The number of its first line, from 1.
    pub(crate) line: usize,
    pub(crate) key: String,
    pub(crate) value: String,
}

/// The entries of a text, in order and with repetitions, or the number of a line that Java rejects.
pub(crate) fn entries(text: &str) -> Result<Vec<Entry>, usize> {
    let entry = |(line, text): &(usize, String)| {
        let (key, value) = split(text);
        let (key, value) = (unescape(&key).ok_or(*line)?, unescape(&value).ok_or(*line)?);
        Ok(Entry { line: *line, key, value })
    };
    logical_lines(text).iter().map(entry).collect()
}

/// The keys and values of a text that Java accepts.
#[cfg(test)]
pub(crate) fn read(text: &str) -> Vec<(String, String)> {
    let entries = entries(text).expect("Java throws IllegalArgumentException");
    entries.into_iter().map(|entry| (entry.key, entry.value)).collect()
}

const WHITE: [char; 3] = [' ', '\t', '\u{c}'];

/// Lines end with a line feed, a carriage return or both. Comments and blank lines are left out, lines that
/// end with an odd number of backslashes are continued.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let natural = text.split('\n').map(|line| line.trim_start_matches(WHITE));
    let mut natural = natural.zip(1..);
    let mut lines = Vec::new();
    while let Some((line, number)) = natural.next() {
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut line = line.to_owned();
        while line.chars().rev().take_while(|c| *c == '\\').count() % 2 == 1 {
            line.pop();
            match natural.next() {
                Some((next, _)) => line.push_str(next),
                None => break,
            }
        }
        lines.push((number, line));
    }
    lines
}

/// The key ends at the first `=`, `:` or white space that is not escaped.
fn split(line: &str) -> (Vec<char>, Vec<char>) {
    let chars: Vec<char> = line.chars().collect();
    let mut at = 0;
    while at < chars.len() && !WHITE.contains(&chars[at]) && !['=', ':'].contains(&chars[at]) {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    let (key, rest) = chars.split_at(at.min(chars.len()));
    let rest: String = rest.iter().collect();
    let rest = rest.trim_start_matches(WHITE);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key.to_vec(), rest.trim_start_matches(WHITE).chars().collect())
}

/// A text of UTF-16 units, as Java has them. `None` if an escape is malformed.
fn unescape(chars: &[char]) -> Option<String> {
    let mut units = Vec::new();
    let mut chars = chars.iter().copied();
    while let Some(c) = chars.next() {
        let plain = match c {
            '\\' => match chars.next() {
                Some('t') => '\t',
                Some('r') => '\r',
                Some('n') => '\n',
                Some('f') => '\u{c}',
                Some('u') => {
                    let digits: String = chars.by_ref().take(4).collect();
                    if digits.len() != 4 {
                        return None;
                    }
                    units.push(u16::from_str_radix(&digits, 16).ok()?);
                    continue;
                }
                Some(other) => other,
                None => continue,
            },
            other => other,
        };
        units.extend_from_slice(plain.encode_utf16(&mut [0; 2]));
    }
    String::from_utf16(&units).ok()
}

/// The providers that a value refers to, as Kafka's `ConfigTransformer` finds them:
/// `\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}`.
#[cfg(test)]
#[allow(dead_code, reason = "not every program of tests looks for them")]
pub(crate) fn references(value: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = value;
    while let Some(begin) = rest.find("${") {
        rest = &rest[begin + 2..];
        let Some(end) = rest.find('}') else { break };
        if let Some((provider, _)) = rest[..end].split_once(':') {
            found.push(provider.to_owned());
            rest = &rest[end + 1..];
        }
    }
    found
}
