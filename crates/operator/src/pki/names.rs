//! The names of Secrets, of their entries and of their annotations, as Strimzi has them, so that what
//! reads them keeps working.

use control::annotations::Annotation;
use control::certificates::authority::Kind;

/// How often what is trusted has changed; on the Secret of the certificates.
pub const CERT_GENERATION: &str = Annotation::CaCertGeneration.name();
/// How often the key has been replaced; on the Secret of the keys, and a copy on that of the certificates.
pub const KEY_GENERATION: &str = Annotation::CaKeyGeneration.name();
/// A user asks for a new certificate; on the Secret of the certificates.
pub const FORCE_RENEW: &str = Annotation::ForceRenew.name();
/// A user asks for a new key; on the Secret of the keys.
pub const FORCE_REPLACE: &str = Annotation::ForceReplace.name();

/// Of the cluster's authority, on pods and on what it signed: the generation of what is trusted.
pub const CLUSTER_CERT_GENERATION: &str = Annotation::ClusterCaCertGeneration.name();
/// Of the cluster's authority, on pods and on what it signed: the generation of the key.
pub const CLUSTER_KEY_GENERATION: &str = Annotation::ClusterCaKeyGeneration.name();
/// Of the clients' authority, on pods: the generation of what is trusted.
pub const CLIENTS_CERT_GENERATION: &str = Annotation::ClientsCaCertGeneration.name();
/// Of the clients' authority, on what it signed: the generation of the key.
pub const CLIENTS_KEY_GENERATION: &str = Annotation::ClientsCaKeyGeneration.name();

/// The key that signs.
pub const CA_KEY: &str = "ca.key";
/// The key that will sign when all trust it.
pub const NEXT_KEY: &str = "ca-next.key";
/// The certificate of the key that signs.
pub const CA_CRT: &str = "ca.crt";
/// The certificate of the key that will sign.
pub const NEXT_CRT: &str = "ca-next.crt";
/// A trust store for Java with all certificates.
pub const CA_P12: &str = "ca.p12";
/// Its password.
pub const CA_PASSWORD: &str = "ca.password";

/// The organization of all that we issue, except for users.
pub const ORGANIZATION: &str = "io.strimzi";
/// The name of the operator in its certificate, and of the entries of that Secret.
pub const OPERATOR: &str = "cluster-operator";

/// The Secret with the keys of an authority.
#[must_use]
pub fn key_secret(cluster: &str, kind: Kind) -> String {
    format!("{cluster}-{}", authority(kind))
}

/// The Secret with the certificates of an authority.
#[must_use]
pub fn cert_secret(cluster: &str, kind: Kind) -> String {
    format!("{cluster}-{}-cert", authority(kind))
}

/// The Secret with what nodes trust.
#[must_use]
pub fn trust_bundle_secret(cluster: &str) -> String {
    format!("{cluster}-trustbundle")
}

/// The entry of the trust bundle with the certificates of an authority.
#[must_use]
pub const fn trust_bundle_entry(kind: Kind) -> &'static str {
    match kind {
        Kind::Cluster => "cluster-ca.crt",
        Kind::Clients => "clients-ca.crt",
    }
}

/// The Secret with the operator's own certificate.
#[must_use]
pub fn operator_secret(cluster: &str) -> String {
    format!("{cluster}-cluster-operator-certs")
}

/// The name of an authority in names and certificates.
#[must_use]
pub const fn authority(kind: Kind) -> &'static str {
    match kind {
        Kind::Cluster => "cluster-ca",
        Kind::Clients => "clients-ca",
    }
}

/// The annotations with the generations of an authority on what it signed.
#[must_use]
pub(crate) const fn generations(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Cluster => (CLUSTER_CERT_GENERATION, CLUSTER_KEY_GENERATION),
        Kind::Clients => (CLIENTS_CERT_GENERATION, CLIENTS_KEY_GENERATION),
    }
}
