//! Rows of changes, and what holds of all of them.

use proptest::prelude::*;

use super::*;
use crate::cluster::samples::{claim, ephemeral};
use crate::cluster::spec::Size;
use model::NodeId;

fn with(volume: Volume, change: impl FnOnce(&mut Claim)) -> Volume {
    let mut volume = volume;
    let Disk::Claim(claim) = &mut volume.disk else { panic!("{volume:?}") };
    change(claim);
    volume
}

fn meta(volume: Volume) -> Volume {
    Volume { kraft_metadata: true, ..volume }
}

fn jbod<const N: usize>(volumes: [Volume; N]) -> Storage {
    Storage::Jbod(volumes.to_vec())
}

/// The volume with the metadata log, and which volumes come and go.
#[track_caller]
fn follows(old: &Storage, new: &Storage, roles: Roles, expected: (u32, &[u32], &[u32])) {
    let decision = diff(old, new, roles);
    assert_eq!(decision.refused, [""; 0]);
    assert_eq!(ids(&decision.effective), ids(new));
    let metadata = metadata_volume(&decision.effective).unwrap();
    assert_eq!((metadata, &decision.added[..], &decision.removed[..]), expected);
}

#[track_caller]
fn keeps(old: &Storage, new: &Storage, expected: &[&str]) {
    let decision = diff(old, new, Roles::Combined);
    assert_eq!(decision.refused, expected);
    assert_eq!(decision.effective, marked(old, metadata_volume(old)));
    assert!(decision.added.is_empty() && decision.removed.is_empty());
}

#[test]
fn what_may_change() {
    let old = jbod([claim(0, "10Gi"), claim(1, "10Gi")]);
    let grown = jbod([claim(1, "20Gi"), claim(0, "10Gi")]);
    follows(&old, &grown, Roles::Combined, (0, &[], &[]));
    let details = jbod([
        with(claim(0, "10240Mi"), |claim| claim.delete = true),
        with(claim(1, "10Gi"), |claim| claim.attributes_class = Some("gold".to_owned())),
    ]);
    follows(&old, &details, Roles::Combined, (0, &[], &[]));
    let more = jbod([claim(0, "10Gi"), claim(1, "10Gi"), claim(5, "1Gi"), ephemeral(7)]);
    follows(&old, &more, Roles::Combined, (0, &[5, 7], &[]));
    follows(&more, &old, Roles::Combined, (0, &[], &[5, 7]));
    let single = |size| Storage::Single(claim(0, size));
    follows(&single("1Gi"), &single("2Gi"), Roles::Controller, (0, &[], &[]));
    // A volume may come in the place of one that was never the metadata's.
    let other = jbod([claim(0, "10Gi"), ephemeral(2)]);
    follows(&old, &other, Roles::Controller, (0, &[2], &[1]));
}

#[test]
fn what_may_not() {
    let old = jbod([claim(0, "10Gi"), claim(1, "10Gi")]);
    let with_second = |volume| jbod([claim(0, "10Gi"), volume]);
    let rows = [
        (with_second(claim(1, "10239Mi")), "volume 1 cannot shrink from 10Gi to 10239Mi"),
        (
            with_second(ephemeral(1)),
            "the type of volume 1 cannot change from persistent-claim to ephemeral",
        ),
        (
            with_second(with(claim(1, "10Gi"), |claim| claim.class = Some("fast".to_owned()))),
            "the class of volume 1 cannot change from the default to fast",
        ),
        (
            with_second(with(claim(1, "10Gi"), |claim| {
                claim.selector.insert("a".to_owned(), "b".to_owned());
            })),
            "the selector of volume 1 is immutable",
        ),
        (
            Storage::Single(claim(0, "10Gi")),
            "one volume cannot become several with numbers, nor the other way round",
        ),
        (
            jbod([claim(0, "10Gi"), claim(1, "10Gi"), claim(1, "10Gi")]),
            "several volumes have the same number",
        ),
        (
            jbod([meta(claim(0, "10Gi")), meta(claim(1, "10Gi"))]),
            "several volumes have kraftMetadata",
        ),
    ];
    for (new, expected) in rows {
        keeps(&old, &new, &[expected]);
    }
    let limited = |text| {
        let size_limit = Some(Size::parse(text).unwrap());
        Storage::Single(Volume { disk: Disk::Ephemeral { size_limit }, ..ephemeral(0) })
    };
    let message = "the sizeLimit of the volume cannot change from 1Gi to 2Gi";
    keeps(&limited("1Gi"), &limited("2Gi"), &[message]);
    keeps(&limited("1Gi"), &limited("1024Mi"), &[]);
}

#[test]
fn one_thing_that_is_not_allowed_keeps_everything() {
    let old = jbod([claim(0, "10Gi"), claim(1, "10Gi")]);
    let new = jbod([claim(0, "20Gi"), claim(1, "5Gi"), claim(2, "5Gi")]);
    keeps(&old, &new, &["volume 1 cannot shrink from 10Gi to 5Gi"]);
    let note = diff(&old, &new, Roles::Broker).note("p").unwrap();
    assert_eq!(note.reason.name(), "KafkaStorage");
    assert_eq!(
        note.message,
        "the storage of pool p cannot be changed: volume 1 cannot shrink from \
         10Gi \
         to 5Gi"
    );
    assert_eq!(diff(&old, &old, Roles::Broker).note("p"), None);
    keeps(
        &old,
        &Storage::Jbod(Vec::new()),
        &[
            "there would be no volume",
            "volume 0 has the metadata log of controllers and cannot go; make a new pool",
        ],
    );
}

#[test]
fn the_metadata_log_stays_where_it_is() {
    let old = jbod([claim(1, "1Gi"), claim(2, "1Gi")]);
    // A lower number moves nothing, now and in every later pass.
    let lower = jbod([claim(0, "1Gi"), claim(1, "1Gi"), claim(2, "1Gi")]);
    let decision = diff(&old, &lower, Roles::Controller);
    assert_eq!((metadata_volume(&decision.effective), decision.refused.len()), (Some(1), 0));
    assert_eq!(diff(&decision.effective, &lower, Roles::Controller).effective, decision.effective);
    // Asking for it moves nothing either, but is answered, and the rest of the change is applied.
    for roles in [Roles::Controller, Roles::Broker, Roles::Combined] {
        let moved = jbod([claim(1, "2Gi"), meta(claim(2, "1Gi"))]);
        let decision = diff(&old, &moved, roles);
        assert_eq!(decision.effective, jbod([meta(claim(1, "2Gi")), claim(2, "1Gi")]));
        assert_eq!(
            decision.refused,
            ["the metadata log is on volume 1 and cannot move to volume 2; make a new pool, \
                 or set \
              kraftMetadata there"]
        );
    }
}

#[test]
fn the_volume_with_the_metadata_log_goes_from_brokers_only() {
    let old = jbod([claim(0, "1Gi"), meta(claim(1, "1Gi")), claim(2, "1Gi")]);
    let new = jbod([claim(0, "1Gi"), meta(claim(2, "1Gi"))]);
    follows(&old, &new, Roles::Broker, (2, &[], &[1]));
    let refused = "volume 1 has the metadata log of controllers and cannot go; make a new pool";
    keeps(&old, &new, &[refused]);
    assert_eq!(diff(&old, &new, Roles::Controller).refused, [refused]);
}

#[test]
fn new_storage_is_as_it_was_asked_for() {
    let decision = first(&jbod([claim(3, "1Gi"), claim(1, "1Gi")]));
    assert_eq!(decision.effective, jbod([claim(3, "1Gi"), meta(claim(1, "1Gi"))]));
    assert_eq!((decision.added, decision.removed), (vec![1, 3], vec![]));
    let marked = jbod([meta(claim(3, "1Gi")), claim(1, "1Gi")]);
    assert_eq!(first(&marked).effective, marked);
}

#[test]
fn disks_are_where_strimzi_has_them() {
    let node = NodeId::new(7).unwrap();
    let found = layout(&Storage::Single(claim(0, "1Gi")), node);
    assert_eq!(found.metadata_dir, "/var/lib/kafka/data/kafka-log7");
    assert_eq!(found.log_dirs, ["/var/lib/kafka/data/kafka-log7"]);
    assert_eq!(
        (found.volumes[0].name.as_str(), found.volumes[0].mount.as_str()),
        ("data", "/var/lib/kafka/data")
    );
    let found = layout(&jbod([meta(claim(12, "1Gi")), ephemeral(2)]), node);
    assert_eq!(found.metadata_dir, "/var/lib/kafka/data-12/kafka-log7");
    assert_eq!(
        found.log_dirs,
        ["/var/lib/kafka/data-2/kafka-log7", "/var/lib/kafka/data-12/kafka-log7"]
    );
    let names: Vec<_> = found.volumes.iter().map(|volume| volume.name.as_str()).collect();
    assert_eq!(names, ["data-2", "data-12"]);
    let unmarked = layout(&jbod([claim(12, "1Gi"), ephemeral(2)]), node);
    assert_eq!(unmarked.metadata_dir, "/var/lib/kafka/data-2/kafka-log7");
    assert_eq!(unmarked.log_dirs, [2, 12].map(|volume| jbod_log_dir(volume, node)));
}

fn some_volume() -> impl Strategy<Value = Volume> {
    let disk = prop_oneof![
        Just(ephemeral(0).disk),
        (1u32..4, 0u32..2).prop_map(|(size, class)| {
            let class = (class == 1).then(|| "fast".to_owned());
            with(claim(0, &format!("{size}Gi")), |claim| claim.class = class).disk
        }),
    ];
    (0u32..4, any::<bool>(), disk).prop_map(|(id, kraft_metadata, disk)| Volume {
        id,
        kraft_metadata,
        disk,
    })
}

fn some_storage() -> impl Strategy<Value = Storage> {
    prop_oneof![
        some_volume().prop_map(|volume| Storage::Single(Volume { id: 0, ..volume })),
        proptest::collection::vec(some_volume(), 1..5).prop_map(Storage::Jbod),
    ]
}

fn some_roles() -> impl Strategy<Value = Roles> {
    proptest::sample::select(vec![Roles::Broker, Roles::Controller, Roles::Combined])
}

proptest! {
    #[test]
    fn whatever_is_asked_for_data_stays(
        old in some_storage().prop_filter("exists", |old| impossible(old).is_empty()),
        new in some_storage(),
        roles in some_roles(),
    ) {
        let old = first(&old).effective;
        let decision = diff(&old, &new, roles);
        let effective = &decision.effective;
        prop_assert!(impossible(effective).is_empty());
        prop_assert_eq!(effective.volumes().iter().filter(|one| one.kraft_metadata).count(), 1);
        let place = metadata_volume(&old).unwrap();
        if roles.is_controller() || ids(effective).contains(&place) {
            prop_assert_eq!(metadata_volume(effective), Some(place));
        }
        for volume in old.volumes() {
            let Some(now) = effective.volumes().iter().find(|now| now.id == volume.id) else {
                prop_assert!(decision.removed.contains(&volume.id));
                continue;
            };
            prop_assert_eq!(volume.disk.kind(), now.disk.kind());
            if let (Disk::Claim(was), Disk::Claim(is)) = (&volume.disk, &now.disk) {
                prop_assert!(is.size.bytes() >= was.size.bytes());
                prop_assert_eq!(&is.class, &was.class);
            }
        }
        // Recorded and asked again, nothing more changes, and the same is said.
        let again = diff(effective, &new, roles);
        prop_assert_eq!(&again.effective, effective);
        prop_assert_eq!(again.refused, decision.refused);
        prop_assert!(again.added.is_empty() && again.removed.is_empty());
    }
}
