//! Certificates of the nodes, as [`crate::certificates::leaf`] decides.
//!
//! A Secret that is written ends the pass: a pod is started with the fingerprints of what is in it.

use crate::certificates::authority::{Reason as Held, Signing};
use crate::certificates::leaf::{self, Decision};
use crate::cluster::act::{Rule, What};
use crate::cluster::draft::{Draft, Flow};
use crate::cluster::snapshot::{CertificateView, Needs, Snapshot};
use crate::conditions::{Note, Reason};

/// The facts that the area requires.
#[must_use]
pub fn needs(snapshot: &Snapshot, _: &Draft) -> Needs {
    Needs { certificates: snapshot.certificates.is_unread(), ..Needs::default() }
}

/// Decides which certificates are issued, and which Secrets get the certificates of listeners.
pub fn decide(snapshot: &Snapshot, draft: &mut Draft) -> Flow {
    let Some(view) = snapshot.certificates.known() else {
        let message = "the certificates of the nodes are unknown";
        return Flow::Hold(Note::new(Reason::CertificateProblem, message));
    };
    if let Some(missing) = &view.missing {
        return Flow::Hold(Note::new(Reason::ListenerCertificateMissing, missing.clone()));
    }
    let signing = draft.outputs.signing.clone();
    for (id, one) in &view.nodes {
        let next = next(one, signing.as_ref());
        if let Some(problem) = next.problem {
            // What is stored stays in use.
            if one.found.read().is_none() {
                return Flow::Hold(Note::new(Reason::CertificateMissing, problem));
            }
            draft.warn(Reason::Certificate, problem);
        }
        if next.store {
            draft.act(What::StoreCertificate { id: *id }, Rule::CertificateIsDue);
        }
    }
    let stored = draft.acts.iter().filter(|act| matches!(act.what, What::StoreCertificate { .. }));
    match stored.count() {
        0 => Flow::Go,
        1 => Flow::Stop(Note::new(Reason::Certificate, "a certificate is stored")),
        count => {
            let message = format!("{count} certificates are stored");
            Flow::Stop(Note::new(Reason::Certificate, message))
        }
    }
}

/// What to do about a certificate.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Next {
    /// Whether its Secret is written.
    pub(super) store: bool,
    /// Why it is not issued though it should be.
    pub(super) problem: Option<String>,
}

pub(super) fn next(one: &CertificateView, signing: Option<&Signing>) -> Next {
    // Where the authority is unknown, it signs nothing.
    let signing = match signing {
        _ if one.unannounced => &Signing::Held(Held::NotAnnounced),
        Some(signing) => signing,
        None => &Signing::Held(Held::UseUnknown),
    };
    match leaf::decide(&one.found, &one.wanted, signing, &one.timing) {
        Decision::Issue(_) => Next { store: true, problem: None },
        Decision::Keep => Next { store: one.unmarked || one.incomplete, problem: None },
        Decision::Waits => Next { store: one.incomplete, problem: None },
        Decision::Hold { reason, .. } => Next {
            store: one.incomplete,
            problem: Some(format!("the certificate of {} is not issued: {reason}", one.entry)),
        },
    }
}

#[cfg(test)]
pub(in crate::cluster) mod tests {
    use super::*;
    use crate::certificates::{Entry, Timing, Validity};
    use crate::cluster::areas::samples::{NOW, asked, brief, id, settled};
    use crate::cluster::fact::{Fact, Why};
    use crate::cluster::snapshot::CertificatesView;

    const DAY: i64 = 86_400;

    pub(in crate::cluster::areas) fn good(entry: &str) -> CertificateView {
        let subject = leaf::Subject { common_name: entry.to_owned(), organization: None };
        let found = leaf::Found {
            subject: subject.clone(),
            names: [].into(),
            validity: Validity { not_before: 0, not_after: 365 * DAY },
            has_its_key: true,
            signed_by_current: true,
            chain_is_current: true,
        };
        CertificateView {
            entry: entry.to_owned(),
            found: Entry::Read(found),
            wanted: leaf::Wanted { subject, names: [].into() },
            timing: Timing { now: 100 * DAY, renewal_days: 30, window_open: true },
            unannounced: false,
            unmarked: false,
            incomplete: false,
        }
    }

    fn view() -> CertificatesView {
        let node = |node: i32| (id(node), good(&format!("c-{node}")));
        let nodes = (0..6).map(node).collect();
        CertificatesView { nodes, missing: None }
    }

    fn node(view: &mut CertificatesView) -> &mut CertificateView {
        view.nodes.get_mut(&id(3)).unwrap()
    }

    fn decided(view: CertificatesView, signing: Option<Signing>) -> (String, String, Draft) {
        let (mut snapshot, record) = settled();
        snapshot.certificates = Fact::read(view, NOW);
        let decide = |snapshot: &Snapshot, draft: &mut Draft| {
            draft.outputs.signing = signing.clone();
            super::decide(snapshot, draft)
        };
        brief(decide, &snapshot, &record)
    }

    fn waits(one: &mut CertificateView) {
        one.timing.now = 350 * DAY;
        one.timing.window_open = false;
    }

    type Edit = fn(&mut CertificatesView);

    #[test]
    #[rustfmt::skip]
    fn the_rows_hold() {
        const NODE: &str = "store the certificate of node 3";
        const STOP: &str = "stop Certificate";
        const HOLD: &str = "hold CertificateMissing";
        // What differs; what is done where the authority may sign, and where it may not.
        let rows: [(&str, Edit, (&str, &str), (&str, &str)); 11] = [
            ("nothing",                |_| {}, ("", "go"), ("", "go")),
            ("it has none",            |v| node(v).found = Entry::Missing, (NODE, STOP), ("", HOLD)),
            ("it cannot be read",      |v| node(v).found = Entry::Unreadable, (NODE, STOP), ("", HOLD)),
            ("it is due",              |v| node(v).timing.now = 350 * DAY, (NODE, STOP), ("", "go")),
            ("it waits for a window",  |v| waits(node(v)), ("", "go"), ("", "go")),
            ("it has no generations",  |v| node(v).unmarked = true, (NODE, STOP), (NODE, STOP)),
            ("and waits for a window", |v| { node(v).unmarked = true; waits(node(v)); }, ("", "go"), ("", "go")),
            ("a listener's changed",   |v| node(v).incomplete = true, (NODE, STOP), (NODE, STOP)),
            ("and it waits",           |v| { node(v).incomplete = true; waits(node(v)); }, (NODE, STOP), (NODE, STOP)),
            ("and it is due",          |v| { node(v).incomplete = true; node(v).timing.now = 350 * DAY; }, (NODE, STOP), (NODE, STOP)),
            ("a listener's is missing", |v| v.missing = Some("no entry".to_owned()), ("", "hold ListenerCertificateMissing"), ("", "hold ListenerCertificateMissing")),
        ];
        for (name, edit, allowed, held) in rows {
            let signings = [
                (Some(Signing::Allowed), allowed),
                (Some(Signing::Held(Held::KeyLost)), held),
                (None, held),
            ];
            for (signing, expected) in signings {
                let mut view = view();
                edit(&mut view);
                let (acts, flow, _) = decided(view, signing.clone());
                assert_eq!((acts.as_str(), flow.as_str()), expected, "{name}: {signing:?}");
            }
        }
    }

    #[test]
    fn what_cannot_be_issued_and_is_in_use_is_a_warning() {
        let mut view = view();
        node(&mut view).timing.now = 350 * DAY;
        node(&mut view).unannounced = true;
        let (acts, flow, draft) = decided(view, Some(Signing::Allowed));
        assert_eq!((acts.as_str(), flow.as_str()), ("", "go"));
        let [warning] = draft.warnings.as_slice() else { panic!("{:?}", draft.warnings) };
        assert!(warning.message.starts_with("the certificate of c-3 is not issued"), "{warning:?}");
    }

    #[test]
    fn all_that_are_missing_are_issued_in_one_pass() {
        let mut view = view();
        view.nodes.values_mut().for_each(|one| one.found = Entry::Missing);
        let (acts, flow, _) = decided(view, Some(Signing::Allowed));
        assert_eq!((acts.split("; ").count(), flow.as_str()), (6, "stop Certificate"));
    }

    #[test]
    fn unknown_certificates_hold_the_pass_and_are_asked_for_once() {
        let (mut snapshot, record) = settled();
        assert!(asked(needs, &snapshot, &record).certificates);
        snapshot.certificates = Fact::Unknown(Why::NoAnswer);
        assert!(asked(needs, &snapshot, &record).is_empty());
        let (acts, flow, _) = brief(decide, &snapshot, &record);
        assert_eq!((acts.as_str(), flow.as_str()), ("", "hold CertificateProblem"));
    }

    /// The rows with the acts and the reasons of the area.
    pub(in crate::cluster) fn rows() {
        the_rows_hold();
        what_cannot_be_issued_and_is_in_use_is_a_warning();
        unknown_certificates_hold_the_pass_and_are_asked_for_once();
    }
}
