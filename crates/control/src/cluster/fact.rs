//! A fact, with the time at which it was read, or why it is unknown. Unknown is not absent: no fact has a default.

use serde::{Deserialize, Serialize};

/// Something that was read, or could not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fact<T> {
    /// It was read.
    Read {
        /// What it is.
        value: T,
        /// When the read began, in milliseconds since 1970.
        at_ms: u64,
    },
    /// It is not known.
    Unknown(Why),
}

/// Why a fact is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Why {
    /// No decision needed it so far.
    NotRead,
    /// No node can be asked, such as in a cluster without a ready node.
    Unreachable,
    /// It was asked for, and there was no answer, or only a part of one.
    NoAnswer,
}

impl<T> Fact<T> {
    /// A fact that was read.
    pub const fn read(value: T, at_ms: u64) -> Self {
        Self::Read { value, at_ms }
    }

    /// The value, if it is known.
    pub const fn known(&self) -> Option<&T> {
        match self {
            Self::Read { value, .. } => Some(value),
            Self::Unknown(_) => None,
        }
    }

    /// Whether nobody has asked for it yet.
    pub const fn is_unread(&self) -> bool {
        matches!(self, Self::Unknown(Why::NotRead))
    }

    /// How old it is; `None` if it is unknown, and so not older than anything.
    pub const fn age_ms(&self, now_ms: u64) -> Option<u64> {
        match self {
            Self::Read { at_ms, .. } => Some(now_ms.saturating_sub(*at_ms)),
            Self::Unknown(_) => None,
        }
    }
}

impl<T> Default for Fact<T> {
    fn default() -> Self {
        Self::Unknown(Why::NotRead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_is_known_only_if_it_was_read() {
        let read = Fact::read(7, 1_000);
        assert_eq!((read.known(), read.age_ms(1_500)), (Some(&7), Some(500)));
        assert_eq!(read.age_ms(500), Some(0), "a clock that went back makes nothing older");
        for why in [Why::NotRead, Why::Unreachable, Why::NoAnswer] {
            let unknown = Fact::<i32>::Unknown(why);
            assert_eq!((unknown.known(), unknown.age_ms(1_500)), (None, None));
            assert_eq!(unknown.is_unread(), why == Why::NotRead);
        }
    }

    #[test]
    fn a_fact_survives_a_file() {
        for fact in [Fact::read(vec![1, 2], 5), Fact::Unknown(Why::NoAnswer)] {
            let text = serde_json::to_string(&fact).unwrap();
            assert_eq!(serde_json::from_str::<Fact<Vec<i32>>>(&text).unwrap(), fact);
        }
    }
}
