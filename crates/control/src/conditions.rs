//! The conditions of a cluster, from what came of a pass.
//!
//! 1. There is one answer to "is it as I asked for": `Ready`, or `NotReady` with the reason. Never both, and
//!    never neither, unless nobody works on the cluster because it is paused.
//! 2. A cluster that has been ready stays `Ready` while it is brought to a new wish without a problem: its
//!    clients are served. `Progressing` says what is being done, and the observed generation is the old one
//!    until it is done.
//! 3. A reason is a word of a closed list of its area. No decision reads a condition back.

/// Something to tell people: a word for programs, a sentence for them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// One word in CamelCase.
    pub reason: &'static str,
    /// What holds, what is awaited, who must act.
    pub message: String,
}

impl Note {
    /// A note.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// What came of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is as it was asked for.
    Done,
    /// It is being brought there; nothing is wrong.
    Progressing(Note),
    /// It cannot go on before somebody or something changes.
    Held(Note),
    /// Nobody works on it because its user said so.
    Paused,
}

/// A type of condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The cluster is as it was asked for.
    Ready,
    /// It is not.
    NotReady,
    /// Something is being done.
    Progressing,
    /// Something that its user should know.
    Warning,
    /// Nobody works on it.
    ReconciliationPaused,
}

impl Kind {
    /// As it is written in a status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::NotReady => "NotReady",
            Self::Progressing => "Progressing",
            Self::Warning => "Warning",
            Self::ReconciliationPaused => "ReconciliationPaused",
        }
    }
}

/// A condition that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Its type.
    pub kind: Kind,
    /// Why, if there is something to say.
    pub note: Option<Note>,
}

/// All conditions, in the order in which people read them.
#[must_use]
pub fn conditions(outcome: &Outcome, warnings: &[Note], was_ready: bool) -> Vec<Condition> {
    let bare = |kind| Condition { kind, note: None };
    let with = |kind, note: &Note| Condition { kind, note: Some(note.clone()) };
    let mut all = match outcome {
        Outcome::Done => vec![bare(Kind::Ready)],
        Outcome::Progressing(note) if was_ready => {
            vec![bare(Kind::Ready), with(Kind::Progressing, note)]
        }
        Outcome::Progressing(note) | Outcome::Held(note) => vec![with(Kind::NotReady, note)],
        Outcome::Paused => vec![bare(Kind::ReconciliationPaused)],
    };
    let mut warnings: Vec<_> = warnings.to_vec();
    warnings.sort();
    warnings.dedup();
    all.extend(warnings.iter().map(|note| with(Kind::Warning, note)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_answer_to_whether_it_is_ready() {
        let note = || Note::new("Creating", "nodes start");
        let rows = [
            (Outcome::Done, false, "Ready"),
            (Outcome::Done, true, "Ready"),
            (Outcome::Progressing(note()), false, "NotReady"),
            (Outcome::Progressing(note()), true, "Ready Progressing"),
            (Outcome::Held(note()), false, "NotReady"),
            (Outcome::Held(note()), true, "NotReady"),
            (Outcome::Paused, true, "ReconciliationPaused"),
        ];
        for (outcome, was_ready, expected) in rows {
            let kinds: Vec<_> =
                conditions(&outcome, &[], was_ready).iter().map(|c| c.kind.name()).collect();
            assert_eq!(kinds.join(" "), expected, "{outcome:?} {was_ready}");
        }
    }

    #[test]
    fn warnings_are_told_once_and_in_a_stable_order() {
        let note = |reason| Note::new(reason, "m");
        let warnings = [note("B"), note("A"), note("B")];
        let all = conditions(&Outcome::Done, &warnings, true);
        let reasons: Vec<_> =
            all.iter().filter_map(|c| c.note.as_ref()).map(|note| note.reason).collect();
        assert_eq!(reasons, ["A", "B"]);
    }
}
