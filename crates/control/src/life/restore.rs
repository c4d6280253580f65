//! Whether a backup of a cluster is put back, and in which order.
//!
//! 1. Nothing that exists is overwritten: an object that differs from the backup is a blocker, and an equal one is kept, so
//!    that an interrupted restore can be repeated.
//! 2. The Kafka comes last: until it exists, the operator changes nothing, and does not take a half-restored cluster for a
//!    new one.
//! 3. A whole cluster is restored only where it does not exist. Single objects, such as a lost key, are restored by name.
//! 4. The record and the disks belong together: a record without its disks would describe a cluster that does not exist, and
//!    claims that the backup does not know belong to nodes that its record lacks.
//! 5. A volume is bound to a claim of the backup only if no other claim has it.

use std::collections::BTreeSet;
use std::fmt;

use crate::cluster::record::FormatVersion;

/// The kind of an object in a backup, in the order in which they are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The record, and files that users supply.
    ConfigMap,
    /// Authorities, users, and what resources refer to.
    Secret,
    /// A volume with data.
    Volume,
    /// The claim of a volume.
    Claim,
    /// A `KafkaTopic`.
    Topic,
    /// A `KafkaUser`.
    User,
    /// A `KafkaRebalance` that is a template.
    Rebalance,
    /// A `KafkaNodePool`.
    Pool,
    /// The `Kafka`.
    Kafka,
}

impl Kind {
    /// All of them, in order.
    pub const ALL: [Self; 9] = [
        Self::ConfigMap,
        Self::Secret,
        Self::Volume,
        Self::Claim,
        Self::Topic,
        Self::User,
        Self::Rebalance,
        Self::Pool,
        Self::Kafka,
    ];

    /// Its name in Kubernetes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::Volume => "PersistentVolume",
            Self::Claim => "PersistentVolumeClaim",
            Self::Topic => "KafkaTopic",
            Self::User => "KafkaUser",
            Self::Rebalance => "KafkaRebalance",
            Self::Pool => "KafkaNodePool",
            Self::Kafka => "Kafka",
        }
    }

    /// The kind with this name in Kubernetes, in any case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }
}

/// An object by kind and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.name(), self.name)
    }
}

/// What exists of an object of the backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Existing {
    /// Nothing.
    None,
    /// The same object.
    Same,
    /// An object with another content.
    Different,
    /// An object that is being deleted.
    Deleting,
    /// A volume whose claim is gone.
    Released,
    /// A volume of this other claim.
    Taken(String),
}

/// An object of the backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its kind and name.
    pub id: Id,
    /// Whether it is of no use without the data: the record, the claims, the volumes.
    pub is_of_data: bool,
    /// What exists of it.
    pub existing: Existing,
}

/// What to restore.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Only these objects. All if there are none.
    pub only: BTreeSet<Id>,
    /// Without the record, which is rebuilt from the claims.
    pub rebuilds_record: bool,
    /// Without record, claims and volumes: the cluster begins anew, with its authorities and users.
    pub is_without_data: bool,
}

/// Facts about a backup and the place where it is restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// What is requested.
    pub request: Request,
    /// The objects of the backup.
    pub objects: Vec<Object>,
    /// The name of the record.
    pub record: String,
    /// The format of the record in the backup. `None` if it has no record, or an unreadable one.
    pub format: Option<FormatVersion>,
    /// Whether the namespace exists.
    pub has_namespace: bool,
    /// Claims of the cluster that exist and that the backup lacks.
    pub unknown_claims: BTreeSet<String>,
}

/// A step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// It is created.
    Create,
    /// The volume is released from its former claim.
    Release,
    /// It exists already.
    Keep,
}

/// Why nothing is restored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blocker {
    /// The namespace does not exist.
    NoNamespace,
    /// The backup does not have this object.
    NotInBackup(Id),
    /// The cluster exists.
    KafkaExists(String),
    /// The object exists, and differs.
    Differs(Id),
    /// The object is being deleted.
    Deleting(Id),
    /// The volume has another claim.
    Taken(Id, String),
    /// The record is of a newer major format.
    RecordTooNew(FormatVersion),
    /// These claims are of nodes that the record lacks.
    UnknownClaims(BTreeSet<String>),
    /// Claims exist, and the cluster should begin without data.
    DataExists(BTreeSet<String>),
}

/// Decides what is done with each object, in order.
///
/// # Errors
/// What has to be resolved first. Nothing is restored then.
pub fn decide(facts: &Facts) -> Result<Vec<(Id, Act)>, Vec<Blocker>> {
    let mut blockers = BTreeSet::new();
    if !facts.has_namespace {
        blockers.insert(Blocker::NoNamespace);
    }
    let has = |id: &&Id| facts.objects.iter().any(|object| object.id == **id);
    let missing = facts.request.only.iter().filter(|id| !has(id));
    blockers.extend(missing.map(|id| Blocker::NotInBackup(id.clone())));
    let mut chosen: Vec<_> =
        facts.objects.iter().filter(|object| facts.is_chosen(object)).collect();
    chosen.sort_by(|one, other| one.id.cmp(&other.id));
    blockers.extend(facts.of_record(&chosen));
    let mut steps = Vec::new();
    for Object { id, existing, .. } in chosen {
        let act = match existing {
            Existing::None => Act::Create,
            Existing::Released => Act::Release,
            // The operator manages it: what it has made of the cluster since is not mixed with a backup (3).
            Existing::Same | Existing::Different if id.kind == Kind::Kafka => {
                blockers.insert(Blocker::KafkaExists(id.name.clone()));
                continue;
            }
            Existing::Same => Act::Keep,
            Existing::Different => {
                blockers.insert(Blocker::Differs(id.clone()));
                continue;
            }
            Existing::Deleting => {
                blockers.insert(Blocker::Deleting(id.clone()));
                continue;
            }
            Existing::Taken(by) => {
                blockers.insert(Blocker::Taken(id.clone(), by.clone()));
                continue;
            }
        };
        steps.push((id.clone(), act));
    }
    // The other differences of a cluster that exists are no news.
    if blockers.iter().any(|one| matches!(one, Blocker::KafkaExists(_))) {
        blockers.retain(|one| !matches!(one, Blocker::Differs(_) | Blocker::UnknownClaims(_)));
    }
    if blockers.is_empty() { Ok(steps) } else { Err(blockers.into_iter().collect()) }
}

impl Facts {
    fn is_record(&self, id: &Id) -> bool {
        id.kind == Kind::ConfigMap && id.name == self.record
    }

    fn is_chosen(&self, object: &Object) -> bool {
        let Request { only, rebuilds_record, is_without_data } = &self.request;
        (only.is_empty() || only.contains(&object.id))
            && !(*rebuilds_record && self.is_record(&object.id))
            && !(*is_without_data && object.is_of_data)
    }

    /// Whether the record and the disks belong together (4).
    fn of_record(&self, chosen: &[&Object]) -> Option<Blocker> {
        let claims = || {
            let known = self.objects.iter().filter(|object| {
                object.id.kind == Kind::Claim && object.existing != Existing::None
            });
            let known = known.map(|object| object.id.name.clone());
            known.chain(self.unknown_claims.iter().cloned()).collect::<BTreeSet<_>>()
        };
        let has_kafka = chosen.iter().any(|object| object.id.kind == Kind::Kafka);
        if self.request.is_without_data && has_kafka && !claims().is_empty() {
            return Some(Blocker::DataExists(claims()));
        }
        chosen.iter().find(|object| self.is_record(&object.id))?;
        match self.format {
            Some(format) if !format.is_readable() => Some(Blocker::RecordTooNew(format)),
            Some(_) | None if self.unknown_claims.is_empty() => None,
            Some(_) | None => Some(Blocker::UnknownClaims(self.unknown_claims.clone())),
        }
    }
}

/// What a volume says about its claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRef {
    /// Its namespace and name.
    pub name: String,
    /// Its uid. `None` if any claim of that name may have the volume.
    pub uid: Option<String>,
}

/// What an existing volume means for a claim of the backup, by the uid of the present claim of that name, if there is one.
#[must_use]
pub fn volume(claim: &str, present: Option<&str>, found: Option<&ClaimRef>) -> Existing {
    match found {
        None => Existing::Released,
        Some(of) if of.name != claim => Existing::Taken(of.name.clone()),
        Some(ClaimRef { uid: None, .. }) => Existing::Same,
        Some(ClaimRef { uid: Some(uid), .. }) if present == Some(uid) => Existing::Same,
        Some(ClaimRef { uid: Some(_), .. }) => Existing::Released,
    }
}

fn list(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNamespace => f.write_str(
                "the namespace of the cluster does not exist: create it, with the labels and quotas that it had",
            ),
            Self::NotInBackup(id) => write!(f, "the backup does not have {id}"),
            Self::KafkaExists(name) => write!(
                f,
                "Kafka {name} exists, and a backup is not merged into an existing cluster. Restore lost objects one by one with --only, or delete \
                 the Kafka first"
            ),
            Self::Differs(id) => write!(
                f,
                "{id} exists with different content, and nothing is overwritten: delete it, or leave it out with --only"
            ),
            Self::Deleting(id) => write!(f, "{id} is being deleted: wait until it is"),
            Self::Taken(id, by) => write!(
                f,
                "{id} belongs to the claim {by}: its data is not that of the backup"
            ),
            Self::RecordTooNew(format) => write!(
                f,
                "the record in the backup has the format {format}, and this gregor reads {}: use a newer gregor",
                FormatVersion::CURRENT
            ),
            Self::UnknownClaims(claims) => write!(
                f,
                "claims exist that the backup does not know ({}): their nodes were added after it. Have the record rebuilt \
                 from the claims with --rebuild-record",
                list(claims)
            ),
            Self::DataExists(claims) => write!(
                f,
                "claims of the cluster exist ({}): restore with the data, or delete them",
                list(claims)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Id {
        let (kind, name) = text.split_once('/').unwrap();
        Id { kind: Kind::named(kind).unwrap(), name: name.to_owned() }
    }

    fn object(text: &str, existing: Existing) -> Object {
        let id = id(text);
        let is_of_data = matches!(id.kind, Kind::Volume | Kind::Claim) || id.name == "c-gregor";
        Object { id, is_of_data, existing }
    }

    /// A backup of which nothing exists.
    fn facts() -> Facts {
        let all = [
            "Kafka/c",
            "KafkaNodePool/b",
            "KafkaTopic/t",
            "Secret/c-cluster-ca",
            "ConfigMap/c-gregor",
            "PersistentVolumeClaim/data-c-b-0",
            "PersistentVolume/pvc-1",
        ];
        Facts {
            request: Request::default(),
            objects: all.iter().map(|text| object(text, Existing::None)).collect(),
            record: "c-gregor".to_owned(),
            format: Some(FormatVersion::CURRENT),
            has_namespace: true,
            unknown_claims: BTreeSet::new(),
        }
    }

    fn told(facts: &Facts) -> String {
        match decide(facts) {
            Ok(steps) => {
                let word = |(id, act): &(Id, Act)| {
                    let act = match act {
                        Act::Create => "+",
                        Act::Release => "~",
                        Act::Keep => "=",
                    };
                    format!("{act}{}", id.name)
                };
                steps.iter().map(word).collect::<Vec<_>>().join(" ")
            }
            Err(blockers) => {
                let name = |one: &Blocker| {
                    let text = format!("{one:?}");
                    assert!(!one.to_string().is_empty());
                    text.split(['(', ' ']).next().unwrap().to_owned()
                };
                format!("blocked: {}", blockers.iter().map(name).collect::<Vec<_>>().join(" "))
            }
        }
    }

    type Edit = fn(&mut Facts);

    fn set(facts: &mut Facts, text: &str, existing: Existing) {
        let found = facts.objects.iter_mut().find(|object| object.id == id(text)).unwrap();
        found.existing = existing;
    }

    #[test]
    #[rustfmt::skip]
    fn the_rows_hold() {
        const ALL: &str = "+c-gregor +c-cluster-ca +pvc-1 +data-c-b-0 +t +b +c";
        // What differs from a place where nothing exists, and what is done.
        let rows: [(&str, Edit, &str); 20] = [
            ("nothing exists", |_| {}, ALL),
            ("interrupted", |f| { set(f, "ConfigMap/c-gregor", Existing::Same); set(f, "PersistentVolumeClaim/data-c-b-0", Existing::Same); },
                "=c-gregor +c-cluster-ca +pvc-1 =data-c-b-0 +t +b +c"),
            ("the volume survived", |f| set(f, "PersistentVolume/pvc-1", Existing::Released),
                "+c-gregor +c-cluster-ca ~pvc-1 +data-c-b-0 +t +b +c"),
            ("the volume has another claim", |f| set(f, "PersistentVolume/pvc-1", Existing::Taken("n/x".to_owned())), "blocked: Taken"),
            ("no namespace", |f| f.has_namespace = false, "blocked: NoNamespace"),
            ("another Secret", |f| set(f, "Secret/c-cluster-ca", Existing::Different), "blocked: Differs"),
            ("the namespace is going", |f| set(f, "Secret/c-cluster-ca", Existing::Deleting), "blocked: Deleting"),
            ("the cluster is going", |f| set(f, "Kafka/c", Existing::Deleting), "blocked: Deleting"),
            ("the cluster exists", |f| set(f, "Kafka/c", Existing::Same), "blocked: KafkaExists"),
            ("and was changed", |f| { set(f, "Kafka/c", Existing::Different); set(f, "Secret/c-cluster-ca", Existing::Different); }, "blocked: KafkaExists"),
            ("a lost key", |f| { set(f, "Kafka/c", Existing::Different); f.request.only = [id("Secret/c-cluster-ca")].into(); }, "+c-cluster-ca"),
            ("a key that is not lost", |f| { set(f, "Secret/c-cluster-ca", Existing::Different); f.request.only = [id("Secret/c-cluster-ca")].into(); }, "blocked: Differs"),
            ("a key that the backup lacks", |f| f.request.only = [id("Secret/other")].into(), "blocked: NotInBackup"),
            ("a newer record", |f| f.format = Some(FormatVersion { major: 9, minor: 0 }), "blocked: RecordTooNew"),
            ("a newer record, which is rebuilt", |f| { f.format = Some(FormatVersion { major: 9, minor: 0 }); f.request.rebuilds_record = true; },
                "+c-cluster-ca +pvc-1 +data-c-b-0 +t +b +c"),
            ("newer nodes", |f| f.unknown_claims = ["data-c-b-1".to_owned()].into(), "blocked: UnknownClaims"),
            ("newer nodes, the record is rebuilt", |f| { f.unknown_claims = ["data-c-b-1".to_owned()].into(); f.request.rebuilds_record = true; },
                "+c-cluster-ca +pvc-1 +data-c-b-0 +t +b +c"),
            ("without data", |f| f.request.is_without_data = true, "+c-cluster-ca +t +b +c"),
            ("without data, but it is there", |f| { f.request.is_without_data = true; set(f, "PersistentVolumeClaim/data-c-b-0", Existing::Same); }, "blocked: DataExists"),
            ("without data, other data is there", |f| { f.request.is_without_data = true; f.unknown_claims = ["data-c-b-1".to_owned()].into(); }, "blocked: DataExists"),
        ];
        for (name, edit, expected) in rows {
            let mut facts = facts();
            edit(&mut facts);
            assert_eq!(told(&facts), expected, "{name}");
            // The order in which the backup lists objects does not matter.
            facts.objects.reverse();
            assert_eq!(told(&facts), expected, "{name}, in the other order");
        }
    }

    #[test]
    fn a_volume_is_free_for_its_own_claim_only() {
        let of = |name: &str, uid: Option<&str>| {
            Some(ClaimRef { name: name.to_owned(), uid: uid.map(str::to_owned) })
        };
        let rows = [
            // The present claim, the claim of the volume, and what that means.
            (None, None, Existing::Released),
            (None, of("n/c", Some("old")), Existing::Released),
            (None, of("n/c", None), Existing::Same),
            (Some("new"), of("n/c", Some("old")), Existing::Released),
            (Some("new"), of("n/c", Some("new")), Existing::Same),
            (None, of("n/d", Some("old")), Existing::Taken("n/d".to_owned())),
            (None, of("n/d", None), Existing::Taken("n/d".to_owned())),
        ];
        for (present, found, expected) in rows {
            assert_eq!(volume("n/c", present, found.as_ref()), expected, "{present:?} {found:?}");
        }
    }

    #[test]
    fn the_kafka_is_created_last_and_kinds_are_found_by_name() {
        assert_eq!(Kind::ALL.last(), Some(&Kind::Kafka));
        assert!(Kind::ALL.is_sorted());
        for kind in Kind::ALL {
            assert_eq!(Kind::named(&kind.name().to_lowercase()), Some(kind));
        }
        assert_eq!(Kind::named("Pod"), None);
    }
}
