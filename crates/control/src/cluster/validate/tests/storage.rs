//! Rows for volumes, for what a restart loses, and for certificates that are always renewed.

use super::{R, Row};
use crate::cluster::samples;
use crate::cluster::spec::Storage;

pub(super) const STORAGE: &[Row] = &[
    (
        |s| {
            let volumes = [1, 0, 1, 1].map(|id| samples::claim(id, "1Gi"));
            s.pools[0].storage = Storage::Jbod(volumes.to_vec());
        },
        &[(
            R::DuplicateVolume,
            "pool broker has several volumes with the number 1: give each volume its own",
        )],
    ),
    (
        |s| {
            let mut volumes = [0, 1].map(|id| samples::claim(id, "1Gi"));
            volumes.iter_mut().for_each(|volume| volume.kraft_metadata = true);
            s.pools[1].storage = Storage::Jbod(volumes.to_vec());
        },
        &[(
            R::SeveralMetadataVolumes,
            "several volumes of pool controller have kraftMetadata: the metadata log is in one \
             place",
        )],
    ),
    (
        |s| {
            s.config.clear();
            s.pools[0].replicas = 1;
            s.pools[0].storage = Storage::Single(samples::ephemeral(0));
        },
        &[(
            R::KafkaStorage,
            "A Kafka cluster with a single broker node and ephemeral storage will lose topic \
             messages after any restart or rolling update: use persistent-claim, or more nodes",
        )],
    ),
    (
        |s| {
            s.pools[1].replicas = 1;
            s.pools[1].storage = Storage::Jbod(vec![samples::ephemeral(0)]);
        },
        &[(
            R::EphemeralController,
            "A Kafka cluster with a single controller node and ephemeral storage does not survive \
             a restart of a controller: use persistent-claim, or three controllers. Such a \
             controller is restarted only with the annotation gregor.io/accept-metadata-loss: \
             \"true\" on the Kafka resource",
        )],
    ),
    (
        |s| {
            s.pools[1].replicas = 2;
            s.pools[1].storage = Storage::Jbod(vec![samples::ephemeral(0)]);
        },
        &[
            (
                R::KafkaKRaftControllerNodeCount,
                "two controllers are not advisable: both are needed, so each is a single point of \
                 failure",
            ),
            (
                R::EphemeralController,
                "A Kafka cluster with two controller nodes and ephemeral storage does not survive \
                 a restart of a controller: use persistent-claim, or three controllers. Such a \
                 controller is restarted only with the annotation gregor.io/accept-metadata-loss: \
                 \"true\" on the Kafka resource",
            ),
        ],
    ),
    // Three bear the loss of one, and so does one whose metadata is on a claim.
    (|s| s.pools[1].storage = Storage::Jbod(vec![samples::ephemeral(0)]), &[]),
    (
        |s| {
            s.pools[1].replicas = 1;
            s.pools[1].storage =
                Storage::Jbod(vec![samples::claim(0, "1Gi"), samples::ephemeral(1)]);
        },
        &[],
    ),
    (|s| s.pools[0].storage = Storage::Single(samples::ephemeral(0)), &[]),
    (
        |s| (s.clients_ca.validity_days, s.clients_ca.renewal_days) = (30, 30),
        &[(
            R::CertificateRenewal,
            "spec.clientsCa: certificates are valid for 30 days and are renewed 30 days before \
             they expire, so permanently: make renewalDays smaller than validityDays",
        )],
    ),
];
