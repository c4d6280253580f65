//! Versions of Kafka and of its metadata.

use super::{Current, Findings, Known, Reason};
use crate::cluster::spec::ClusterSpec;
use crate::registration::{KafkaVersion, MetadataVersion};
use crate::words::list;

/// The versions that a cluster should come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// Of Kafka.
    pub kafka: KafkaVersion,
    /// Of the metadata: what the user wrote, or the newest that this Kafka has.
    pub metadata: MetadataVersion,
}

/// The versions that were asked for, as far as they are known; `None` if [`validate`](super::validate)
/// refuses them.
#[must_use]
pub fn resolve(spec: &ClusterSpec, known: &Known) -> Option<Versions> {
    let kafka = match &spec.kafka_version {
        None => known.newest()?,
        Some(text) => text.parse().ok()?,
    };
    let newest = *known.0.get(&kafka)?;
    let metadata = match &spec.metadata_version {
        None => newest,
        Some(text) => MetadataVersion::of_user(text).ok()?,
    };
    (metadata <= newest).then_some(Versions { kafka, metadata })
}

pub(super) fn check(
    spec: &ClusterSpec,
    known: &Known,
    current: Option<&Current>,
    findings: &mut Findings,
) {
    let asked: Option<KafkaVersion> = match &spec.kafka_version {
        None => known.newest(),
        Some(text) => text.parse().ok().filter(|version| known.0.contains_key(version)),
    };
    let Some(kafka) = asked else {
        let message = match &spec.kafka_version {
            Some(text) => format!(
                "Kafka {text} is not supported: set spec.kafka.version to one of {}",
                list(known.0.keys())
            ),
            None => "this operator was installed without any Kafka image".to_owned(),
        };
        findings.add(Reason::UnsupportedKafkaVersion, message);
        return;
    };
    let newest = known.0[&kafka];
    if let Some(current) = current.and_then(|current| current.metadata).filter(|now| *now > newest)
    {
        let message = format!(
            "Kafka {kafka} cannot read metadata of version {current}, which the cluster has: first \
             set spec.kafka.metadataVersion to {newest} or older and leave the version of Kafka as it \
             is"
        );
        findings.add(Reason::KafkaVersionDowngrade, message);
    }
    metadata(spec, (kafka, newest), current.is_none(), findings);
}

fn metadata(
    spec: &ClusterSpec,
    (kafka, newest): (KafkaVersion, MetadataVersion),
    is_new: bool,
    findings: &mut Findings,
) {
    let Some(text) = &spec.metadata_version else { return };
    let mut refuse = |message: String| findings.add(Reason::InvalidMetadataVersion, message);
    let Ok(desired) = MetadataVersion::of_user(text) else {
        let message = format!(
            "\"{text}\" is not a known metadata version: set spec.kafka.metadataVersion to one \
             such as {newest}, or remove it"
        );
        return refuse(message);
    };
    if desired > newest {
        let message = format!(
            "Kafka {kafka} has metadata versions up to {newest} and not {desired}: raise \
             spec.kafka.version first"
        );
        return refuse(message);
    }
    if is_new && desired < MetadataVersion::DYNAMIC_QUORUM {
        let message = format!(
            "metadata version {desired} is too old for a dynamic quorum, which a new cluster has: use \
             {} or newer",
            MetadataVersion::DYNAMIC_QUORUM
        );
        return refuse(message);
    }
    if desired < newest {
        let message = format!(
            "metadata version {desired} is older than the Kafka {kafka} used by the cluster, which \
             suggests that an upgrade is incomplete: set spec.kafka.metadataVersion to {newest} when \
             it is done"
        );
        findings.add(Reason::KafkaMetadataVersion, message);
    }
}
