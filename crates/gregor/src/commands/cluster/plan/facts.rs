//! What [`control::scaling::explain`] is told of an edit: the cluster as it is, and as the operator's own steps
//! would make it. What is not known stays so, and is named.

use std::collections::{BTreeMap, BTreeSet};

use api::Kafka;
use api::kafka::cruise_control::AutoRebalanceMode;
use control::annotations::Annotation;
use control::cluster::area::Area;
use control::conditions::{Note, Reason};
use control::quorum::migrate;
use control::registration::KafkaVersion;
use control::registration::metadata_version::{self, Decision};
use control::scaling::explain::{Facts, Growth, Object, Upkeep};
use control::scaling::guard;
use kube::ResourceExt as _;
use model::NodeId;
use operator::cluster::foresee::View;
use operator::cluster::foresee::Written;

use super::restarts;

/// The annotation with which a user gives up the check for partitions.
const SKIP_CHECK: &str = Annotation::SkipScaleDownCheck.name();
/// Kinds that are spoken of in other words: pods, their settings, their keys, their disks.
const SPOKEN_OF: &[&str] = &["ConfigMap", "Secret", "StrimziPodSet", "PersistentVolumeClaim"];

/// What is known of an edit.
pub(super) fn facts(present: Option<&View>, edited: &View) -> Facts {
    let kafka = edited.kafka();
    let annotated = |kafka: &Kafka| kafka.annotations().get(SKIP_CHECK).cloned();
    let quorum = present.and_then(|view| view.quorum_facts.as_ref());
    Facts {
        now: edited.recorded.clone(),
        desired: edited.desired.clone(),
        invalid: edited.refused.iter().cloned().collect(),
        mode: present.map_or(edited.mode, |view| view.mode),
        quorum: present.and_then(|view| view.quorum_view().cloned()),
        disks: quorum.map(|facts| facts.disks.clone()).unwrap_or_default(),
        partitions: present.and_then(View::assigned),
        skip_check: kafka.and_then(annotated).is_some_and(|value| value == "true"),
        drains: kafka.is_some_and(|kafka| rebalances(kafka, AutoRebalanceMode::RemoveBrokers)),
        fills: kafka.is_some_and(|kafka| rebalances(kafka, AutoRebalanceMode::AddBrokers)),
        upkeep: upkeep(present, edited),
    }
}

/// Whether brokers that come or go are rebalanced by themselves.
fn rebalances(kafka: &Kafka, mode: AutoRebalanceMode) -> bool {
    let control = kafka.spec.cruise_control.as_ref();
    let modes = control.and_then(|control| control.auto_rebalance.as_ref()).into_iter().flatten();
    modes.into_iter().any(|one| one.mode == mode)
}

fn upkeep(present: Option<&View>, edited: &View) -> Upkeep {
    let compared = present.map(|present| restarts::compare(present, edited)).unwrap_or_default();
    let mut upkeep = Upkeep {
        blocked: blocked(edited),
        taken_back: present.map(|present| taken_back(present, edited)).unwrap_or_default(),
        new_claims: new_claims(edited),
        grown: grown(edited),
        objects: Vec::new(),
        unclear: compared.unclear,
        migrates: migrates(edited) && !present.is_some_and(migrates),
        metadata: present.and_then(|present| metadata(present, edited)),
        changes: compared.changes,
        restarts: compared.restarts,
        claims: claims(edited),
    };
    if let Some(present) = present {
        let same_nodes = edited.recorded == edited.desired;
        let silent = same_nodes && is_silent(&upkeep);
        upkeep.objects = objects(present, edited, silent);
    }
    upkeep
}

/// Whether a dynamic quorum is asked for.
fn migrates(view: &View) -> bool {
    let annotations = view.kafka().map(|kafka| kafka.annotations());
    annotations.and_then(|all| all.get(migrate::ANNOTATION)).is_some_and(|value| value == "true")
}

fn is_silent(upkeep: &Upkeep) -> bool {
    upkeep.restarts.is_empty()
        && upkeep.changes.is_empty()
        && upkeep.unclear.is_empty()
        && upkeep.grown.is_empty()
        && upkeep.new_claims.is_empty()
}

fn blocked(edited: &View) -> Vec<String> {
    let paused = edited.paused.then(|| {
        "nothing is done while the annotation strimzi.io/pause-reconciliation is \"true\""
            .to_owned()
    });
    let held = edited.notes.last().filter(|_| edited.held);
    let held = held.map(|(_, note)| format!("{} ({})", note.message, note.reason));
    paused.into_iter().chain(held).collect()
}

/// Brokers that leave, and would not any more.
fn taken_back(present: &View, edited: &View) -> BTreeSet<NodeId> {
    let is_broker =
        |view: &View, id: &NodeId| view.desired.get(id).is_some_and(|one| one.roles.is_broker());
    let leaves = edited.leaving.iter().filter(|(_, one)| !guard::FINAL.contains(&one.phase));
    let back = leaves.map(|(id, _)| *id);
    back.filter(|id| is_broker(edited, id) && !is_broker(present, id)).collect()
}

fn new_claims(edited: &View) -> BTreeMap<NodeId, Vec<String>> {
    let mut all: BTreeMap<NodeId, Vec<String>> = BTreeMap::new();
    for (name, claim) in edited.claims.iter().filter(|(_, claim)| claim.size_now.is_none()) {
        if let Some(node) = claim.node {
            all.entry(node).or_default().push(name.clone());
        }
    }
    all
}

fn grown(edited: &View) -> Vec<Growth> {
    let grown = edited.claims.iter().filter_map(|(name, claim)| {
        let (from, to) = (claim.size_now.clone()?, claim.size.clone()?);
        (from != to).then(|| Growth { claim: name.clone(), from, to })
    });
    grown.collect()
}

fn claims(edited: &View) -> BTreeMap<NodeId, Vec<(String, bool)>> {
    let mut all: BTreeMap<NodeId, Vec<(String, bool)>> = BTreeMap::new();
    for (name, claim) in edited.claims.iter().filter(|(_, claim)| claim.size_now.is_some()) {
        if let Some(node) = claim.node {
            all.entry(node).or_default().push((name.clone(), claim.delete));
        }
    }
    all
}

/// Where the metadata version goes, when all nodes run the Kafka that is asked for.
fn metadata(present: &View, edited: &View) -> Option<Result<String, String>> {
    let of = |view: &View| {
        let kafka: KafkaVersion = view.kafka_version.as_ref()?.parse().ok()?;
        let facts = metadata_version::Facts {
            desired: view.kafka()?.spec.kafka.metadata_version.clone(),
            kafka,
            nodes: view.desired.keys().map(|id| (*id, Some(kafka))).collect(),
            level: present.metadata_level,
            mode: present.mode,
            unregistering: BTreeSet::new(),
            refused: None,
        };
        Some(metadata_version::decide(&facts))
    };
    let decision = of(edited)?;
    // What is about to happen anyway is not the doing of the edit.
    if of(present).as_ref() == Some(&decision) {
        return None;
    }
    match decision {
        Decision::Keep | Decision::Wait(_) => None,
        Decision::Change { to, .. } => Some(Ok(to.to_string())),
        Decision::Refuse(reason) => Some(Err(reason.note().message)),
    }
}

/// Objects that the edit makes or changes. Where nothing else would be said, settings that restart no node are.
fn objects(present: &View, edited: &View, silent: bool) -> Vec<Object> {
    let new = edited.written.iter().filter(|one| !present.written.contains(one));
    let record = |one: &Written| one.kind == "ConfigMap" && one.name.ends_with("-gregor");
    let spoken_of = |one: &&Written| SPOKEN_OF.contains(&one.kind.as_str());
    let settings = |one: &&Written| silent && one.kind == "ConfigMap" && !record(one);
    let told = new.filter(|one| !spoken_of(one) || settings(one));
    let object =
        |one: &Written| Object { name: format!("{} {}", one.kind, one.name), exists: one.exists };
    told.map(object).collect()
}

/// What is not known, and therefore not promised.
pub(super) fn unknown(
    present: Option<&View>,
    edited: &View,
    assumed: Option<&String>,
) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(present) = present {
        let needs = "the voters, the partitions of brokers and the effective settings of nodes";
        match (present.secrets_readable, &present.unreachable) {
            (false, _) => all.push(format!(
                "no permission to read the Secrets of the cluster, which hold the key to its Kafka: {needs} \
                 are not known"
            )),
            (true, Some(why)) if !present.is_kafka_seen() => {
                all.push(format!("{why}: {needs} are unknown"));
            }
            (true, Some(why)) => all.push(format!("{why}: some facts are unknown")),
            (true, None) => {}
        }
        if present.secrets_readable && !edited.secrets_readable {
            all.push(
                "Secrets are not part of a snapshot: whether certificates would be issued again is not known"
                    .to_owned(),
            );
        }
        if present.refused.is_some() {
            all.push(
                "the current spec is refused: the reasons for restarts are unknown".to_owned(),
            );
        }
        if present.held {
            let why = present.notes.last().map(|(_, note)| note.message.clone());
            all.push(format!(
                "the cluster is blocked now ({}): the reasons for restarts are unknown",
                why.unwrap_or_default()
            ));
        }
    }
    let awaits = edited.notes.iter().filter(|(_, note)| note.reason == Reason::AwaitingAddresses);
    all.extend(awaits.take(1).map(|_| {
        "some addresses have not been assigned yet by Kubernetes or a load balancer: it is \
         unknown whether brokers are restarted for them"
            .to_owned()
    }));
    let is_unread = |area: Area, note: &Note| match area {
        Area::Access => true,
        Area::Configuration => !edited.held && note.reason == Reason::KubernetesUnreadable,
        _ => false,
    };
    let unread = edited.notes.iter().filter(|(area, note)| is_unread(*area, note));
    all.extend(unread.map(|(_, note)| note.message.clone()));
    if !edited.hidden.is_empty() {
        let fields = edited.hidden.join(", ");
        all.push(format!("values hidden in the snapshot are assumed to be unchanged: {fields}"));
    }
    all.extend(assumed.cloned());
    all
}
