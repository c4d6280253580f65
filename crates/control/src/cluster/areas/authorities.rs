//! Certificate authorities, as [`crate::certificates::authority`] decides, and what nodes trust of them.
//!
//! An authority that changes ends the pass: what it signs, and what is trusted, follows from what is stored then.

use crate::certificates::authority::{self, Act, Decision, Kind, Signing};
use crate::certificates::windows;
use crate::cluster::act::{Rule, What};
use crate::cluster::areas::certificates::{self, Next};
use crate::cluster::draft::{Draft, Flow};
use crate::cluster::snapshot::{CertificateView, Needs, Snapshot};
use crate::conditions::{Note, Reason};

/// The facts that the area requires.
#[must_use]
pub fn needs(snapshot: &Snapshot, _: &Draft) -> Needs {
    Needs { authorities: snapshot.authorities.is_unread(), ..Needs::default() }
}

/// Decides the next change of each authority.
pub fn decide(snapshot: &Snapshot, draft: &mut Draft) -> Flow {
    for (window, why) in windows::opening(&snapshot.desired.windows, 0).invalid {
        let message = format!("the maintenance window \"{window}\" is never open: {why}");
        draft.warn(Reason::InvalidMaintenanceWindow, message);
    }
    let Some(view) = snapshot.authorities.known() else {
        let message = "the certificate authorities are unknown";
        return Flow::Hold(Note::new(Reason::CertificateProblem, message));
    };
    let mut changes = Vec::new();
    let mut warnings = Vec::new();
    for (kind, one) in [(Kind::Cluster, &view.cluster), (Kind::Clients, &view.clients)] {
        let decision = authority::decide(&one.settings, &one.facts);
        warnings.extend(messages(&decision));
        if kind == Kind::Cluster {
            draft.outputs.signing = Some(decision.signing.clone());
        }
        match decision.act {
            Act::Keep | Act::Hold(_) => {}
            Act::Create
            | Act::Finish
            | Act::Renew(_)
            | Act::Stage(_)
            | Act::Publish
            | Act::Promote
            | Act::FinishPromotion
            | Act::Abandon
            | Act::DropOld(_) => {
                let what = What::ChangeAuthority { kind, change: decision.act };
                changes.push(what.to_string());
                draft.act(what, Rule::AuthorityIsDue);
            }
        }
    }
    if changes.is_empty() && !(view.cluster.trusted && view.clients.trusted) {
        return Flow::Hold(Note::new(Reason::CertificateAuthorityMissing, warnings.join("; ")));
    }
    for warning in warnings {
        draft.warn(Reason::CertificateAuthority, warning);
    }
    if !changes.is_empty() {
        return Flow::Stop(Note::new(Reason::CertificateAuthority, changes.join("; ")));
    }
    if !view.published {
        draft.act(What::PublishTrust, Rule::TrustComesFirst);
    }
    operator(&view.operator, draft)
}

/// The certificate with which the operator talks to nodes.
fn operator(one: &CertificateView, draft: &mut Draft) -> Flow {
    let Next { store, problem } = certificates::next(one, draft.outputs.signing.as_ref());
    if store {
        draft.act(What::StoreOperatorCertificate, Rule::CertificateIsDue);
    }
    match problem {
        Some(problem) if one.found.read().is_none() => {
            Flow::Hold(Note::new(Reason::CertificateMissing, problem))
        }
        problem => {
            draft.warnings.extend(problem.map(|text| Note::new(Reason::Certificate, text)));
            // Kafka is asked with it in the next pass.
            let message = "the certificate of the operator is stored";
            if store { Flow::Wait(Note::new(Reason::Certificate, message)) } else { Flow::Go }
        }
    }
}

/// What people should know of a decision.
fn messages(decision: &Decision) -> Vec<String> {
    let notes = decision.notes.iter().map(ToString::to_string);
    let held = match &decision.signing {
        Signing::Held(reason) => Some(reason.to_string()),
        Signing::Allowed => None,
    };
    notes.chain(held).collect()
}

#[cfg(test)]
pub(in crate::cluster) mod tests {
    use super::*;
    use crate::certificates::authority::{Certificates, Expiry, Facts, Keys, Settings, Source};
    use crate::certificates::{Entry, KeyId, Stored, Timing, Validity};
    use crate::cluster::areas::certificates::tests::good;
    use crate::cluster::areas::samples::{NOW, asked, brief, settled};
    use crate::cluster::fact::{Fact, Why};
    use crate::cluster::record::Record;
    use crate::cluster::snapshot::{AuthoritiesView, AuthorityView};

    const DAY: i64 = 86_400;

    /// An authority in the middle of its year, which every pod trusts and uses.
    fn steady(kind: Kind) -> AuthorityView {
        let key = KeyId("k".to_owned());
        let validity = Validity { not_before: 0, not_after: 365 * DAY };
        let certificate = authority::Certificate { key: key.clone(), validity };
        AuthorityView {
            settings: Settings {
                kind,
                source: Source::Generated,
                expiry: Expiry::RenewCertificate,
            },
            facts: Facts {
                keys: Stored::Present(Keys {
                    current: Entry::Read(key),
                    next: Entry::Missing,
                    generation: 0,
                    force_replace: false,
                }),
                certificates: Stored::Present(Certificates {
                    current: Entry::Read(certificate),
                    next: Entry::Missing,
                    old: Vec::new(),
                    generation: 0,
                    force_renew: false,
                }),
                in_use: Some(true),
                trusted_by_all: Some(true),
                used_by_all: Some(true),
                timing: Timing { now: 100 * DAY, renewal_days: 30, window_open: true },
            },
            trusted: true,
        }
    }

    fn view() -> AuthoritiesView {
        let (cluster, clients) = (steady(Kind::Cluster), steady(Kind::Clients));
        AuthoritiesView { cluster, clients, published: true, operator: good("cluster-operator") }
    }

    fn absent(one: &mut AuthorityView, in_use: bool) {
        (one.facts.keys, one.facts.certificates) = (Stored::Absent, Stored::Absent);
        (one.facts.in_use, one.trusted) = (Some(in_use), false);
    }

    fn decided(view: AuthoritiesView) -> (String, String, Draft) {
        let (mut snapshot, record) = settled();
        snapshot.authorities = Fact::read(view, NOW);
        brief(decide, &snapshot, &record)
    }

    type Edit = fn(&mut AuthoritiesView);

    #[test]
    #[rustfmt::skip]
    fn the_rows_hold() {
        // What differs from authorities that are as they should be, the acts, how the pass goes on.
        let rows: [(&str, Edit, &str, &str); 11] = [
            ("nothing",                   |_| {}, "", "go"),
            ("not published",             |v| v.published = false, "publish the certificates of the CAs", "go"),
            ("the operator has no certificate", |v| v.operator.found = Entry::Missing, "store the certificate of the operator", "wait Certificate"),
            ("and the CA may not sign",   |v| { v.operator.found = Entry::Missing; v.operator.unannounced = true; }, "", "hold CertificateMissing"),
            ("a new cluster",             |v| { absent(&mut v.cluster, false); absent(&mut v.clients, false); },
                "create the key and the certificate of the cluster CA; create the key and the certificate of the clients CA", "stop CertificateAuthority"),
            ("both Secrets are lost",     |v| absent(&mut v.cluster, true), "", "hold CertificateAuthorityMissing"),
            ("pods are unknown",          |v| { absent(&mut v.cluster, true); v.cluster.facts.in_use = None; }, "", "hold CertificateAuthorityMissing"),
            ("it is due",                 |v| v.clients.facts.timing.now = 350 * DAY, "renew the certificate (it expires soon) of the clients CA", "stop CertificateAuthority"),
            ("it waits for a window",     |v| { v.cluster.facts.timing.now = 350 * DAY; v.cluster.facts.timing.window_open = false; }, "", "go"),
            ("the user supplies it",      |v| v.cluster.settings.source = Source::Supplied, "", "go"),
            ("the user has not supplied it", |v| { v.cluster.settings.source = Source::Supplied; absent(&mut v.cluster, false); }, "", "hold CertificateAuthorityMissing"),
        ];
        for (name, edit, acts, flow) in rows {
            let mut view = view();
            edit(&mut view);
            let (found, went, _) = decided(view);
            assert_eq!((found.as_str(), went.as_str()), (acts, flow), "{name}");
        }
    }

    #[test]
    fn a_change_is_not_mixed_with_the_publication_of_what_was_before() {
        let mut view = view();
        view.published = false;
        view.cluster.facts.timing.now = 350 * DAY;
        let (acts, flow, _) = decided(view);
        assert_eq!(acts, "renew the certificate (it expires soon) of the cluster CA");
        assert_eq!(flow, "stop CertificateAuthority");
    }

    #[test]
    fn later_areas_learn_whether_the_cluster_ca_may_sign() {
        assert_eq!(decided(view()).2.outputs.signing, Some(Signing::Allowed));
        let mut lost = view();
        if let Stored::Present(keys) = &mut lost.cluster.facts.keys {
            keys.current = Entry::Missing;
        }
        let (_, flow, draft) = decided(lost);
        let held = Signing::Held(authority::Reason::KeyLost);
        assert_eq!((flow.as_str(), draft.outputs.signing), ("go", Some(held)));
        assert!(draft.warnings.iter().all(|note| note.reason == Reason::CertificateAuthority));
        assert_eq!(draft.warnings.len(), 1);
    }

    #[test]
    fn unknown_authorities_hold_the_pass_and_are_asked_for_once() {
        let (mut snapshot, record): (_, Record) = settled();
        assert!(asked(needs, &snapshot, &record).authorities);
        snapshot.authorities = Fact::Unknown(Why::NoAnswer);
        assert!(asked(needs, &snapshot, &record).is_empty());
        let (acts, flow, _) = brief(decide, &snapshot, &record);
        assert_eq!((acts.as_str(), flow.as_str()), ("", "hold CertificateProblem"));
    }

    #[test]
    fn a_maintenance_window_that_makes_no_sense_is_reported() {
        let (mut snapshot, record) = settled();
        snapshot.authorities = Fact::read(view(), NOW);
        snapshot.desired.windows = vec!["* * 0-1 ? * *".to_owned(), "every night".to_owned()];
        let (_, flow, draft) = brief(decide, &snapshot, &record);
        let reasons: Vec<_> = draft.warnings.iter().map(|note| note.reason).collect();
        assert_eq!((flow.as_str(), reasons), ("go", vec![Reason::InvalidMaintenanceWindow]));
    }

    /// The rows with the acts and the reasons of the area.
    pub(in crate::cluster) fn rows() {
        the_rows_hold();
        later_areas_learn_whether_the_cluster_ca_may_sign();
        unknown_authorities_hold_the_pass_and_are_asked_for_once();
        a_maintenance_window_that_makes_no_sense_is_reported();
    }
}
