//! One pass over one cluster: observe, decide, record, act, and say how it is.
//!
//! A pass never waits. What it cannot do yet it names, and the next pass looks again.

use std::collections::BTreeMap;
use std::time::Duration;

use api::names::Names;
use api::{Kafka, KafkaRebalance};
use control::cluster::begin::{Begin, begin};
use control::cluster::decide::{Decision, Pauses, Scope, decide, next_pass_ms};
use control::cluster::draft::Outputs;
use control::cluster::record::Record;
use control::conditions::{Note, Outcome};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt as _};
use objects::areas::configuration::Configuration;
use objects::areas::services::Addresses;
use objects::desired::Refused;
use objects::found::Found;
use objects::pods::Marks;
use objects::{Blueprint, Objects};
use serde_json::Value;
use tokio::sync::OnceCell;

use super::act;
use super::build;
use super::error::PassError;
use super::facts::KafkaFacts;
use super::keys;
use super::others::Others;
use super::rebalances::Rebalances;
use super::record::Stored;
use super::{found, status, steps};
use crate::context::{Context, PAUSE};
use crate::liveness;
use crate::metrics::Decided;
use crate::time::now_ms;

/// A pass, from the moment that the spec is validated and recorded.
pub(crate) struct Work {
    pub(crate) ctx: Context,
    pub(crate) blueprint: Blueprint,
    pub(crate) found: Found,
    pub(crate) record: Record,
    pub(crate) stored: Stored,
    pub(crate) warnings: Vec<Note>,
    /// The objects that the spec asks for.
    pub(crate) objects: Objects,
    /// What was read besides.
    pub(crate) known: Known,
}

/// What was read and built, besides the objects of the cluster.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) authorities: Option<keys::Authorities>,
    pub(crate) addresses: Option<Addresses>,
    /// The annotations that pods get because of their certificates.
    pub(crate) certificate_marks: Marks,
    pub(crate) configuration: Configuration,
    pub(crate) kafka: KafkaFacts,
    /// What was read of objects that do not belong to the cluster.
    pub(crate) others: Others,
    /// All `KafkaRebalance` resources of the namespace, where watches have shown them.
    pub(crate) listed: Option<Vec<KafkaRebalance>>,
    /// The `KafkaRebalance` resources, once an area has asked for them.
    pub(crate) rebalances: OnceCell<Rebalances>,
    /// What the areas have found out, for the report.
    pub(crate) outputs: Outputs,
    /// Where clients of a listener with node ports begin, by its name.
    pub(crate) machines: BTreeMap<String, Vec<(String, u16)>>,
    /// When what is being done will be worth another look, if that is known.
    pub(crate) look_again_ms: Option<u64>,
    /// The pause of what areas wait for.
    pub(crate) waits_ms: Option<u64>,
}

impl Work {
    /// The API of objects of one kind in the namespace of the cluster.
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.ctx.client.clone(), &self.blueprint.names.namespace)
    }

    /// Writes the record, if it has changed, before anything is done that rests on it.
    pub(crate) async fn save(&mut self) -> Result<(), PassError> {
        let api: Api<ConfigMap> = self.api();
        let of = (&self.blueprint.names, &self.blueprint.kafka);
        Ok(self.stored.save(&self.ctx.writer, &api, of, &self.record).await?)
    }
}

/// Result of a pass that ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Next {
    /// When to requeue.
    pub(crate) after: Duration,
    /// Whether a person has to act. Such a pass counts as failed, though it did what it could.
    pub(crate) is_held: bool,
}

impl Next {
    /// Requeue after this time; no person has to act.
    pub(crate) const fn after(after: Duration) -> Self {
        Self { after, is_held: false }
    }
}

/// Whether its user wants a resource left alone.
pub(crate) fn is_paused(kafka: &Kafka) -> bool {
    kafka.annotations().get(PAUSE).is_some_and(|value| value == "true")
}

/// Makes one pass over a cluster, as it is now. `written` is the resource as its user wrote it.
pub(crate) async fn run(ctx: &Context, kafka: Kafka, written: &Value) -> Result<Next, PassError> {
    let names = Names::new(&kafka.namespace().unwrap_or_default(), &kafka.name_any());
    match begin(kafka.metadata.deletion_timestamp.is_some(), is_paused(&kafka)) {
        Begin::Release => {
            // What belongs to the cluster goes with it; only objects without an owner are deleted here.
            super::gone::release(ctx, &names, steps::pools::cluster_of(&kafka)).await?;
            return Ok(Next::after(ctx.settings.interval));
        }
        Begin::Pause => {
            let at = (&names, &kafka);
            let mut report = status::Report::of_nothing(at, Outcome::Paused, Vec::new());
            ctx.writer.metrics().passed(&names, report.outcome());
            report.write(ctx, &kafka).await?;
            return Ok(Next::after(ctx.settings.interval));
        }
        Begin::Reconcile => {}
    }
    let found = {
        // Never closed, so that there is always a permit to come.
        let waiting = ctx.writer.metrics().waiting();
        let _permit = liveness::waiting(ctx.readers.acquire()).await.ok();
        drop(waiting);
        Box::pin(found::read(&ctx.client, &names)).await?
    };
    ctx.written.set(&names, now_ms());
    Box::pin(over(ctx, (kafka, written), (found, None))).await
}

/// Makes one pass over a cluster as watches have shown it, and writes nothing. `None` if they have not, or if there is
/// something to write, or to publish.
pub(crate) async fn look(ctx: &Context, kafka: Kafka, written: &Value) -> Option<Next> {
    match begin(kafka.metadata.deletion_timestamp.is_some(), is_paused(&kafka)) {
        Begin::Reconcile => {}
        Begin::Release | Begin::Pause => return None,
    }
    let names = Names::new(&kafka.namespace().unwrap_or_default(), &kafka.name_any());
    let found = found::cached(&ctx.cache, &names).await?;
    let rebalances = ctx.cache.list(&names, found::What::Rebalances)?;
    let looking = ctx.looking();
    let next = Box::pin(over(&looking, (kafka, written), (found, Some(rebalances)))).await;
    next.ok().filter(|_| !looking.writer.has_refused())
}

/// Makes one pass over what was found. `rebalances` are the `KafkaRebalance` resources of the namespace, if they are known.
async fn over(
    ctx: &Context,
    (kafka, written): (Kafka, &Value),
    (found, rebalances): (Found, Option<Vec<KafkaRebalance>>),
) -> Result<Next, PassError> {
    let names = Names::new(&kafka.namespace().unwrap_or_default(), &kafka.name_any());
    let (mut waits_ms, mut look_again) = (None, None);
    let (mut report, error) = match steps::desired::begin(ctx, kafka.clone(), written, found) {
        Ok(Ok(mut work)) => {
            work.known.listed = rebalances;
            let (outcome, error) = Box::pin(reconcile(&mut work)).await;
            (waits_ms, look_again) = (work.known.waits_ms, work.known.look_again_ms);
            (status::Report::of(*work, outcome), error)
        }
        Ok(Err(Refused { note, warnings })) => {
            (status::Report::of_nothing((&names, &kafka), Outcome::Held(note), warnings), None)
        }
        Err(error) => {
            // Topics and users of a cluster whose record cannot be read are left unchanged, too.
            ctx.admins.forget(&names);
            let outcome = Outcome::Held(error.note());
            let report = status::Report::of_nothing((&names, &kafka), outcome, Vec::new());
            (report, Some(error))
        }
    };
    let reported = report.write(ctx, &kafka).await;
    if !ctx.writer.has_refused() {
        ctx.writer.metrics().passed(&names, report.outcome());
    }
    reported?;
    if let Some(error) = error {
        return Err(error);
    }
    let quiet_ms = ctx.written.get(&names).map_or(0, |at_ms| now_ms().saturating_sub(at_ms));
    let pauses = Pauses { waits_ms, asked_ms: look_again, quiet_ms };
    let next_ms = next_pass_ms(report.outcome(), pauses, millis(ctx.settings.interval));
    Ok(Next { after: Duration::from_millis(next_ms), is_held: report.is_held() })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Observes, decides, records and acts. How the cluster is, and what failed first if something did.
async fn reconcile(work: &mut Work) -> (Outcome, Option<PassError>) {
    match decide_and_act(work).await {
        Ok(ended) => ended,
        Err(error) => (error.failure().outcome(), Some(error)),
    }
}

async fn decide_and_act(work: &mut Work) -> Result<(Outcome, Option<PassError>), PassError> {
    // Which nodes there are is recorded before anything of theirs is made.
    work.save().await?;
    steps::pools::tell(work).await?;
    // What cannot be built or read holds up the areas that need it, and no others: those may be what it takes. The pass
    // fails when they are done.
    let unbuilt = build::all(work, false).await;
    let unreachable = steps::kafka::read(work).await.err();
    let (before, scope) = (work.record.clone(), Scope::pass());
    let (snapshot, unread) = act::observe(work, &before, &scope).await;
    let failed = unbuilt.or(unreachable).or(unread);
    let decision = decide(&snapshot, &before, &scope);
    if work.ctx.writer.is_looking() && !(decision.acts.is_empty() && decision.notices.is_empty()) {
        work.ctx.writer.refuse();
        return Ok((decision.outcome(), failed));
    }
    work.record = decision.record.clone();
    work.save().await?;
    let pools = work.blueprint.pools.len();
    let decided = Decided { snapshot: &snapshot, before: &before, decision: &decision, pools };
    work.ctx.writer.metrics().decided(&work.blueprint.names, &decided);
    remember(work, &before, &decision).await;
    act::all(work, snapshot, (decision, before), failed).await
}

/// Keeps what the report and the next pass use of a decision.
async fn remember(work: &mut Work, before: &Record, decision: &Decision) {
    work.warnings.extend(decision.warnings.iter().cloned());
    work.known.outputs = decision.outputs.clone();
    work.known.waits_ms = decision.waits_ms();
    let names = &work.blueprint.names;
    let quorum = decision.outputs.quorum.as_ref().and_then(|facts| facts.quorum.as_ref());
    if let Some(view) = quorum {
        match view.mark() {
            Some(mark) => drop(work.ctx.marks.set(names, mark)),
            None => work.ctx.marks.forget(names),
        }
    }
    let (was, now) = (before.quorum_migration, work.record.quorum_migration);
    if now != was {
        tracing::info!("{}/{}: migration: {was:?} -> {now:?}", names.namespace, names.cluster);
    }
    status::tell_warnings(work, &decision.notices).await;
}
