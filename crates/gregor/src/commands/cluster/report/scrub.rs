//! Removes secrets from the files of a report.
//!
//! 1. No value of a Secret of the namespace is in a report: neither as it is, nor in base64, nor a line of it, nor as it is
//!    escaped in JSON.
//! 2. No private key in PEM is in a report, whether or not it is in a Secret.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Secret;
use operator::cluster::foresee::HIDDEN;
use serde_json::Value;

/// Shorter values are words such as `true`, which would be removed everywhere.
const LENGTH_MIN: usize = 6;
/// Shorter lines of a value are not unique to it.
const LINE_LENGTH_MIN: usize = 16;

const PEM_BEGIN: &str = "-----BEGIN ";
const PEM_END: &str = "-----END ";
const PRIVATE: &str = "PRIVATE KEY-----";

/// Known secret values.
#[derive(Debug, Default)]
pub(super) struct Scrubber {
    /// The longest first: one value may be a part of another.
    values: Vec<String>,
}

impl Scrubber {
    /// Knows the values of these Secrets. Certificates are not secret, but are in the same Secrets.
    pub(super) fn of(secrets: &[Secret]) -> Self {
        let mut values = BTreeSet::new();
        for bytes in secrets.iter().flat_map(|secret| secret.data.iter().flatten()) {
            let (_, bytes) = bytes;
            values.insert(base64(&bytes.0));
            let Ok(text) = std::str::from_utf8(&bytes.0) else { continue };
            for text in [text, text.trim()] {
                values.insert(text.to_owned());
                let escaped = Value::from(text).to_string();
                values.insert(escaped.trim_matches('"').to_owned());
            }
            let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("-----"));
            values.extend(lines.filter(|line| line.len() >= LINE_LENGTH_MIN).map(str::to_owned));
        }
        let mut values: Vec<_> =
            values.into_iter().filter(|value| value.len() >= LENGTH_MIN).collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self { values }
    }

    /// A file without secrets.
    pub(super) fn clean(&self, file: &[u8]) -> Vec<u8> {
        let mut text = String::from_utf8_lossy(file).into_owned();
        for value in &self.values {
            if text.contains(value.as_str()) {
                text = text.replace(value.as_str(), HIDDEN);
            }
        }
        without_keys(&text).into_bytes()
    }
}

fn base64(bytes: &[u8]) -> String {
    let value = serde_json::to_value(k8s_openapi::ByteString(bytes.to_vec()));
    value.ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// A text without private keys. A key whose end is missing is removed up to the end of the text.
fn without_keys(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(PEM_BEGIN) {
        let header = &rest[at + PEM_BEGIN.len()..];
        let is_key = header.find("-----").is_some_and(|end| {
            header.get(..end + 5).is_some_and(|header| header.ends_with(PRIVATE))
        });
        clean.push_str(&rest[..at]);
        if !is_key {
            clean.push_str(PEM_BEGIN);
            rest = header;
            continue;
        }
        clean.push_str(HIDDEN);
        rest = match header.find(PEM_END) {
            None => "",
            Some(end) => {
                let footer = &header[end + PEM_END.len()..];
                footer.find("-----").map_or("", |end| &footer[end + 5..])
            }
        };
    }
    clean + rest
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::ByteString;

    use super::*;

    fn scrubber(values: &[&str]) -> Scrubber {
        let entry = |(number, value): (usize, &&str)| {
            (number.to_string(), ByteString(value.as_bytes().to_vec()))
        };
        let data: BTreeMap<_, _> = values.iter().enumerate().map(entry).collect();
        Scrubber::of(&[Secret { data: Some(data), ..Secret::default() }])
    }

    fn clean(scrubber: &Scrubber, text: &str) -> String {
        String::from_utf8(scrubber.clean(text.as_bytes())).unwrap()
    }

    #[test]
    fn values_of_secrets_are_removed_in_every_form() {
        let key = "first-line-of-the-secret\nsecond-line-of-the-secret\n";
        let scrubber = scrubber(&["canary\"quoted", "s3cret", key, "yes"]);
        let rows = [
            ("password=s3cret!", format!("password={HIDDEN}!")),
            // In base64.
            ("czNjcmV0", HIDDEN.to_owned()),
            (r#"{ "a": "canary\"quoted" }"#, format!(r#"{{ "a": "{HIDDEN}" }}"#)),
            ("x second-line-of-the-secret y", format!("x {HIDDEN} y")),
            ("first-line-of-the-secret\\nsecond-line-of-the-secret\\n", HIDDEN.to_owned()),
            ("yes, a word", "yes, a word".to_owned()),
        ];
        for (text, expected) in rows {
            assert_eq!(clean(&scrubber, text), expected, "{text}");
        }
    }

    #[test]
    fn private_keys_are_removed_and_certificates_are_not() {
        let none = Scrubber::default();
        let key = "a -----BEGIN EC PRIVATE KEY-----\nabc\n-----END EC PRIVATE KEY-----\nb";
        assert_eq!(clean(&none, key), format!("a {HIDDEN}\nb"));
        let escaped = key.replace('\n', "\\n");
        assert_eq!(clean(&none, &escaped), format!("a {HIDDEN}\\nb"));
        let cut = "a -----BEGIN PRIVATE KEY-----\nabc";
        assert_eq!(clean(&none, cut), format!("a {HIDDEN}"));
        let certificate = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n";
        assert_eq!(clean(&none, certificate), certificate);
        let both = format!("{certificate}{key}{certificate}");
        assert_eq!(clean(&none, &both), format!("{certificate}a {HIDDEN}\nb{certificate}"));
        assert_eq!(clean(&none, "-----BEGIN "), "-----BEGIN ");
    }
}
