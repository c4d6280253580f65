//! Reads properties as `java.util.Properties` does, by its documentation, for tests of what is written.
//!
//! It shares nothing with what writes them, and it is no part of what is shipped.

/// The keys and values of a text, in order and with repetitions.
pub(crate) fn read(text: &str) -> Vec<(String, String)> {
    logical_lines(text).iter().map(|line| split(line)).collect()
}

const WHITE: [char; 3] = [' ', '\t', '\u{c}'];

/// Lines end with a line feed, a carriage return or both. Comments and blank lines are left out, lines that
/// end with an odd number of backslashes are continued.
fn logical_lines(text: &str) -> Vec<String> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut natural = text.split('\n').map(|line| line.trim_start_matches(WHITE));
    let mut lines = Vec::new();
    while let Some(line) = natural.next() {
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut line = line.to_owned();
        while line.chars().rev().take_while(|c| *c == '\\').count() % 2 == 1 {
            line.pop();
            match natural.next() {
                Some(next) => line.push_str(next),
                None => break,
            }
        }
        lines.push(line);
    }
    lines
}

/// The key ends at the first `=`, `:` or white space that is not escaped.
fn split(line: &str) -> (String, String) {
    let chars: Vec<char> = line.chars().collect();
    let mut at = 0;
    while at < chars.len() && !WHITE.contains(&chars[at]) && !['=', ':'].contains(&chars[at]) {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    let (key, rest) = chars.split_at(at.min(chars.len()));
    let rest: String = rest.iter().collect();
    let rest = rest.trim_start_matches(WHITE);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    let value: Vec<char> = rest.trim_start_matches(WHITE).chars().collect();
    (unescape(key), unescape(&value))
}

/// A text of UTF-16 units, as Java has them.
fn unescape(chars: &[char]) -> String {
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
                    let unit = u16::from_str_radix(&digits, 16);
                    units.push(unit.expect("Java throws IllegalArgumentException"));
                    continue;
                }
                Some(other) => other,
                None => continue,
            },
            other => other,
        };
        units.extend_from_slice(plain.encode_utf16(&mut [0; 2]));
    }
    String::from_utf16(&units).expect("pairs of surrogates")
}

/// The providers that a value refers to, as Kafka's `ConfigTransformer` finds them:
/// `\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}`.
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
