//! The `KafkaRebalance` resources that matter to a cluster, read once in a pass; past every cache if the pass may write.
//!
//! Reads only. If one of them fails the pass ends: nothing is decided on a part of the view.

use api::kafka::cruise_control::AutoRebalanceMode;
use api::names::{CLUSTER_LABEL, Names};
use api::{Kafka, KafkaRebalance};
use control::annotations::Annotation;
use control::cluster::fact::Fact;
use control::cluster::snapshot::RebalanceView;
use control::rebalance::auto::{Brokers, Mode, Partner, PerMode, Seen, Setting};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::ListParams;
use model::NodeId;
use objects::found::ByName;

use super::error::PassError;
use super::pass::Work;
use crate::rebalance::RebalanceError;
use crate::rebalance::request::{COMMAND, annotations};
use crate::rebalance::store::{self, Document, Kept, Moves, RequestRecord, StoreError};
use crate::time::now_ms;

/// Keeps a request until nothing of it runs.
pub(super) const FINALIZER: &str = "strimzi.io/auto-rebalancing";
/// On a request: the round that it was made in.
pub(super) const ROUND: &str = Annotation::AutoRebalanceRound.name();

/// What was read.
pub(crate) struct Rebalances {
    /// All of the namespace: templates need not belong to the cluster.
    all: Vec<KafkaRebalance>,
    /// What decisions use of them.
    pub(super) view: Fact<RebalanceView>,
}

impl Rebalances {
    /// The resource of that name.
    pub(super) fn get(&self, name: &str) -> Option<&KafkaRebalance> {
        self.all.iter().find(|kr| kr.name_any() == name)
    }
}

/// The resources, read when they are first asked for.
pub(super) async fn read(work: &Work) -> Result<&Rebalances, PassError> {
    work.known.rebalances.get_or_try_init(|| list(work)).await
}

async fn list(work: &Work) -> Result<Rebalances, PassError> {
    let at_ms = now_ms();
    let all = match &work.known.listed {
        Some(listed) => listed.clone(),
        None => {
            let all = work.api::<KafkaRebalance>().list(&ListParams::default()).await;
            all.map_err(|error| PassError::Get(Box::new(error)))?.items
        }
    };
    let setting = |mode| setting(&work.blueprint.kafka, mode, &all);
    let settings = PerMode { remove: setting(Mode::RemoveBrokers), add: setting(Mode::AddBrokers) };
    let partners = PerMode {
        remove: partner(work, &all, Mode::RemoveBrokers).await.map_err(failed)?,
        add: partner(work, &all, Mode::AddBrokers).await.map_err(failed)?,
    };
    let (moving, unclaimed) =
        moves(&work.found.config_maps, &work.blueprint.kafka, &all).map_err(failed)?;
    let view = Fact::read(RebalanceView { settings, partners, moving, unclaimed }, at_ms);
    Ok(Rebalances { all, view })
}

pub(super) fn failed(error: impl Into<RebalanceError>) -> PassError {
    PassError::Rebalance(Box::new(error.into()))
}

/// The name of the request of a mode.
pub(super) fn name(work: &Work, mode: Mode) -> String {
    format!("{}-auto-rebalancing-{}", work.blueprint.names.cluster, mode.name())
}

pub(super) fn round_of(kr: &KafkaRebalance) -> Option<u64> {
    kr.annotations().get(ROUND)?.parse().ok()
}

/// How a mode is set, and what there is under the name of its template.
fn setting(kafka: &Kafka, mode: Mode, all: &[KafkaRebalance]) -> Setting {
    match template_name(kafka, mode) {
        None => Setting::Off,
        Some(None) => Setting::Plain,
        Some(Some(name)) => {
            let found = all.iter().find(|kr| kr.name_any() == name);
            Setting::of_template(found.map(annotations).as_ref())
        }
    }
}

/// The name of the template of a mode: `None` if the mode is off, `Some(None)` if it has no template.
pub(super) fn template_name(kafka: &Kafka, mode: Mode) -> Option<Option<String>> {
    let cruise_control = kafka.spec.cruise_control.as_ref()?;
    let wanted = match mode {
        Mode::AddBrokers => AutoRebalanceMode::AddBrokers,
        Mode::RemoveBrokers => AutoRebalanceMode::RemoveBrokers,
    };
    let all = cruise_control.auto_rebalance.as_deref().unwrap_or_default();
    let one = all.iter().find(|one| one.mode == wanted)?;
    Some(one.template.as_ref().and_then(|template| template.name.clone()))
}

async fn partner(work: &Work, all: &[KafkaRebalance], mode: Mode) -> Result<Partner, StoreError> {
    let name = name(work, mode);
    let Some(kr) = all.iter().find(|kr| kr.name_any() == name) else {
        return Ok(Partner::Missing);
    };
    let seen = seen(kr);
    if !seen.is_ours() {
        return Ok(Partner::Foreign);
    }
    // Read after the resource: it is not older than that.
    let kept: Kept<RequestRecord> = Document::of_request(&work.ctx.client, kr)?.load().await?;
    Ok(Partner::of(seen, kept.value.map(|record| record.request)))
}

/// A request as decisions see it.
fn seen(kr: &KafkaRebalance) -> Seen {
    Seen {
        has_finalizer: kr.finalizers().iter().any(|one| one == FINALIZER),
        round: round_of(kr),
        brokers: ids(kr),
        deleting: kr.metadata.deletion_timestamp.is_some(),
        generation: kr.metadata.generation.unwrap_or_default(),
        annotation: kr.annotations().get(COMMAND).cloned(),
    }
}

fn ids(kr: &KafkaRebalance) -> Brokers {
    let ids = kr.spec.brokers.iter().flatten();
    ids.filter_map(|id| NodeId::new(i32::try_from(*id).ok()?)).collect()
}

/// The brokers of moves that run or are approved, and whether moves run whose request is gone. `all` are the requests of
/// the namespace.
fn moves(
    maps: &ByName<ConfigMap>,
    kafka: &Kafka,
    all: &[KafkaRebalance],
) -> Result<(Brokers, bool), StoreError> {
    let cluster = kafka.name_any();
    let names = Names::new(&kafka.namespace().unwrap_or_default(), &cluster);
    let (mut brokers, mut unclaimed) = (Brokers::new(), false);
    if let Some(map) = maps.get(&names.moves()) {
        let moves: Moves = store::decode(map)?;
        if !moves.is_over() {
            // Those of a former cluster of that name are not ours to stop.
            let is_ours = store::owned_by(map, &kafka.uid().unwrap_or_default());
            unclaimed = is_ours && !moves.is_claimed(kafka, all);
            brokers.extend(moves.brokers);
        }
    }
    let is_ours = |kr: &&KafkaRebalance| kr.labels().get(CLUSTER_LABEL) == Some(&cluster);
    for kr in all.iter().filter(is_ours) {
        let Some(record) = store::request_in(maps.values(), kr)? else { continue };
        if record.request.may_run() {
            brokers.extend(record.proposal.map(|proposal| proposal.brokers).unwrap_or_default());
        }
    }
    Ok((brokers, unclaimed))
}

#[cfg(test)]
mod tests {
    use control::rebalance::execution;
    use control::rebalance::request::snapshot::Claimant;
    use serde_json::{Value, json};

    use super::*;

    fn kr(value: Value) -> KafkaRebalance {
        let mut whole = json!({
            "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaRebalance",
            "metadata": { "name": "r", "generation": 2 },
            "spec": { "mode": "add-brokers", "brokers": [3, 4] },
        });
        for (name, value) in value.as_object().unwrap() {
            whole["metadata"][name] = value.clone();
        }
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn a_request_is_reduced_to_what_decisions_use() {
        let found = seen(&kr(json!({
            "name": "r", "generation": 2, "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["x/y", FINALIZER], "annotations": { COMMAND: "refresh", ROUND: "7" },
        })));
        let expected = Seen {
            has_finalizer: true,
            round: Some(7),
            brokers: [3, 4].into_iter().filter_map(NodeId::new).collect(),
            deleting: true,
            generation: 2,
            annotation: Some("refresh".to_owned()),
        };
        assert_eq!(found, expected);
        let others = kr(json!({ "finalizers": ["x/y"], "annotations": { ROUND: "x" } }));
        assert!(!seen(&others).is_ours());
    }

    #[test]
    fn each_mode_has_its_own_template_and_only_a_marked_resource_is_one() {
        let named = |name: &str, annotations: Value| {
            kr(json!({ "name": name, "annotations": annotations }))
        };
        let all = [
            named("old", json!({ "strimzi.io/rebalance": "template" })),
            named("new", json!({ "strimzi.io/rebalance-template": "true" })),
            named("request", json!({})),
        ];
        let one = |mode: &str, name: &str| json!({ "mode": mode, "template": { "name": name } });
        let (old, new) = (one("remove-brokers", "old"), one("add-brokers", "new"));
        let found = Setting::Template(Some(true));
        // `spec.cruiseControl`, how drains and fills are set, the templates.
        let rows = [
            (Value::Null, [Setting::Off, Setting::Off], [None, None]),
            (json!({}), [Setting::Off, Setting::Off], [None, None]),
            (json!([old, new]), [found, found], [Some(Some("old")), Some(Some("new"))]),
            (
                json!([{ "mode": "add-brokers" }]),
                [Setting::Off, Setting::Plain],
                [None, Some(None)],
            ),
            (
                json!([one("remove-brokers", "none"), one("add-brokers", "request")]),
                [Setting::Template(Some(false)), Setting::Unmarked],
                [Some(Some("none")), Some(Some("request"))],
            ),
        ];
        for (modes, settings, names) in rows {
            let cruise_control = match &modes {
                Value::Array(_) => json!({ "autoRebalance": modes }),
                other => other.clone(),
            };
            let kafka: Kafka = serde_json::from_value(json!({
                "apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka", "metadata": { "name": "c" },
                "spec": { "kafka": { "listeners": [] }, "cruiseControl": cruise_control },
            }))
            .unwrap();
            for (mode, at) in [(Mode::RemoveBrokers, 0), (Mode::AddBrokers, 1)] {
                assert_eq!(setting(&kafka, mode, &all), settings[at], "{modes} {mode:?}");
                let name = names[at].map(|name: Option<&str>| name.map(str::to_owned));
                assert_eq!(template_name(&kafka, mode), name, "{modes} {mode:?}");
            }
        }
    }

    /// The moves of the cluster `c` with the uid `k`, for whatever has this uid.
    fn moves_map(phase: execution::Phase, by: &str) -> ConfigMap {
        let moves = Moves {
            by: Claimant { name: "r".to_owned(), uid: by.to_owned(), attempt: 1 },
            parts: 1,
            brokers: [NodeId::new(3).unwrap()].into(),
            recorded: execution::Recorded { phase, ..execution::Recorded::default() },
        };
        serde_json::from_value(json!({
            "metadata": { "name": "c-gregor-moves", "ownerReferences": [
                { "apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka", "name": "c", "uid": "k" },
            ] },
            "data": { "record.json": serde_json::to_string(&moves).unwrap() },
        }))
        .unwrap()
    }

    #[test]
    fn moves_are_unclaimed_when_the_request_that_they_are_for_is_gone() {
        use execution::Phase::{Ended, Moving, Restoring};
        let kafka = |uid: &str, topics: bool| -> Kafka {
            let operator = topics.then(|| json!({ "topicOperator": {} }));
            serde_json::from_value(json!({
                "apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka",
                "metadata": { "name": "c", "namespace": "n", "uid": uid },
                "spec": { "kafka": { "listeners": [] }, "entityOperator": operator },
            }))
            .unwrap()
        };
        let request = || vec![kr(json!({ "uid": "r", "labels": { CLUSTER_LABEL: "c" } }))];
        // How far they are, the uid of the cluster, the requests, whether brokers are held and moves have no owner.
        let rows = [
            (Moving, "k", request(), true, false),
            (Moving, "k", vec![], true, true),
            (Restoring, "k", vec![], true, true),
            (Moving, "a new cluster", vec![], true, false),
            (Ended, "k", vec![], false, false),
        ];
        let names = Names::new("n", "c");
        for (phase, uid, all, held, unclaimed) in rows {
            let maps = [(names.moves(), moves_map(phase, "r"))].into();
            let (brokers, is_unclaimed) = moves(&maps, &kafka(uid, false), &all).unwrap();
            assert_eq!((!brokers.is_empty(), is_unclaimed), (held, unclaimed), "{phase:?} {uid}");
        }
        // Moves for topics, as long as the cluster manages them.
        let maps = [(names.moves(), moves_map(Moving, "k"))].into();
        for topics in [true, false] {
            let (brokers, is_unclaimed) = moves(&maps, &kafka("k", topics), &[]).unwrap();
            assert_eq!((brokers.is_empty(), is_unclaimed), (false, !topics), "{topics}");
        }
        let nothing = moves(&ByName::new(), &kafka("k", true), &[]).unwrap();
        assert_eq!(nothing, (Brokers::new(), false));
    }
}
