//! Rebalancing that a cluster does for itself when it is scaled, as [`control::rebalance::auto`] says; and moves
//! that nobody claims any more, which are stopped.
//!
//! It comes before nodes go: which of them must not be stopped is decided, and recorded, here.

use std::collections::BTreeSet;
use std::time::Duration;

use api::KafkaRebalance;
use api::kafka::cruise_control::AutoRebalanceMode;
use api::names::CLUSTER_LABEL;
use control::conditions::{Note, Reason};
use control::rebalance::auto::{
    self, Act, Brokers, Decision, Facts, Mode, Partner, PerMode, Phase, Request, Setting,
};
use control::rebalance::request::{self, Wish};
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use model::NodeId;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::cluster::error::PassError;
use crate::cluster::partitions;
use crate::cluster::pass::{Step, Work};
use crate::rebalance::RebalanceError;
use crate::rebalance::engine::native;
use crate::rebalance::request::{AUTO_APPROVAL, WISH};
use crate::rebalance::site::Site;
use crate::rebalance::store::{self, Kept, Moves, Place, RequestRecord};
use crate::time::now_ms;

/// Keeps a request until nothing of it runs.
pub(crate) const FINALIZER: &str = "strimzi.io/auto-rebalancing";
/// On a request: the round that it was made in.
const ROUND: &str = "gregor.io/auto-rebalance-round";
/// How often a cluster with a drain that failed, or that waits for its template, is looked at.
const RETRY: Duration = Duration::from_secs(20);
/// What is in a template and makes no sense in a request that is made of it.
const NOT_COPIED: [&str; 4] = ["mode", "brokers", "rebalanceDisk", "moveReplicasOffVolumes"];

pub(crate) async fn run(work: &mut Work) -> Result<Step, PassError> {
    let stopping = stop_unclaimed(work).await?;
    let found = Requests::read(work).await?;
    let facts = facts(work, &found).await?;
    let decision = auto::decide(work.record.auto_rebalance.as_ref(), &facts);
    if let Some(new) = &decision.recorded {
        work.record.auto_rebalance = Some(new.clone());
        work.save().await?;
    }
    work.known.held = decision.held.clone();
    work.known.auto_rebalance = Some(shown(&decision));
    for notice in &decision.notices {
        work.warn(notice.reason(), notice.to_string());
        let waits = matches!(
            notice,
            auto::Notice::Setback(Mode::RemoveBrokers, _) | auto::Notice::TemplateMissing(_)
        );
        if waits {
            // It is tried again after a while, or when the template is there, and no event says when that is.
            work.known.look_again(RETRY);
        }
    }
    for act in &decision.acts {
        found.act(work, act).await?;
    }
    let phase = decision.recorded.as_ref().map_or(Phase::Idle, |recorded| recorded.phase);
    Ok(match phase {
        _ if stopping => waiting("moves of a KafkaRebalance that is gone are being taken back"),
        Phase::RebalanceOnScaleDown => waiting("brokers that are to leave are being drained"),
        Phase::RebalanceOnScaleUp => waiting("brokers that have come are being filled"),
        Phase::Idle if decision.acts.is_empty() && !found.has_ours() => Step::Done,
        Phase::Idle => waiting("a KafkaRebalance that is not needed any more is put away"),
    })
}

fn waiting(message: &str) -> Step {
    Step::Waiting(Note::new(Reason::AutoRebalancing, message))
}

fn failed(error: RebalanceError) -> PassError {
    PassError::Rebalance(Box::new(error))
}

/// Stops moves whose request is gone. Whether there are some that have not ended.
async fn stop_unclaimed(work: &Work) -> Result<bool, PassError> {
    if !work.found.config_maps.contains_key(&work.blueprint.names.moves()) {
        return Ok(false);
    }
    let names = work.blueprint.names.clone();
    let site = Site::of(&work.ctx, &work.blueprint.kafka, names, &work.record).map_err(failed)?;
    native::drive_unclaimed(&work.ctx, &site).await.map_err(failed)
}

/// The requests of the namespace, read past every cache, and how far ours are.
struct Requests {
    all: Vec<KafkaRebalance>,
    partners: PerMode<Partner>,
}

impl Requests {
    async fn read(work: &Work) -> Result<Self, PassError> {
        let api: Api<KafkaRebalance> = work.api();
        let all = api.list(&ListParams::default()).await;
        let all = all.map_err(|error| PassError::Get(Box::new(error)))?.items;
        let partners = PerMode {
            remove: partner(work, &all, Mode::RemoveBrokers).await?,
            add: partner(work, &all, Mode::AddBrokers).await?,
        };
        Ok(Self { all, partners })
    }

    /// Whether there is one that we have made.
    fn has_ours(&self) -> bool {
        let ours = |mode| matches!(self.partners.get(mode), Partner::Present(_));
        ours(Mode::RemoveBrokers) || ours(Mode::AddBrokers)
    }

    fn get(&self, name: &str) -> Option<&KafkaRebalance> {
        self.all.iter().find(|kr| kr.name_any() == name)
    }

    /// The template of a mode, if it is set and there is one.
    fn template(&self, work: &Work, mode: Mode) -> Option<&KafkaRebalance> {
        self.get(&template_name(work, mode)??)
    }

    async fn act(&self, work: &Work, act: &Act) -> Result<(), PassError> {
        let api: Api<KafkaRebalance> = work.api();
        let writer = &work.ctx.writer;
        match act {
            Act::Create { mode, brokers, round } => {
                let template = self.template(work, *mode);
                let kr = made(work, (*mode, brokers, *round), template)?;
                writer.create(&api, &kr).await?;
            }
            Act::Refresh { mode, brokers, round } => {
                let Some(kr) = self.get(&name(work, *mode)) else { return Ok(()) };
                if round_of(kr) != Some(*round) {
                    return Ok(());
                }
                let patch = json!({
                    "metadata": {
                        "annotations": { WISH: Wish::Refresh.name() },
                        "resourceVersion": kr.resource_version(),
                    },
                    "spec": { "brokers": brokers },
                });
                writer.patch(&api, &kr.name_any(), &patch, Some(kr)).await?;
            }
            Act::Stop(mode) => {
                let Some(kr) = self.get(&name(work, *mode)) else { return Ok(()) };
                let patch = json!({ "metadata": {
                    "annotations": { WISH: Wish::Stop.name() },
                    "resourceVersion": kr.resource_version(),
                } });
                writer.patch(&api, &kr.name_any(), &patch, Some(kr)).await?;
            }
            Act::Delete(mode) => {
                let Some(kr) = self.get(&name(work, *mode)) else { return Ok(()) };
                if let Some(uid) = kr.uid() {
                    writer.delete(&api, &kr.name_any(), &uid, None).await?;
                }
            }
            Act::Release(mode) => {
                let Some(kr) = self.get(&name(work, *mode)) else { return Ok(()) };
                release(&work.ctx, kr).await?;
            }
        }
        Ok(())
    }
}

/// Takes our finalizer off a request.
pub(crate) async fn release(
    ctx: &crate::context::Context,
    kr: &KafkaRebalance,
) -> Result<(), PassError> {
    let others: Vec<_> = kr.finalizers().iter().filter(|name| *name != FINALIZER).collect();
    if others.len() == kr.finalizers().len() {
        return Ok(());
    }
    let api: Api<KafkaRebalance> =
        Api::namespaced(ctx.client.clone(), &kr.namespace().unwrap_or_default());
    let version = kr.resource_version();
    let patch = json!({ "metadata": { "finalizers": others, "resourceVersion": version } });
    ctx.writer.patch(&api, &kr.name_any(), &patch, Some(kr)).await?;
    Ok(())
}

/// What the request of a mode is called.
fn name(work: &Work, mode: Mode) -> String {
    format!("{}-auto-rebalancing-{}", work.blueprint.names.cluster, mode.name())
}

fn round_of(kr: &KafkaRebalance) -> Option<u64> {
    kr.annotations().get(ROUND)?.parse().ok()
}

/// The name of the template of a mode: `None` if the mode is off, `Some(None)` if it has no template.
fn template_name(work: &Work, mode: Mode) -> Option<Option<String>> {
    let cruise_control = work.blueprint.kafka.spec.cruise_control.as_ref()?;
    let wanted = match mode {
        Mode::AddBrokers => AutoRebalanceMode::AddBrokers,
        Mode::RemoveBrokers => AutoRebalanceMode::RemoveBrokers,
    };
    let all = cruise_control.auto_rebalance.as_deref().unwrap_or_default();
    let one = all.iter().find(|one| one.mode == wanted)?;
    Some(one.template.as_ref().and_then(|template| template.name.clone()))
}

async fn partner(work: &Work, all: &[KafkaRebalance], mode: Mode) -> Result<Partner, PassError> {
    let name = name(work, mode);
    let Some(kr) = all.iter().find(|kr| kr.name_any() == name) else {
        return Ok(Partner::Missing);
    };
    let ours = kr.finalizers().iter().any(|one| one == FINALIZER) || round_of(kr).is_some();
    if !ours {
        return Ok(Partner::Foreign);
    }
    // Read after the resource: it is not older than that.
    let load = async {
        let kept: Kept<RequestRecord> = Place::of_request(&work.ctx.client, kr)?.load().await?;
        Ok::<_, store::StoreError>(kept.value)
    };
    let record = load.await.map_err(|error| failed(error.into()))?;
    Ok(Partner::Present(request_of(kr, record.map(|record| record.request))))
}

/// A request of ours as the decision sees it.
fn request_of(kr: &KafkaRebalance, recorded: Option<request::Recorded>) -> Request {
    let annotated = |wish: Wish| kr.annotations().get(WISH).is_some_and(|v| v == wish.name());
    let wishes = |wish| {
        annotated(wish) || recorded.as_ref().is_some_and(|recorded| recorded.wish == Some(wish))
    };
    let generation = kr.metadata.generation.unwrap_or_default();
    let newer = recorded.as_ref().is_none_or(|recorded| recorded.generation != generation);
    Request {
        round: round_of(kr),
        brokers: ids(kr),
        deleting: kr.metadata.deletion_timestamp.is_some(),
        stopping: wishes(Wish::Stop),
        outdated: wishes(Wish::Refresh) || newer,
        recorded,
    }
}

fn ids(kr: &KafkaRebalance) -> Brokers {
    let ids = kr.spec.brokers.iter().flatten();
    ids.filter_map(|id| NodeId::new(i32::try_from(*id).ok()?)).collect()
}

async fn facts(work: &Work, found: &Requests) -> Result<Facts, PassError> {
    let brokers: Brokers =
        work.record.nodes().iter().filter(|node| node.roles.is_broker()).map(|n| n.id).collect();
    let stays = |id: &NodeId| work.blueprint.wished.get(id).is_some_and(|roles| roles.is_broker());
    let leaving: Brokers = brokers.iter().copied().filter(|id| !stays(id)).collect();
    // Who holds what matters only if somebody is to go.
    let holding = match leaving.is_empty() {
        true => Some(Brokers::new()),
        false => partitions::read(work).await.map(|seen| seen.assigned().into_keys().collect()),
    };
    let running = work.known.kafka.brokers.as_ref().map(|cluster| {
        cluster.nodes.iter().filter(|node| !node.fenced).map(|node| node.id).collect()
    });
    let setting = |mode| match template_name(work, mode) {
        None => Setting::Off,
        Some(None) => Setting::Plain,
        Some(Some(name)) => Setting::Template(Some(found.get(&name).is_some())),
    };
    Ok(Facts {
        brokers: Some(brokers),
        leaving: Some(leaving),
        holding,
        running,
        moving: Some(moving(work, found).map_err(failed)?),
        settings: PerMode { remove: setting(Mode::RemoveBrokers), add: setting(Mode::AddBrokers) },
        partners: PerMode {
            remove: Some(found.partners.remove.clone()),
            add: Some(found.partners.add.clone()),
        },
        now_ms: now_ms(),
    })
}

/// The brokers of moves that run or are approved.
fn moving(work: &Work, found: &Requests) -> Result<Brokers, RebalanceError> {
    let maps = || work.found.config_maps.values();
    let mut brokers = BTreeSet::new();
    if let Some(map) = work.found.config_maps.get(&work.blueprint.names.moves()) {
        let moves: Moves = store::decode(map)?;
        if !moves.is_over() {
            brokers.extend(moves.brokers);
        }
    }
    let cluster = &work.blueprint.names.cluster;
    for kr in found.all.iter().filter(|kr| kr.labels().get(CLUSTER_LABEL) == Some(cluster)) {
        let Some(record) = store::request_in(maps(), kr)? else { continue };
        if request::may_run(&record.request) {
            brokers.extend(record.proposal.map(|proposal| proposal.brokers).unwrap_or_default());
        }
    }
    Ok(brokers)
}

/// A request, from its template: approved beforehand, owned by the cluster, and kept by our finalizer.
fn made(
    work: &Work,
    (mode, brokers, round): (Mode, &Brokers, u64),
    template: Option<&KafkaRebalance>,
) -> Result<KafkaRebalance, PassError> {
    let copied = template.map(|template| serde_json::to_value(&template.spec)).transpose()?;
    let mut spec = match copied {
        Some(Value::Object(spec)) => spec,
        _ => Map::new(),
    };
    spec.retain(|name, _| !NOT_COPIED.contains(&name.as_str()));
    spec.insert("mode".to_owned(), json!(mode.name()));
    spec.insert("brokers".to_owned(), json!(brokers));
    let names = &work.blueprint.names;
    Ok(serde_json::from_value(json!({
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaRebalance",
        "metadata": {
            "name": name(work, mode),
            "namespace": names.namespace,
            "labels": { CLUSTER_LABEL: names.cluster },
            "annotations": { AUTO_APPROVAL: "true", ROUND: round.to_string() },
            "finalizers": [FINALIZER],
            "ownerReferences": work.blueprint.owner().into_iter().collect::<Vec<_>>(),
        },
        "spec": spec,
    }))?)
}

/// What the status says of it; null if nothing.
fn shown(decision: &Decision) -> Value {
    let Some(recorded) = decision.recorded.as_ref().filter(|_| decision.shown) else {
        return Value::Null;
    };
    let since = i128::from(recorded.since_ms / 1000) * 1_000_000_000;
    let since = OffsetDateTime::from_unix_timestamp_nanos(since).ok();
    let since = since.and_then(|time| time.format(&Rfc3339).ok());
    let mut status = json!({ "state": recorded.phase.name(), "lastTransitionTime": since });
    if !decision.modes.is_empty() {
        let mode =
            |(mode, brokers): &(Mode, Brokers)| json!({ "mode": mode.name(), "brokers": brokers });
        status["modes"] = decision.modes.iter().map(mode).collect();
    }
    let error = decision.notices.iter().find(|notice| matches!(notice, auto::Notice::Setback(..)));
    if let Some(error) = error {
        status["lastError"] = json!(error.to_string());
    }
    status
}

#[cfg(test)]
mod tests {
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
    fn a_request_is_outdated_until_it_speaks_of_what_it_is_asked_now() {
        let recorded = |generation, wish| {
            Some(request::Recorded { generation, wish, ..request::Recorded::default() })
        };
        let fresh = request_of(&kr(json!({})), recorded(2, None));
        assert!(!fresh.outdated && !fresh.stopping);
        assert_eq!(fresh.brokers.len(), 2);
        assert!(request_of(&kr(json!({})), recorded(1, None)).outdated);
        assert!(request_of(&kr(json!({})), recorded(2, Some(Wish::Refresh))).outdated);
        let asked = kr(json!({ "annotations": { WISH: "refresh", ROUND: "7" } }));
        assert!(request_of(&asked, recorded(2, None)).outdated);
        assert_eq!(request_of(&asked, None).round, Some(7));
        let stopped = kr(json!({ "annotations": { WISH: "stop" } }));
        assert!(request_of(&stopped, recorded(2, None)).stopping);
        assert!(request_of(&kr(json!({})), recorded(2, Some(Wish::Stop))).stopping);
    }
}
