//! The certificates of nodes, reduced to what decisions know of them: who has one that fits, and what its pod is marked
//! with.
//!
//! Authorities stay as they are. Without facts about them, certificates are taken for good.

use std::collections::BTreeMap;

use control::annotations::Annotation;
use control::certificates::{Entry, Timing, Validity, leaf};
use control::cluster::snapshot::{AuthoritiesView, CertificateView, CertificatesView};
use model::NodeId;
use objects::Blueprint;
use objects::pods::Marks;

/// The one with the fingerprint of the certificate.
const CERTIFICATE: &str = Annotation::ServerCertHash.name();
/// How long a new certificate holds.
const VALIDITY_S: i64 = 365 * 86_400;

/// The certificates of a cluster.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    /// The authorities and the certificates of the nodes; `None` if they are unknown.
    pub(crate) views: Option<(AuthoritiesView, CertificatesView)>,
    /// What the pods of nodes are marked with.
    pub(crate) marks: Marks,
    /// The number of certificates that were stored.
    pub(crate) stored: u64,
}

impl Keys {
    /// The marks of all nodes of a cluster. A node without a certificate has none.
    pub(crate) fn marks_of(&self, blueprint: &Blueprint) -> Marks {
        let of = |id: NodeId| {
            let known = self.marks.get(&id).cloned();
            let is_assumed = self.views.is_none() && !self.marks.is_empty();
            known.or_else(|| is_assumed.then(|| self.new_marks(id)))
        };
        blueprint.nodes.iter().filter_map(|node| Some((node.id, of(node.id)?))).collect()
    }

    /// What decisions know of the certificates.
    pub(crate) fn certificates(&self, blueprint: &Blueprint) -> Option<CertificatesView> {
        let (_, known) = self.views.as_ref()?;
        let of = |node: &objects::Node| {
            let view = known.nodes.get(&node.id).cloned();
            (node.id, view.unwrap_or_else(|| missing(&blueprint.pod(node), known)))
        };
        let nodes = blueprint.nodes.iter().map(of).collect();
        Some(CertificatesView { nodes, missing: known.missing.clone() })
    }

    /// The certificate of a node is stored.
    pub(crate) fn store(&mut self, id: NodeId, pod: &str, now_ms: u64) {
        self.stored += 1;
        let marks = self.new_marks(id);
        self.marks.insert(id, marks);
        let Some((_, known)) = &mut self.views else { return };
        let now = i64::try_from(now_ms / 1_000).unwrap_or_default();
        let mut view = known.nodes.get(&id).cloned().unwrap_or_else(|| missing(pod, known));
        view.found = Entry::Read(leaf::Found {
            subject: view.wanted.subject.clone(),
            names: view.wanted.names.clone(),
            validity: Validity { not_before: now - 60, not_after: now + VALIDITY_S },
            has_its_key: true,
            signed_by_current: true,
            chain_is_current: true,
        });
        (view.unannounced, view.unmarked, view.incomplete) = (false, false, false);
        known.nodes.insert(id, view);
    }

    /// The generations that the other nodes have, and a certificate of its own.
    fn new_marks(&self, id: NodeId) -> BTreeMap<String, String> {
        let mut marks = self.marks.get(&id).or_else(|| self.marks.values().next()).cloned();
        let marks = marks.get_or_insert_default();
        marks.insert(CERTIFICATE.to_owned(), format!("simulated-{id}-{}", self.stored));
        std::mem::take(marks)
    }
}

/// A certificate that is still to be issued.
fn missing(pod: &str, known: &CertificatesView) -> CertificateView {
    let timing = known.nodes.values().next().map(|one| one.timing);
    let subject = leaf::Subject { common_name: pod.to_owned(), organization: None };
    CertificateView {
        entry: pod.to_owned(),
        found: Entry::Missing,
        wanted: leaf::Wanted { subject, names: [].into() },
        timing: timing.unwrap_or(Timing { now: 0, renewal_days: 30, window_open: true }),
        unannounced: false,
        unmarked: false,
        incomplete: false,
    }
}
