//! The authorities of the cluster, what nodes trust, and the operator's own certificate.

use api::kafka::{CertificateAuthority, ExpirationPolicy};
use api::names::Labels;
use control::certificates::authority::{Expiry, Kind, PodGenerations, Source, Users};
use control::certificates::windows;
use control::conditions::{Note, Reason};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use time::OffsetDateTime;

use crate::cluster::error::PassError;
use crate::cluster::pass::{Step, Work};
use crate::cluster::resources::secrets;
use crate::pki::authority::{Observed, Outcome, Wishes};
use crate::pki::{Clock, SecretContent, authority, leaf, names};

/// What the steps after this one need of the authorities.
#[derive(Debug)]
pub(crate) struct Authorities {
    pub(crate) cluster: Outcome,
    pub(crate) clients: Outcome,
    /// What nodes are trusted by, in PEM.
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
fn maintenance(work: &Work) -> &[String] {
    work.blueprint.kafka.spec.maintenance_time_windows.as_deref().unwrap_or_default()
}

/// What the user wishes of an authority.
pub(crate) fn wishes(work: &Work, kind: Kind) -> Wishes {
    let spec = &work.blueprint.kafka.spec;
    let none = CertificateAuthority::default();
    let wish = match kind {
        Kind::Cluster => spec.cluster_ca.as_ref(),
        Kind::Clients => spec.clients_ca.as_ref(),
    };
    let wish = wish.unwrap_or(&none);
    let expiry = match wish.certificate_expiration_policy.unwrap_or_default() {
        ExpirationPolicy::RenewCertificate => Expiry::RenewCertificate,
        ExpirationPolicy::ReplaceKey => Expiry::ReplaceKey,
    };
    Wishes {
        kind,
        source: if wish.is_generated() { Source::Generated } else { Source::Supplied },
        expiry,
        validity_days: wish.validity_days(),
        renewal_days: wish.renewal_days(),
    }
}

pub(crate) async fn run(work: &mut Work) -> Result<Step, PassError> {
    for (window, why) in windows::opening(maintenance(work), 0).invalid {
        let message = format!("the maintenance window \"{window}\" is never open: {why}");
        work.warn(Reason::InvalidMaintenanceWindow, message);
    }
    let cluster = one(work, Kind::Cluster).await?;
    let clients = one(work, Kind::Clients).await?;
    let (Some(trusted), Some(trusted_clients)) = (&cluster.trust_bundle, &clients.trust_bundle)
    else {
        let warnings: Vec<_> = cluster.warnings.iter().chain(&clients.warnings).cloned().collect();
        return Ok(Step::Hold(Note::new(Reason::CertificateAuthorityMissing, warnings.join("; "))));
    };
    let trusted = trusted.clone();
    publish(work, &trusted, trusted_clients).await?;
    let (certificate, key) = operator(work, &cluster).await?;
    for warning in cluster.warnings.iter().chain(&clients.warnings) {
        work.warnings.push(Note::new(Reason::CertificateAuthority, warning.clone()));
    }
    let (Some(operator_certificate), Some(operator_key)) = (certificate, key) else {
        return Ok(Step::Hold(Note::new(
            Reason::CertificateMissing,
            "the operator has no certificate for the cluster, and its authority signs none now",
        )));
    };
    work.known.authorities =
        Some(Authorities { cluster, clients, trusted, operator_certificate, operator_key });
    Ok(Step::Done)
}

/// Decides about one authority and writes what is to be written, keys first.
async fn one(work: &mut Work, kind: Kind) -> Result<Outcome, PassError> {
    let cluster = work.blueprint.names.cluster.clone();
    let (key_name, cert_name) =
        (names::key_secret(&cluster, kind), names::cert_secret(&cluster, kind));
    let found = |name: &str| work.found.secrets.get(name).map(secrets::content);
    let (keys, certificates) = (found(&key_name), found(&cert_name));
    let bundle = found(&names::trust_bundle_secret(&cluster));
    let published = bundle.as_ref().and_then(|b| b.data.get(names::trust_bundle_entry(kind)));
    let observed = Observed {
        keys: keys.as_ref(),
        certificates: certificates.as_ref(),
        published: published.map(Vec::as_slice),
    };
    let (pods, stored) = (pods(work, kind), stored(work, kind));
    let users = Users { pods: Some(&pods), stored: Some(&stored) };
    let outcome = authority::next(&observed, &wishes(work, kind), &users, &clock(work))
        .map_err(|error| PassError::Certificates(Box::new(error)))?;
    let is_owned = match kind {
        Kind::Cluster => work.blueprint.spec.cluster_ca.owned,
        Kind::Clients => work.blueprint.spec.clients_ca.owned,
    };
    for (name, content) in [(key_name, &outcome.key_secret), (cert_name, &outcome.cert_secret)] {
        if let Some(content) = content {
            let labels = labels(work, "certificate-authority");
            put(work, (&name, labels), content.clone(), is_owned).await?;
        }
    }
    Ok(outcome)
}

/// What each pod of the cluster was started with of an authority.
fn pods(work: &Work, kind: Kind) -> Vec<Option<PodGenerations>> {
    let (cert, key) = names::generations(kind);
    let number = |pod: &k8s_openapi::api::core::v1::Pod, name: &str| {
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

/// Writes what nodes trust.
async fn publish(work: &mut Work, cluster: &str, clients: &str) -> Result<(), PassError> {
    let entries = [(Kind::Cluster, cluster), (Kind::Clients, clients)];
    let data = entries
        .map(|(kind, pem)| (names::trust_bundle_entry(kind).to_owned(), pem.as_bytes().to_vec()));
    let content = SecretContent { data: data.into(), ..SecretContent::default() };
    let name = work.blueprint.names.trust_bundle();
    let labels = labels(work, "trust-bundle");
    put(work, (&name, labels), content, true).await
}

/// The operator's own certificate and key.
async fn operator(
    work: &mut Work,
    cluster: &Outcome,
) -> Result<(Option<Vec<u8>>, Option<Vec<u8>>), PassError> {
    let name = work.blueprint.names.operator_certificate();
    let found = work.found.secrets.get(&name).map(secrets::content);
    let wanted = leaf::Wanted::operator(&wishes(work, Kind::Cluster));
    let outcome = leaf::next(found.as_ref(), &wanted, cluster, &clock(work))
        .map_err(|error| PassError::Certificates(Box::new(error)))?;
    if let Some(content) = &outcome.secret {
        let labels = labels(work, "strimzi");
        put(work, (&name, labels), content.clone(), true).await?;
    }
    let content = outcome.secret.or(found).unwrap_or_default();
    let entry = |suffix: &str| content.data.get(&format!("{}.{suffix}", names::OPERATOR)).cloned();
    Ok((entry("crt"), entry("key")))
}

fn labels(work: &Work, component: &str) -> Labels {
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
