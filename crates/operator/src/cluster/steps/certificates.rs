//! The certificates of the nodes, and what their pods are marked with because of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use control::certificates::authority::Kind;
use control::cluster::spec::{Certificate, Listener};
use control::conditions::{Note, Reason};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use model::NodeId;

use super::authorities::{clock, put, wishes};
use crate::cluster::error::PassError;
use crate::cluster::pass::{Step, Work};
use crate::cluster::resources::{Node, secrets};
use crate::hash;
use crate::pki::{leaf, names};

/// The annotation with the fingerprint of a node's certificate.
pub(crate) const SERVER_CERT: &str = "strimzi.io/server-cert-hash";
/// The annotation with the fingerprints of the certificates that users brought.
pub(crate) const LISTENER_CERTS: &str = "strimzi.io/custom-listener-cert-thumbprints";

/// What pods are marked with.
#[derive(Debug, Default)]
pub(crate) struct Certificates {
    pub(crate) marks: BTreeMap<NodeId, BTreeMap<String, String>>,
}

pub(crate) async fn run(work: &mut Work) -> Result<Step, PassError> {
    let brought = match brought(work).await? {
        Ok(brought) => brought,
        Err(note) => return Ok(Step::Hold(note)),
    };
    for node in work.blueprint.nodes.clone() {
        if let Some(hold) = of_node(work, &node, &brought).await? {
            return Ok(Step::Hold(hold));
        }
    }
    Ok(Step::Done)
}

/// The entries of node Secrets for certificates that users brought for their listeners.
async fn brought(work: &Work) -> Result<Result<BTreeMap<String, Vec<u8>>, Note>, PassError> {
    let mut entries = BTreeMap::new();
    let api = work.api::<Secret>();
    for listener in &work.blueprint.spec.listeners {
        let Some(Certificate { secret, certificate, key }) = &listener.certificate else {
            continue;
        };
        let found = api.get_opt(secret).await.map_err(|e| PassError::Get(Box::new(e)))?;
        let data = found.and_then(|secret| secret.data).unwrap_or_default();
        for (name, suffix) in [(certificate, "crt"), (key, "key")] {
            let Some(ByteString(bytes)) = data.get(name) else {
                return Ok(Err(Note::new(
                    Reason::ListenerCertificateMissing,
                    format!(
                        "listener {} is to show the certificate of Secret {secret}, which has \
                         no entry {name}",
                        listener.name
                    ),
                )));
            };
            entries.insert(format!("{}.{suffix}", listener.key()), bytes.clone());
        }
    }
    Ok(Ok(entries))
}

/// Brings the Secret of one node up to date. Returns why it cannot be, if it cannot.
async fn of_node(
    work: &mut Work,
    node: &Node,
    brought: &BTreeMap<String, Vec<u8>>,
) -> Result<Option<Note>, PassError> {
    let Some(authorities) = &work.known.authorities else { return Ok(None) };
    let pod = work.blueprint.pod(node);
    let found = work.found.secrets.get(&pod).map(secrets::content);
    let wanted = leaf::Wanted::node(
        &work.blueprint.names.cluster,
        &pod,
        hosts(work, node),
        &wishes(work, Kind::Cluster),
    );
    let outcome = leaf::next(found.as_ref(), &wanted, &authorities.cluster, &clock(work))
        .map_err(|error| PassError::Certificates(Box::new(error)))?;
    let Some(thumbprint) = outcome.thumbprint else {
        let why = outcome.warning.unwrap_or_else(|| format!("{pod} has no certificate"));
        return Ok(Some(Note::new(Reason::CertificateMissing, why)));
    };
    let mut marks: BTreeMap<String, String> = [
        (names::CLUSTER_CERT_GENERATION, authorities.cluster.cert_generation.to_string()),
        (names::CLUSTER_KEY_GENERATION, outcome.key_generation.unwrap_or_default().to_string()),
        (names::CLIENTS_CERT_GENERATION, authorities.clients.cert_generation.to_string()),
        (SERVER_CERT, thumbprint),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    if !brought.is_empty() && node.roles.is_broker() {
        let prints = brought.iter().map(|(name, bytes)| format!("{name}={}", hash::short(bytes)));
        marks.insert(LISTENER_CERTS.to_owned(), prints.collect::<Vec<_>>().join(","));
    }
    work.warnings.extend(outcome.warning.map(|text| Note::new(Reason::Certificate, text)));
    work.known.certificates.marks.insert(node.id, marks);
    let mut content = outcome.secret.or(found).unwrap_or_default();
    let own = [format!("{pod}.crt"), format!("{pod}.key")];
    content.data.retain(|name, _| own.contains(name));
    content.data.extend(brought.clone());
    let labels = work.blueprint.node_labels(node);
    put(work, (&pod, labels), content, true).await?;
    Ok(None)
}

/// All names and addresses by which a node is reached.
fn hosts(work: &Work, node: &Node) -> leaf::Names {
    let (names, domain) = (&work.blueprint.names, &work.blueprint.domain);
    let mut all: BTreeSet<String> = BTreeSet::new();
    all.extend(names.service_hosts(&names.bootstrap_service(), domain));
    all.extend(names.service_hosts(&names.brokers_service(), domain));
    let host = names.host(&work.blueprint.pod(node));
    all.insert(format!("{host}.{domain}"));
    all.insert(host);
    if node.roles.is_broker() {
        for listener in &work.blueprint.spec.listeners {
            all.extend(listener_hosts(work, node, listener));
        }
    }
    let (mut dns, mut addresses) = (BTreeSet::new(), BTreeSet::new());
    for name in all {
        match name.parse::<IpAddr>() {
            Ok(address) => {
                addresses.insert(address);
            }
            Err(_) => {
                dns.insert(name);
            }
        }
    }
    leaf::Names { dns, addresses }
}

/// The names by which clients of a listener that is not internal reach a broker.
fn listener_hosts(work: &Work, node: &Node, listener: &Listener) -> Vec<String> {
    let mut all = listener.alternative_names.clone();
    let Some(known) = &work.known.addresses else { return all };
    let begin = known.bootstrap.get(&listener.name).into_iter().flatten();
    all.extend(begin.map(|(host, _)| host.clone()));
    if let Some((Some(host), _)) = known.brokers.get(&(node.id, listener.name.clone())) {
        all.push(host.clone());
    }
    let wish = listener.brokers.get(&node.id).and_then(|broker| broker.advertised_host.clone());
    let template = listener.advertised_host.as_ref().map(|template| {
        control::cluster::properties::broker_text(template, node.id, &work.blueprint.pod(node))
    });
    all.extend(wish.or(template));
    all
}
