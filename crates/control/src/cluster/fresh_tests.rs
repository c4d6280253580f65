//! Tests of [`super`]: a row for each act.

use super::*;
use crate::certificates::authority;
use crate::cluster::act::{Act, Rule};
use crate::cluster::areas::samples::{NOW, directory, empty, id, settled};
use crate::cluster::origin::Kind;
use crate::cluster::snapshot::{ObjectKey, ObjectKind};
use crate::rebalance::auto::{self, Mode};
use crate::registration::MetadataVersion;
use crate::rolling::facts::{Contact, Recovery};
use crate::users::Mark;

const ALL: [Source; 12] = [
    Objects,
    Quorum,
    Brokers,
    Features,
    Controllers,
    Partitions,
    Directories,
    Cordons,
    Contacts,
    Recoveries,
    ScramUsers,
    Rebalance,
];

/// A snapshot with every fact, all of which were just read but one.
fn with_old(old: Source) -> Snapshot {
    let mut snapshot = settled().0;
    empty(&mut snapshot);
    let kafka = &mut snapshot.kafka;
    kafka.controllers = Fact::read([id(0)].into(), NOW);
    kafka.directories = [(id(0), Fact::read(directory(0), NOW))].into();
    kafka.cordons = [(id(3), Fact::read(false, NOW)), (id(4), Fact::read(false, NOW))].into();
    kafka.contacts = [(id(3), Fact::read(Contact::Answers, NOW))].into();
    kafka.recoveries = [(id(3), Fact::read(Recovery::No, NOW))].into();
    kafka.scram_users = Fact::read(BTreeSet::new(), NOW);
    fn age<T>(fact: &mut Fact<T>) {
        let Fact::Read { at_ms, .. } = fact else { panic!("the fact was not read") };
        *at_ms -= 1;
    }
    match old {
        Objects => snapshot.objects_ms -= 1,
        Quorum => age(&mut kafka.quorum),
        Brokers => age(&mut kafka.brokers),
        Features => age(&mut kafka.features),
        Controllers => age(&mut kafka.controllers),
        Partitions => age(&mut kafka.partitions),
        Directories => age(kafka.directories.get_mut(&id(0)).unwrap()),
        // One of them is enough.
        Cordons => age(kafka.cordons.get_mut(&id(4)).unwrap()),
        Contacts => age(kafka.contacts.get_mut(&id(3)).unwrap()),
        Recoveries => age(kafka.recoveries.get_mut(&id(3)).unwrap()),
        ScramUsers => age(&mut kafka.scram_users),
        Rebalance => age(&mut snapshot.rebalance),
    }
    snapshot
}

/// Every act, with the facts that have to be fresh.
#[rustfmt::skip]
fn rows() -> Vec<(What, &'static [Source])> {
    let text = str::to_owned;
    vec![
        (What::AddVoter { id: id(1), directory: directory(1), listeners: Vec::new() }, &[Objects, Quorum, Directories]),
        (What::RemoveVoter { id: id(1), directory: directory(1) },     &[Objects, Quorum, Directories]),
        (What::Unregister { id: id(4) },                               &[Objects, Brokers, Partitions]),
        (What::Cordon { id: id(4) },                                   &[Objects, Brokers, Partitions, Cordons]),
        (What::Uncordon { id: id(4) },                                 &[]),
        (What::DeleteClaim { name: text("d"), uid: text("u") },        &[Objects, Quorum, Brokers, Partitions]),
        (What::Delete { kind: ObjectKind::Secret, name: text("s"), uid: text("u") }, &[Objects]),
        (What::RaiseKraftVersion { level: 1 },                         &[Objects, Quorum, Features]),
        (What::RemoveMigrationAnnotation,                              &[]),
        (What::ChangeMetadataVersion { to: MetadataVersion { major: 4, minor: 3, iv: 0 }, level: 30, up: true },
                                                                       &[Objects, Brokers, Features, Controllers]),
        (What::RestartPod { id: id(4), pod: text("p"), uid: text("u"), reasons: Vec::new() },
                                                                       &[Objects, Quorum, Brokers, Partitions, Contacts, Recoveries]),
        (What::AlterNode { id: id(4), changes: Vec::new() },           &[]),
        (What::AlterCluster { changes: Vec::new() },                   &[]),
        (What::ElectPreferred { partitions: Vec::new() },              &[]),
        (What::ClearRestartRequest { pool: text("p") },                &[]),
        (What::Apply(ObjectKey { kind: ObjectKind::PodSet, name: text("s") }), &[]),
        (What::ShrinkPodSet { name: text("s") },                       &[Objects, Quorum, Brokers, Partitions]),
        (What::ChangeAuthority { kind: authority::Kind::Cluster, change: authority::Act::Keep }, &[]),
        (What::PublishTrust,                                           &[]),
        (What::StoreOperatorCertificate,                               &[]),
        (What::StoreCertificate { id: id(4) },                         &[]),
        (What::Rebalance(auto::Act::Delete(Mode::AddBrokers)),         &[Objects, Brokers, Rebalance]),
        (What::StopUnclaimedMoves,                                     &[Rebalance]),
        (What::RememberCredential { user: text("a"), mark: Mark::None }, &[]),
        (What::SetCredential { user: text("a") },                      &[]),
        (What::DeleteCredential { user: text("a") },                   &[Objects, ScramUsers]),
        (What::ReleaseUser { user: text("a") },                        &[]),
    ]
}

#[test]
fn an_act_is_sent_on_facts_of_ten_seconds_and_not_on_older_ones() {
    let mut acts: Vec<(Act, &[Source])> = rows()
        .into_iter()
        .map(|(what, facts)| (Act::new(what, Rule::ObjectDiffers), facts))
        .collect();
    let set = ObjectKey { kind: ObjectKind::PodSet, name: "s".to_owned() };
    acts.push((
        Act::stopping(What::Apply(set), Rule::ObjectDiffers),
        &[Objects, Quorum, Brokers, Partitions],
    ));
    for (act, facts) in acts {
        for fact in ALL {
            let snapshot = with_old(fact);
            // The fact is one millisecond older than all others.
            let (fresh, stale) = (NOW - 1 + 10_000, NOW - 1 + 10_001);
            assert!(!act.fresh.is_stale(&snapshot, fresh), "{act:?} {fact:?}");
            let expected = facts.contains(&fact);
            assert_eq!(act.fresh.is_stale(&snapshot, stale), expected, "{act:?} {fact:?}");
        }
        // What is unknown has no age.
        let snapshot = Snapshot { objects_ms: NOW, ..Snapshot::default() };
        assert!(!act.fresh.is_stale(&snapshot, NOW), "{act:?}");
    }
}

#[test]
fn every_act_has_a_row() {
    let kinds: Vec<Kind> = rows().iter().map(|(what, _)| what.kind()).collect();
    assert_eq!(kinds, Kind::ALL);
}
