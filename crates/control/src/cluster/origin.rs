//! Where a reason comes from, and which areas ask for an act.
//!
//! 1. Both lists are exhaustive: a new reason or act does not compile before it is listed here.
//! 2. Where assertions are on, every decision is compared with the lists ([`unlisted`]).
//! 3. A test runs the rows of each area and fails if a reason or an act of the area has no row, or if a row has one that
//!    is not listed.

use super::act::{Act, What};
use super::area::Area;
use super::draft::Flow;
use super::validate;
use crate::conditions::{Note, Reason};

/// Where a reason comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The decision of an area.
    Area(Area),
    /// The acceptance of the spec. Without it nothing is decided.
    Spec,
    /// The executor of the acts.
    Execution,
    /// A read or a write that failed.
    Failure,
    /// Another controller, such as that of topics.
    Controller,
}

/// Declares the acts without their data, and the areas that ask for each.
macro_rules! kinds {
    ($($kind:ident: $areas:expr,)*) => {
        /// An act without its data.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "the variants of `What` are documented")]
        pub enum Kind {
            $($kind,)*
        }

        impl Kind {
            /// All of them.
            #[cfg(test)]
            pub(super) const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// The areas that ask for it.
            #[must_use]
            pub const fn areas(self) -> &'static [Area] {
                use Area::*;
                match self {
                    $(Self::$kind => &$areas,)*
                }
            }
        }
    };
}

kinds! {
    AddVoter: [Quorum],
    RemoveVoter: [Quorum],
    Unregister: [Registration],
    Cordon: [ScaleIn],
    Uncordon: [ScaleIn],
    DeleteClaim: [ScaleIn, Leftovers],
    Delete: [Access, Leftovers],
    RaiseKraftVersion: [Migration],
    RemoveMigrationAnnotation: [Migration],
    ChangeMetadataVersion: [Registration],
    RestartPod: [Roll],
    AlterNode: [Roll],
    AlterCluster: [Roll],
    ElectPreferred: [Roll],
    ClearRestartRequest: [Roll],
    Apply: [Access, Services, Claims, Configuration, Workload],
    ShrinkPodSet: [Workload],
    ChangeAuthority: [Authorities],
    PublishTrust: [Authorities],
    StoreOperatorCertificate: [Authorities],
    StoreCertificate: [Certificates],
    Rebalance: [Rebalance],
    StopUnclaimedMoves: [Rebalance],
    RememberCredential: [Users],
    SetCredential: [Users],
    DeleteCredential: [Users],
    ReleaseUser: [Users],
}

impl What {
    /// The act without its data.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::AddVoter { .. } => Kind::AddVoter,
            Self::RemoveVoter { .. } => Kind::RemoveVoter,
            Self::Unregister { .. } => Kind::Unregister,
            Self::Cordon { .. } => Kind::Cordon,
            Self::Uncordon { .. } => Kind::Uncordon,
            Self::DeleteClaim { .. } => Kind::DeleteClaim,
            Self::Delete { .. } => Kind::Delete,
            Self::RaiseKraftVersion { .. } => Kind::RaiseKraftVersion,
            Self::RemoveMigrationAnnotation => Kind::RemoveMigrationAnnotation,
            Self::ChangeMetadataVersion { .. } => Kind::ChangeMetadataVersion,
            Self::RestartPod { .. } => Kind::RestartPod,
            Self::AlterNode { .. } => Kind::AlterNode,
            Self::AlterCluster { .. } => Kind::AlterCluster,
            Self::ElectPreferred { .. } => Kind::ElectPreferred,
            Self::ClearRestartRequest { .. } => Kind::ClearRestartRequest,
            Self::Apply(_) => Kind::Apply,
            Self::ShrinkPodSet { .. } => Kind::ShrinkPodSet,
            Self::ChangeAuthority { .. } => Kind::ChangeAuthority,
            Self::PublishTrust => Kind::PublishTrust,
            Self::StoreOperatorCertificate => Kind::StoreOperatorCertificate,
            Self::StoreCertificate { .. } => Kind::StoreCertificate,
            Self::Rebalance(_) => Kind::Rebalance,
            Self::StopUnclaimedMoves => Kind::StopUnclaimedMoves,
            Self::RememberCredential { .. } => Kind::RememberCredential,
            Self::SetCredential { .. } => Kind::SetCredential,
            Self::DeleteCredential { .. } => Kind::DeleteCredential,
            Self::ReleaseUser { .. } => Kind::ReleaseUser,
        }
    }
}

impl Reason {
    /// Where it comes from.
    #[must_use]
    #[rustfmt::skip]
    pub const fn origins(self) -> &'static [Origin] {
        use crate::cluster::area::Area as A;
        use Origin::{Area as Of, Controller, Execution, Failure, Spec};
        match self {
            Self::AwaitingAddresses => &[Of(A::Services), Of(A::Configuration)],
            Self::Certificate | Self::CertificateMissing => &[Of(A::Authorities), Of(A::Certificates)],
            Self::CertificateAuthority
            | Self::CertificateAuthorityMissing
            | Self::InvalidMaintenanceWindow => &[Of(A::Authorities)],
            Self::CertificateProblem => &[Of(A::Authorities), Of(A::Certificates), Execution, Failure],
            Self::ListenerCertificateMissing => &[Of(A::Certificates)],
            Self::PvcResizingWarning => &[Of(A::Claims)],
            Self::InvalidJvmOptions | Self::InvalidLogging | Self::LoggingConfigMissing | Self::MetricsConfigMissing => {
                &[Of(A::Configuration)]
            }
            Self::Creating => &[Of(A::Workload)],
            // What cannot be read or built holds up the area that needs it.
            Self::InvalidTemplate => {
                &[Of(A::Access), Of(A::Services), Of(A::Claims), Of(A::Configuration), Of(A::Workload), Failure]
            }
            Self::KubernetesUnreadable => &[Of(A::Access), Of(A::Claims), Of(A::Configuration), Failure],
            Self::KafkaUnreachable => &[Of(A::Kafka), Failure],
            Self::QuorumModeChanged | Self::QuorumModeFound => &[Of(A::Kafka)],
            Self::QuorumModeUnknown => &[Of(A::Kafka), Spec],
            Self::QuorumMigration | Self::QuorumMigrationIgnored | Self::QuorumMigrationRefused => {
                &[Of(A::Migration)]
            }
            Self::AddingController
            | Self::ControllerDiskLost
            | Self::ControllerNotAdded
            | Self::ControllerScaleDownRefused
            | Self::QuorumChangeFailed
            | Self::QuorumLost
            | Self::QuorumWaiting
            | Self::RemovingController
            | Self::StaticQuorum
            | Self::Spec(validate::Reason::KafkaKRaftControllerNodeCount) => &[Of(A::Quorum)],
            Self::InvalidAnnotation
            | Self::RollFailed
            | Self::RollStopped
            | Self::Rolling
            | Self::SettingsNotTaken => &[Of(A::Roll)],
            Self::AutoRebalanceAwaitsBrokers
            | Self::AutoRebalanceFailed
            | Self::AutoRebalanceNameTaken
            | Self::AutoRebalancePaused
            | Self::AutoRebalanceTemplateMissing
            | Self::AutoRebalanceTemplateUnmarked
            | Self::AutoRebalancing => &[Of(A::Rebalance)],
            Self::RebalanceProblem => &[Of(A::Rebalance), Failure],
            Self::ScaleDownPreventionCheck | Self::ScalingDown => &[Of(A::ScaleIn)],
            Self::MetadataUpdateFailed
            | Self::MetadataVersionRefused
            | Self::MetadataVersionWaiting
            | Self::StaleBrokerRegistration
            | Self::StaleControllerRegistration
            | Self::Unregistering
            | Self::UnregistrationFailed => &[Of(A::Registration)],
            Self::User => &[Of(A::Users)],
            Self::UsersNotGiven => &[Of(A::Users), Execution, Failure],
            Self::FactsOutdated => &[Execution],
            Self::EntityOperatorRuns => &[Controller],
            Self::Spec(validate::Reason::UnsupportedKafkaVersion) => &[Of(A::Configuration), Spec],
            Self::DuplicateNodeIds
            | Self::InvalidNodeIds
            | Self::RecordLost
            | Self::UnhonouredFields
            | Self::UnknownFields
            | Self::Spec(_) => &[Spec],
            Self::InvalidResource => &[Spec, Failure],
            Self::KubernetesWriteFailed | Self::RecordTooNew | Self::RecordUnreadable => &[Failure],
        }
    }
}

/// The first act or reason of an area that is not listed as one of its own.
pub(super) fn unlisted(area: Area, acts: &[Act], warnings: &[Note], flow: &Flow) -> Option<String> {
    let act = acts.iter().find(|act| !act.what.kind().areas().contains(&area));
    let note = warnings.iter().chain(flow.note());
    let mut note = note.filter(|note| !note.reason.origins().contains(&Origin::Area(area)));
    let act = act.map(|act| format!("{area} asks for {:?}", act.what.kind()));
    act.or_else(|| note.next().map(|note| format!("{area} gives {}", note.reason)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::cluster::areas;
    use crate::cluster::areas::samples::recorded;

    /// Runs the rows of an area.
    fn run_rows(area: Area) {
        use crate::cluster::areas::{
            authorities, certificates, kafka, leftovers, migration, objects, quorum, rebalance,
            registration, roll, scale_in, users,
        };
        match area {
            Area::Authorities => authorities::tests::rows(),
            Area::Access | Area::Services | Area::Claims | Area::Configuration | Area::Workload => {
                objects::tests::rows(area)
            }
            Area::Certificates => certificates::tests::rows(),
            Area::Kafka => kafka::tests::rows(),
            Area::Migration => migration::tests::rows(),
            Area::Quorum => quorum::tests::rows(),
            Area::Roll => roll::tests::rows(),
            Area::Rebalance => rebalance::tests::rows(),
            Area::ScaleIn => scale_in::tests::rows(),
            Area::Registration => registration::tests::rows(),
            Area::Users => users::tests::rows(),
            Area::Leftovers => leftovers::tests::rows(),
        }
    }

    fn all_reasons() -> impl Iterator<Item = Reason> {
        let of_spec = validate::Reason::ALL.iter().map(|reason| Reason::Spec(*reason));
        Reason::OWN.iter().copied().chain(of_spec)
    }

    /// The reasons of the areas that give those of objects that were built have their rows in the crate `objects`.
    const fn is_built(area: Area) -> bool {
        matches!(
            area,
            Area::Access | Area::Services | Area::Claims | Area::Configuration | Area::Workload
        )
    }

    #[test]
    fn every_act_and_every_reason_of_an_area_has_a_row() {
        let mut missing = Vec::new();
        for area in Area::ALL {
            let (acts, reasons) = recorded(|| run_rows(area));
            let kinds = Kind::ALL.iter().filter(|kind| kind.areas().contains(&area));
            let kinds: BTreeSet<Kind> = kinds.copied().collect();
            missing.extend(kinds.difference(&acts).map(|kind| format!("{area} asks for {kind:?}")));
            missing.extend(
                acts.difference(&kinds).map(|kind| format!("{area}: {kind:?} is unlisted")),
            );
            let own = all_reasons().filter(|one| one.origins().contains(&Origin::Area(area)));
            let own: BTreeSet<Reason> = own.collect();
            let without = own.difference(&reasons).filter(|_| !is_built(area));
            missing.extend(without.map(|reason| format!("{area} gives {reason}")));
            missing
                .extend(reasons.difference(&own).map(|one| format!("{area}: {one} is unlisted")));
        }
        assert!(missing.is_empty(), "without a row, or not listed: {missing:#?}");
    }

    #[test]
    fn an_act_and_a_reason_of_another_area_are_found() {
        use crate::cluster::act::Rule;
        let act = |what| [Act::new(what, Rule::TrustComesFirst)];
        let note = |reason| Note::new(reason, "because");
        let publish = act(What::PublishTrust);
        assert_eq!(unlisted(Area::Authorities, &publish, &[], &Flow::Go), None);
        let found = unlisted(Area::Users, &publish, &[], &Flow::Go);
        assert_eq!(found.as_deref(), Some("users asks for PublishTrust"));
        let creating = [note(Reason::Creating)];
        assert_eq!(unlisted(Area::Workload, &[], &creating, &Flow::Go), None);
        let found = unlisted(Area::Roll, &[], &creating, &Flow::Go);
        assert_eq!(found.as_deref(), Some("roll gives Creating"));
        let found = unlisted(Area::Roll, &[], &[], &Flow::Fault(note(Reason::QuorumLost)));
        assert_eq!(found.as_deref(), Some("roll gives QuorumLost"));
        assert_eq!(areas::samples::recorded(|| ()), (BTreeSet::new(), BTreeSet::new()));
    }
}
