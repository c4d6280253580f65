//! Acts on the Secrets with keys and certificates.
//!
//! What is written is made from what is stored now. A change that was decided on something else is not made.

use control::certificates::authority::{self, Kind};
use control::certificates::leaf::Decision;
use control::quorum::answer::Answer;
use model::NodeId;

use super::{Answered, DONE};
use crate::cluster::error::PassError;
use crate::cluster::keys::{self, Contents};
use crate::cluster::pass::Work;
use crate::pki::{leaf, names};

/// Changes the Secrets of an authority, keys first.
pub(super) async fn change_authority(
    work: &mut Work,
    kind: Kind,
    change: &authority::Act,
) -> Result<Answered, PassError> {
    let outcome = Contents::of(work, kind).next(work, kind)?;
    if outcome.decision.act != *change {
        let message = format!("the Secrets of the {} CA have changed", kind.name());
        return Ok((Answer::NotSent, Some(message)));
    }
    let cluster = &work.blueprint.names.cluster;
    let (key_name, cert_name) =
        (names::key_secret(cluster, kind), names::cert_secret(cluster, kind));
    let is_owned = match kind {
        Kind::Cluster => work.blueprint.spec.cluster_ca.owned,
        Kind::Clients => work.blueprint.spec.clients_ca.owned,
    };
    for (name, content) in [(key_name, outcome.key_secret), (cert_name, outcome.cert_secret)] {
        if let Some(content) = content {
            let labels = keys::labels(work, "certificate-authority");
            keys::put(work, (&name, labels), content, is_owned).await?;
        }
    }
    Ok(DONE)
}

/// Writes what nodes trust.
pub(super) async fn publish_trust(work: &mut Work) -> Result<Answered, PassError> {
    let [cluster, clients] = [Kind::Cluster, Kind::Clients].map(|kind| Contents::of(work, kind));
    let Some(content) = keys::trust_bundle(&cluster, &clients) else {
        return Ok((Answer::NotSent, Some("a CA has no certificate".to_owned())));
    };
    let name = work.blueprint.names.trust_bundle();
    let labels = keys::labels(work, "trust-bundle");
    keys::put(work, (&name, labels), content, true).await?;
    Ok(DONE)
}

/// Issues the certificate of the operator.
pub(super) async fn store_operator_certificate(work: &mut Work) -> Result<Answered, PassError> {
    let name = work.blueprint.names.operator_certificate();
    let wanted = keys::operator_wanted(work);
    let Some(content) = made(work, &name, &wanted)? else { return Ok(not_issued(&name)) };
    let labels = keys::labels(work, "strimzi");
    keys::put(work, (&name, labels), content, true).await?;
    Ok(DONE)
}

/// Issues the certificate of a node, and adds what users supply for listeners.
pub(super) async fn store_certificate(work: &mut Work, id: NodeId) -> Result<Answered, PassError> {
    let Some(node) = work.blueprint.nodes.iter().find(|node| node.id == id).cloned() else {
        return Ok((Answer::NotSent, Some(format!("node {id} is gone"))));
    };
    let pod = work.blueprint.pod(&node);
    let wanted = keys::node_wanted(work, &node);
    let Some(content) = made(work, &pod, &wanted)? else { return Ok(not_issued(&pod)) };
    let supplied = match keys::supplied(work).await? {
        Ok(supplied) => supplied,
        Err(note) => return Ok((Answer::NotSent, Some(note.message))),
    };
    let content = keys::node_content(&pod, content, &supplied);
    let labels = work.blueprint.node_labels(&node);
    keys::put(work, (&pod, labels), content, true).await?;
    Ok(DONE)
}

fn not_issued(name: &str) -> Answered {
    (Answer::NotSent, Some(format!("no certificate can be issued for {name} now")))
}

/// The content of a Secret with the certificate that is wanted; `None` if there is none and none can be issued.
fn made(
    work: &Work,
    name: &str,
    wanted: &leaf::Wanted,
) -> Result<Option<crate::pki::SecretContent>, PassError> {
    let authority = Contents::of(work, Kind::Cluster).current(work, Kind::Cluster);
    let stored = keys::content(work, name);
    let outcome = leaf::next(stored.as_ref(), wanted, &authority, &keys::clock(work))
        .map_err(|error| PassError::Certificates(Box::new(error)))?;
    Ok(match outcome.decision {
        Decision::Issue(_) => outcome.secret,
        Decision::Keep | Decision::Waits | Decision::Hold { .. } => outcome.secret.or(stored),
    })
}
