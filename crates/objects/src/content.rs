//! The content of a Secret.

use std::collections::BTreeMap;
use std::fmt;

/// Data and annotations of a Secret. `Debug` prints names only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretContent {
    /// The entries.
    pub data: BTreeMap<String, Vec<u8>>,
    /// All annotations, including unknown ones.
    pub annotations: BTreeMap<String, String>,
}

impl SecretContent {
    /// The bytes of an entry.
    #[must_use]
    pub fn text(&self, entry: &str) -> Option<&[u8]> {
        self.data.get(entry).map(Vec::as_slice)
    }

    /// Sets an entry.
    pub fn put(&mut self, entry: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.data.insert(entry.into(), bytes.into());
    }

    /// Sets an annotation.
    pub fn annotate(&mut self, name: &str, value: impl ToString) {
        self.annotations.insert(name.to_owned(), value.to_string());
    }

    /// A numeric annotation.
    #[must_use]
    pub fn number(&self, annotation: &str) -> Option<u64> {
        self.annotations.get(annotation)?.trim().parse().ok()
    }

    /// Whether an annotation is `true`.
    #[must_use]
    pub fn is_asked(&self, annotation: &str) -> bool {
        self.annotations.get(annotation).is_some_and(|value| value.trim() == "true")
    }
}

impl fmt::Debug for SecretContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretContent")
            .field("data", &self.data.keys().collect::<Vec<_>>())
            .field("annotations", &self.annotations)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_secret_is_not_shown() {
        let mut content = SecretContent::default();
        content.put("ca.key", "hidden");
        content.annotate("a", 7);
        let shown = format!("{content:?}");
        assert!(shown.contains("ca.key") && !shown.contains("hidden"), "{shown}");
        assert!(!shown.contains("104, 105"), "{shown}");
        assert_eq!(content.number("a"), Some(7));
    }
}
