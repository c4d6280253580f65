//! Users with a password: Kafka gets what their Secrets hold, as [`users`] decides.
//!
//! Nothing depends on this area: an act that fails leaves the rest of its acts to the next pass, and the other areas go
//! on.

use crate::cluster::act::{Rule, What};
use crate::cluster::draft::{Draft, Flow};
use crate::cluster::fact::{Fact, Why};
use crate::cluster::snapshot::{Needs, Snapshot};
use crate::conditions::{Note, Reason};
use crate::users::{self, Act};

/// The facts that the area requires. Kafka is asked only if there are such users.
#[must_use]
pub fn needs(snapshot: &Snapshot, _: &Draft) -> Needs {
    let scram_users = !snapshot.users.is_empty() && snapshot.kafka.scram_users.is_unread();
    Needs { scram_users, ..Needs::default() }
}

/// Decides which credentials are set and deleted.
pub fn decide(snapshot: &Snapshot, draft: &mut Draft) -> Flow {
    let known = &snapshot.kafka.scram_users;
    let decision = users::decide(&snapshot.users, known.known());
    for note in &decision.notes {
        draft.warn(Reason::User, note.to_string());
    }
    for act in decision.acts {
        let (what, rule) = permitted(act);
        draft.act(what, rule);
    }
    match known {
        Fact::Unknown(Why::NoAnswer) => {
            let message =
                "Kafka does not report which users have a SCRAM credential; waiting for it";
            Flow::Wait(Note::new(Reason::UsersNotGiven, message))
        }
        Fact::Read { .. } | Fact::Unknown(Why::NotRead | Why::Unreachable) => Flow::Go,
    }
}

fn permitted(act: Act) -> (What, Rule) {
    match act {
        Act::Remember { user, mark } => {
            (What::RememberCredential { user, mark }, Rule::SecretIsMarked)
        }
        Act::Set { user } => (What::SetCredential { user }, Rule::PasswordIsNew),
        Act::Delete { user } => (What::DeleteCredential { user }, Rule::UserIsRemoved),
        Act::Release { user } => (What::ReleaseUser { user }, Rule::CredentialIsGone),
    }
}

#[cfg(test)]
pub(in crate::cluster) mod tests {
    use super::*;
    use crate::cluster::area::Area;
    use crate::cluster::areas::samples::{NOW, asked, brief, settled};
    use crate::cluster::record::Record;
    use crate::quorum::answer::Answer;
    use crate::users::{Mark, User};

    const NEW: &str = "mark the Secret of bob: its password is about to be set; set the SCRAM credential of bob; \
                       mark the Secret of bob: its password is set";

    /// A user that Kafka has not heard of.
    fn bob() -> (Snapshot, Record) {
        let (mut snapshot, record) = settled();
        snapshot.users.push(User {
            name: "bob".to_owned(),
            ours: true,
            deleting: false,
            wanted: Some("new".to_owned()),
            mark: Mark::None,
        });
        snapshot.kafka.scram_users = Fact::read([].into(), NOW);
        (snapshot, record)
    }

    fn known(snapshot: &mut Snapshot) {
        snapshot.kafka.scram_users = Fact::read(["bob".to_owned()].into(), NOW);
    }

    fn given(snapshot: &mut Snapshot, password: &str) {
        known(snapshot);
        snapshot.users[0].mark = Mark::Set(password.to_owned());
    }

    type Change = fn(&mut Snapshot);

    #[test]
    #[rustfmt::skip]
    fn the_rows_hold() {
        const RELEASE: &str = "remove the finalizer of the Secret of bob";
        const DELETE: &str = "delete the SCRAM credential of bob; remove the finalizer of the Secret of bob";
        // What differs from a new user, the acts, whether there is a warning, how the pass goes on.
        let rows: [(&str, Change, &str, bool, &str); 13] = [
            ("new",                         |_| {}, NEW, false, "go"),
            ("given",                       |s| given(s, "new"), "", false, "go"),
            ("another password",            |s| given(s, "old"), NEW, false, "go"),
            ("somebody else's credential",  known, "", true, "go"),
            ("no password",                 |s| s.users[0].wanted = None, "", true, "go"),
            ("of another tool",             |s| s.users[0].ours = false, "", false, "go"),
            ("deleted in Kafka",            |s| { given(s, "new"); s.kafka.scram_users = Fact::read([].into(), NOW); }, "set the SCRAM credential of bob", false, "go"),
            ("removed",                     |s| { given(s, "new"); s.users[0].deleting = true; }, DELETE, false, "go"),
            ("removed before it was applied", |s| s.users[0].deleting = true, RELEASE, false, "go"),
            ("Kafka does not answer",       |s| s.kafka.scram_users = Fact::Unknown(Why::NoAnswer), "", false, "wait UsersNotGiven"),
            ("nobody to ask",               |s| s.kafka.scram_users = Fact::Unknown(Why::Unreachable), "", false, "go"),
            ("removed, and no answer",      |s| { given(s, "new"); s.users[0].deleting = true; s.kafka.scram_users = Fact::Unknown(Why::NoAnswer); }, "", false, "wait UsersNotGiven"),
            ("no users",                    |s| s.users.clear(), "", false, "go"),
        ];
        for (name, change, acts, warns, flow) in rows {
            let (mut snapshot, record) = bob();
            change(&mut snapshot);
            let (found, went, draft) = brief(decide, &snapshot, &record);
            assert_eq!((found.as_str(), went.as_str()), (acts, flow), "{name}");
            assert_eq!(!draft.warnings.is_empty(), warns, "{name}");
            assert_eq!(draft.record, record, "{name}");
        }
    }

    #[test]
    fn kafka_is_asked_only_if_there_are_users() {
        let (mut snapshot, record) = bob();
        assert!(asked(needs, &snapshot, &record).is_empty());
        snapshot.kafka.scram_users = Fact::default();
        assert_eq!(
            asked(needs, &snapshot, &record),
            Needs { scram_users: true, ..Needs::default() }
        );
        snapshot.users.clear();
        assert!(asked(needs, &snapshot, &record).is_empty());
    }

    #[test]
    fn an_act_that_was_not_done_is_awaited_and_no_other_act_is() {
        let (snapshot, record) = bob();
        let (_, _, draft) = brief(decide, &snapshot, &record);
        let said = Some("Kafka refuses it".to_owned());
        for act in &draft.acts {
            assert_eq!(act.unfinished(Area::Users, &(Answer::Done, None)), None);
            for answer in [Answer::Refused, Answer::Unknown, Answer::NotSent] {
                let note = act.unfinished(Area::Users, &(answer, said.clone())).unwrap();
                assert_eq!(note, Note::new(Reason::UsersNotGiven, "Kafka refuses it"));
            }
        }
        let other =
            crate::cluster::act::Act::new(What::StopUnclaimedMoves, Rule::MovesAreUnclaimed);
        assert_eq!(other.unfinished(Area::Rebalance, &(Answer::Refused, said)), None);
    }

    /// The rows with the acts and the reasons of the area.
    pub(in crate::cluster) fn rows() {
        the_rows_hold();
    }
}
