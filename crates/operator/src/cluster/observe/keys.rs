//! Certificate authorities and certificates, without anything secret.

use control::certificates::authority::Kind;
use control::cluster::fact::Fact;
use control::cluster::snapshot::{
    AuthoritiesView, AuthorityView, CertificateView, CertificatesView,
};
use model::NodeId;
use objects::areas::certificates::Entries;

use crate::cluster::error::PassError;
use crate::cluster::keys::{self, Contents};
use crate::cluster::pass::Work;
use crate::pki::authority::Outcome;
use crate::pki::{Clock, SecretContent, leaf};

/// The authorities, and the certificate of the operator.
pub(super) fn authorities(work: &Work) -> Fact<AuthoritiesView> {
    let [cluster, clients] = [Kind::Cluster, Kind::Clients].map(|kind| Contents::of(work, kind));
    let one = |kind: Kind, contents: &Contents| AuthorityView {
        settings: keys::spec(work, kind).settings(),
        facts: contents.facts(work, kind),
        trusted: contents.trusted().is_some(),
    };
    let bundle = keys::content(work, &work.blueprint.names.trust_bundle());
    let own = keys::content(work, &work.blueprint.names.operator_certificate());
    let authority = cluster.current(work, Kind::Cluster);
    let wanted = keys::operator_wanted(work);
    let view = AuthoritiesView {
        published: bundle.is_some() && bundle == keys::trust_bundle(&cluster, &clients),
        cluster: one(Kind::Cluster, &cluster),
        clients: one(Kind::Clients, &clients),
        operator: view(own.as_ref(), (&wanted, &authority), &keys::clock(work)),
    };
    Fact::read(view, work.found.at_ms)
}

/// The certificates of the nodes.
pub(super) async fn certificates(work: &Work) -> Result<Fact<CertificatesView>, PassError> {
    let (supplied, missing) = match keys::supplied(work).await? {
        Ok(supplied) => (supplied, None),
        Err(note) => (Entries::new(), Some(note.message)),
    };
    let authority = Contents::of(work, Kind::Cluster).current(work, Kind::Cluster);
    let clock = keys::clock(work);
    let node = |node: &objects::Node| -> (NodeId, CertificateView) {
        let pod = work.blueprint.pod(node);
        let (content, wanted) = (keys::content(work, &pod), keys::node_wanted(work, node));
        let mut view = view(content.as_ref(), (&wanted, &authority), &clock);
        view.incomplete = content
            .is_some_and(|content| keys::node_content(&pod, content.clone(), &supplied) != content);
        (node.id, view)
    };
    let nodes = work.blueprint.nodes.iter().map(node).collect();
    Ok(Fact::read(CertificatesView { nodes, missing }, work.found.at_ms))
}

fn view(
    content: Option<&SecretContent>,
    (wanted, authority): (&leaf::Wanted, &Outcome),
    clock: &Clock,
) -> CertificateView {
    let stored = leaf::stored(content, wanted, authority);
    CertificateView {
        entry: wanted.entry.clone(),
        found: stored.found,
        wanted: wanted.decided(),
        timing: wanted.timing(clock),
        unannounced: stored.unannounced,
        unmarked: stored.unmarked,
        incomplete: false,
    }
}
