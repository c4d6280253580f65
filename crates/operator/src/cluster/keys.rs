//! The keys and certificates of a cluster: what is stored of them, what they should be, and how they are written.

use std::collections::BTreeMap;

use api::kafka::{CertificateAuthority, ExpirationPolicy};
use api::names::Labels;
use control::annotations::Annotation;
use control::certificates::authority::{Expiry, Facts, Kind, PodGenerations, Source, Users};
use control::certificates::windows;
use control::conditions::Note;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt as _;
use objects::areas::certificates::{self, Entries, Hosts, Secrets};
use objects::pods::Marks;
use objects::{Node, secrets};
use time::OffsetDateTime;

use super::error::PassError;
use super::pass::Work;
use crate::pki::authority::{self, Observed, Outcome, Spec};
use crate::pki::{Clock, SecretContent, leaf, names};

/// The annotation with the fingerprint of a node's certificate.
pub(crate) const SERVER_CERT: &str = Annotation::ServerCertHash.name();
/// The annotation with the fingerprints of the certificates that users supply for listeners.
pub(crate) const LISTENER_CERTS: &str = Annotation::ListenerCertThumbprints.name();

/// What the operator talks to nodes with.
#[derive(Debug)]
pub(crate) struct Authorities {
    /// The certificates that nodes are trusted by, in PEM.
    pub(crate) trusted: String,
    pub(crate) operator_certificate: Vec<u8>,
    pub(crate) operator_key: Vec<u8>,
}

/// The time, for certificates, and whether it is one at which pods may be restarted for them.
pub(crate) fn clock(work: &Work) -> Clock {
    let now = OffsetDateTime::now_utc().unix_timestamp();
    Clock { now, window_open: windows::opening(maintenance(work), now).is_open }
}

/// The maintenance windows that the user has set.
pub(crate) fn maintenance(work: &Work) -> &[String] {
    work.blueprint.kafka.spec.maintenance_time_windows.as_deref().unwrap_or_default()
}

/// What the user asks for of an authority.
pub(crate) fn spec(work: &Work, kind: Kind) -> Spec {
    let spec = &work.blueprint.kafka.spec;
    let none = CertificateAuthority::default();
    let ca = match kind {
        Kind::Cluster => spec.cluster_ca.as_ref(),
        Kind::Clients => spec.clients_ca.as_ref(),
    };
    let ca = ca.unwrap_or(&none);
    let expiry = match ca.certificate_expiration_policy.unwrap_or_default() {
        ExpirationPolicy::RenewCertificate => Expiry::RenewCertificate,
        ExpirationPolicy::ReplaceKey => Expiry::ReplaceKey,
    };
    Spec {
        kind,
        source: if ca.is_generated() { Source::Generated } else { Source::Supplied },
        expiry,
        validity_days: ca.validity_days(),
        renewal_days: ca.renewal_days(),
    }
}

/// What is stored of an authority.
pub(crate) struct Contents {
    keys: Option<SecretContent>,
    certificates: Option<SecretContent>,
    published: Option<Vec<u8>>,
    pods: Vec<Option<PodGenerations>>,
    stored: Vec<Option<u64>>,
}

impl Contents {
    pub(crate) fn of(work: &Work, kind: Kind) -> Self {
        let cluster = &work.blueprint.names.cluster;
        let bundle = content(work, &names::trust_bundle_secret(cluster));
        let published = bundle.and_then(|mut one| one.data.remove(names::trust_bundle_entry(kind)));
        Self {
            keys: content(work, &names::key_secret(cluster, kind)),
            certificates: content(work, &names::cert_secret(cluster, kind)),
            published,
            pods: pods(work, kind),
            stored: stored(work, kind),
        }
    }

    /// The certificates that are to be trusted, in PEM.
    pub(crate) fn trusted(&self) -> Option<String> {
        self.certificates.as_ref().and_then(authority::trust_bundle)
    }

    pub(crate) fn facts(&self, work: &Work, kind: Kind) -> Facts {
        authority::facts(&self.observed(), &spec(work, kind), &self.users(), &clock(work))
    }

    /// Decides on the authority again, and makes what is to be written.
    pub(crate) fn next(&self, work: &Work, kind: Kind) -> Result<Outcome, PassError> {
        authority::next(&self.observed(), &spec(work, kind), &self.users(), &clock(work))
            .map_err(|error| PassError::Certificates(Box::new(error)))
    }

    /// The authority as it is stored.
    pub(crate) fn current(&self, work: &Work, kind: Kind) -> Outcome {
        authority::current(&self.observed(), &spec(work, kind), &self.users(), &clock(work))
    }

    fn observed(&self) -> Observed<'_> {
        Observed {
            keys: self.keys.as_ref(),
            certificates: self.certificates.as_ref(),
            published: self.published.as_deref(),
        }
    }

    fn users(&self) -> Users<'_> {
        Users { pods: Some(&self.pods), stored: Some(&self.stored) }
    }
}

/// What is in a Secret.
pub(crate) fn content(work: &Work, name: &str) -> Option<SecretContent> {
    work.found.secrets.get(name).map(secrets::content)
}

/// What each pod of the cluster was started with of an authority.
fn pods(work: &Work, kind: Kind) -> Vec<Option<PodGenerations>> {
    let (cert, key) = names::generations(kind);
    let number = |pod: &Pod, name: &str| {
        pod.annotations().get(name).and_then(|text| text.parse::<u64>().ok())
    };
    let generations = |pod| {
        let certificates = number(pod, cert)?;
        let key = match kind {
            Kind::Cluster => number(pod, key)?,
            // Nodes present nothing that this authority has signed.
            Kind::Clients => u64::MAX,
        };
        Some(PodGenerations { certificates, key })
    };
    work.found.pods.values().map(generations).collect()
}

/// The generations of the keys that signed what is stored for nodes and for the operator.
fn stored(work: &Work, kind: Kind) -> Vec<Option<u64>> {
    match kind {
        Kind::Clients => Vec::new(),
        Kind::Cluster => {
            let names = &work.blueprint.names;
            let nodes = work.blueprint.nodes.iter().map(|node| work.blueprint.pod(node));
            let all = nodes.chain([names.operator_certificate()]);
            all.filter_map(|name| work.found.secrets.get(&name))
                .map(|secret| {
                    let key = secret.annotations().get(names::CLUSTER_KEY_GENERATION)?;
                    key.parse().ok()
                })
                .collect()
        }
    }
}

/// The trust bundle as it should be, if both authorities have something to trust.
pub(crate) fn trust_bundle(cluster: &Contents, clients: &Contents) -> Option<SecretContent> {
    let entry = |kind: Kind, contents: &Contents| {
        let pem = contents.trusted()?;
        Some((names::trust_bundle_entry(kind).to_owned(), pem.into_bytes()))
    };
    let data = [entry(Kind::Cluster, cluster)?, entry(Kind::Clients, clients)?].into();
    Some(SecretContent { data, ..SecretContent::default() })
}

/// The certificate that the operator should have.
pub(crate) fn operator_wanted(work: &Work) -> leaf::Wanted {
    leaf::Wanted::operator(&spec(work, Kind::Cluster))
}

/// The certificate that a node should have.
pub(crate) fn node_wanted(work: &Work, node: &Node) -> leaf::Wanted {
    let cluster = &work.blueprint.names.cluster;
    let spec = spec(work, Kind::Cluster);
    let addresses = work.known.addresses.as_ref();
    let Hosts { dns, addresses } = certificates::hosts(&work.blueprint, addresses, node);
    let names = leaf::Names { dns, addresses };
    leaf::Wanted::node(cluster, &work.blueprint.pod(node), names, &spec)
}

/// The entries of the Secrets of nodes for certificates that users supply for listeners; or what is missing of them.
pub(crate) async fn supplied(work: &Work) -> Result<Result<Entries, Note>, PassError> {
    let api = work.api::<Secret>();
    let mut secrets = Secrets::new();
    for name in certificates::needs(&work.blueprint) {
        let secret = api.get_opt(&name).await.map_err(|e| PassError::Get(Box::new(e)))?;
        secrets.insert(name, secret);
    }
    Ok(certificates::brought(&work.blueprint, &secrets))
}

/// The content of the Secret of a node: its own certificate and key, and those that users supply for listeners.
pub(crate) fn node_content(
    pod: &str,
    mut content: SecretContent,
    supplied: &Entries,
) -> SecretContent {
    let own = [format!("{pod}.crt"), format!("{pod}.key")];
    content.data.retain(|name, _| own.contains(name));
    content.data.extend(supplied.clone());
    content
}

/// What the operator talks to nodes with, if it has all of it.
pub(crate) fn authorities(work: &Work) -> Option<Authorities> {
    let trusted = Contents::of(work, Kind::Cluster).trusted()?;
    let mut own = content(work, &work.blueprint.names.operator_certificate())?;
    let mut entry = |suffix: &str| own.data.remove(&format!("{}.{suffix}", names::OPERATOR));
    let (operator_certificate, operator_key) = (entry("crt")?, entry("key")?);
    Some(Authorities { trusted, operator_certificate, operator_key })
}

/// The annotations that pods get because of the certificates that they are started with.
pub(crate) fn marks(work: &Work) -> Marks {
    let cluster = &work.blueprint.names.cluster;
    let generation = |kind: Kind| {
        let certificates = content(work, &names::cert_secret(cluster, kind));
        let number = certificates.and_then(|one| one.number(names::CERT_GENERATION));
        number.unwrap_or(0).to_string()
    };
    let generations = [
        (names::CLUSTER_CERT_GENERATION, generation(Kind::Cluster)),
        (names::CLIENTS_CERT_GENERATION, generation(Kind::Clients)),
    ]
    .map(|(name, value)| (name.to_owned(), value));
    let of = |node: &Node| {
        let mut marks: BTreeMap<_, _> = generations.clone().into();
        marks.extend(node_marks(work, node)?);
        Some((node.id, marks))
    };
    work.blueprint.nodes.iter().filter_map(of).collect()
}

/// Those of one node; `None` if it has no certificate.
fn node_marks(work: &Work, node: &Node) -> Option<Vec<(String, String)>> {
    let pod = work.blueprint.pod(node);
    let content = content(work, &pod)?;
    let key_generation = content.number(names::CLUSTER_KEY_GENERATION).unwrap_or_default();
    let mut marks = vec![
        (names::CLUSTER_KEY_GENERATION.to_owned(), key_generation.to_string()),
        (SERVER_CERT.to_owned(), leaf::thumbprint(&content, &pod)?),
    ];
    let names = certificates::entries(&work.blueprint);
    let supplied: Entries =
        content.data.into_iter().filter(|(name, _)| names.contains(name)).collect();
    if !supplied.is_empty() && node.roles.is_broker() {
        marks.push((LISTENER_CERTS.to_owned(), certificates::fingerprints(&supplied)));
    }
    Some(marks)
}

/// The labels of a Secret.
pub(crate) fn labels(work: &Work, component: &str) -> Labels {
    let user = work.blueprint.kafka.metadata.labels.clone().unwrap_or_default();
    work.blueprint.names.secret_labels(&user, component)
}

/// Writes a Secret whole, over the version that was read.
pub(crate) async fn put(
    work: &mut Work,
    (name, labels): (&str, Labels),
    content: SecretContent,
    is_owned: bool,
) -> Result<(), PassError> {
    let before = work.found.secrets.get(name).cloned();
    if before.as_ref().is_some_and(|before| secrets::content(before) == content) {
        return Ok(());
    }
    let mut secret = secrets::secret(&work.blueprint, (name, labels), content, is_owned)?;
    let api = work.api::<Secret>();
    let after = match &before {
        Some(before) => {
            secret.metadata.resource_version = before.metadata.resource_version.clone();
            work.ctx.writer.replace(&api, &secret).await?
        }
        None => work.ctx.writer.create(&api, &secret).await?,
    };
    work.found.secrets.insert(name.to_owned(), after);
    Ok(())
}
