//! One pass over one cluster: observe, decide, record, act, and say how it is.
//!
//! A pass never waits. What it cannot do yet it names, and the next pass looks again.

use std::collections::BTreeMap;
use std::time::Duration;

use api::Kafka;
use api::names::Names;
use control::cluster::area::Area;
use control::cluster::areas;
use control::cluster::draft::{Flow, Outputs};
use control::cluster::fact::Fact;
use control::cluster::record::Record;
use control::cluster::snapshot::Partitions;
use control::conditions::{Note, Outcome, Reason};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt as _};
use objects::Blueprint;
use objects::areas::configuration::Configuration;
use objects::areas::services::Addresses;
use objects::found::Found;
use objects::pods::Marks;
use serde_json::Value;
use tokio::sync::OnceCell;

use super::act;
use super::error::PassError;
use super::facts::KafkaFacts;
use super::keys;
use super::rebalances::Rebalances;
use super::record::Stored;
use super::{found, status, steps};
use crate::context::{Context, PAUSE};
use crate::liveness;

/// How soon a cluster is looked at again while something is awaited that no event announces.
const SOON: Duration = Duration::from_secs(2);

/// How soon one whose Kafka does not answer is. Pods that come up begin a pass by themselves.
const LATER: Duration = Duration::from_secs(10);

/// What a step came to.
#[derive(Debug)]
pub(crate) enum Step {
    /// All is as it shall be.
    Done,
    /// Something is awaited; the steps after this one do not rest on it.
    Waiting(Note),
    /// Something is awaited, and the steps after this one rest on it.
    Stop(Note),
    /// It cannot go on before somebody acts. Steps after this one rest on it.
    Hold(Note),
    /// It cannot go on before somebody acts, and the steps after this one do not rest on it.
    Fault(Note),
}

impl From<Flow> for Step {
    fn from(flow: Flow) -> Self {
        match flow {
            Flow::Go => Self::Done,
            Flow::Wait(note) => Self::Waiting(note),
            Flow::Stop(note) => Self::Stop(note),
            Flow::Hold(note) => Self::Hold(note),
            Flow::Fault(note) => Self::Fault(note),
        }
    }
}

pub(crate) type StepFn = for<'w> fn(&'w mut Work) -> BoxFuture<'w, Result<Step, PassError>>;

/// What an area does. The order of a pass is [`Area::ALL`].
pub(crate) fn step(area: Area) -> StepFn {
    match area {
        Area::Authorities => |work| Box::pin(act::run(work, areas::AUTHORITIES)),
        Area::Access => |work| Box::pin(steps::access::run(work)),
        Area::Services => |work| Box::pin(steps::services::run(work)),
        Area::Certificates => |work| Box::pin(certificates(work)),
        Area::Claims => |work| Box::pin(steps::claims::run(work)),
        Area::Configuration => |work| Box::pin(steps::configuration::run(work)),
        Area::Workload => |work| Box::pin(steps::workload::run(work)),
        Area::Kafka => |work| Box::pin(steps::kafka::run(work)),
        Area::Migration => |work| Box::pin(steps::migration::run(work)),
        Area::Quorum => |work| Box::pin(steps::quorum::run(work)),
        Area::Roll => |work| Box::pin(act::run(work, areas::ROLL)),
        Area::Rebalance => |work| Box::pin(act::run(work, areas::REBALANCE)),
        Area::ScaleIn => |work| Box::pin(act::run(work, areas::SCALE_IN)),
        Area::Registration => |work| Box::pin(act::run(work, areas::REGISTRATION)),
        Area::Users => |work| Box::pin(act::run(work, areas::USERS)),
        Area::Leftovers => |work| Box::pin(act::run(work, areas::LEFTOVERS)),
    }
}

/// Certificates, and what later areas use of them.
async fn certificates(work: &mut Work) -> Result<Step, PassError> {
    let step = act::run(work, areas::CERTIFICATES).await?;
    work.known.authorities = keys::authorities(work);
    work.known.certificate_marks = keys::marks(work);
    Ok(step)
}

/// A pass, from the moment that the wishes were found good and recorded.
pub(crate) struct Work {
    pub(crate) ctx: Context,
    pub(crate) blueprint: Blueprint,
    pub(crate) found: Found,
    pub(crate) record: Record,
    pub(crate) stored: Stored,
    pub(crate) warnings: Vec<Note>,
    /// What the steps before have found out for those after them.
    pub(crate) known: Known,
}

/// What steps tell each other.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) authorities: Option<keys::Authorities>,
    pub(crate) addresses: Option<Addresses>,
    /// The annotations that pods get because of their certificates.
    pub(crate) certificate_marks: Marks,
    pub(crate) configuration: Configuration,
    pub(crate) kafka: KafkaFacts,
    /// All partitions, once somebody has asked for them.
    pub(crate) partitions: OnceCell<Fact<Partitions>>,
    /// The `KafkaRebalance` resources, once an area has asked for them.
    pub(crate) rebalances: OnceCell<Rebalances>,
    /// What the areas that are decided in `control` tell each other.
    pub(crate) outputs: Outputs,
    /// Where clients of a listener with node ports begin, by its name.
    pub(crate) machines: BTreeMap<String, Vec<(String, u16)>>,
    /// When what is being done will be worth another look, if that is known.
    pub(crate) look_again: Option<Duration>,
}

impl Known {
    /// Asks for another pass after at most this time. The earliest that a step asks for holds.
    pub(crate) fn look_again(&mut self, after: Duration) {
        self.look_again = Some(self.look_again.map_or(after, |before| before.min(after)));
    }
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

    pub(crate) fn warn(&mut self, reason: Reason, message: impl Into<String>) {
        self.warnings.push(Note::new(reason, message));
    }
}

/// What came of a pass: when to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Next(pub(crate) Duration);

/// Whether its user wants a resource left alone.
pub(crate) fn is_paused(kafka: &Kafka) -> bool {
    kafka.annotations().get(PAUSE).is_some_and(|value| value == "true")
}

/// Makes one pass over a cluster. `written` is the resource as its user wrote it.
pub(crate) async fn run(ctx: &Context, kafka: Kafka, written: &Value) -> Result<Next, PassError> {
    let names = Names::new(&kafka.namespace().unwrap_or_default(), &kafka.name_any());
    if kafka.metadata.deletion_timestamp.is_some() {
        // What belongs to the cluster goes with it; only what nobody owns is taken away here.
        super::gone::release(ctx, &names).await?;
        return Ok(Next(ctx.settings.interval));
    }
    if is_paused(&kafka) {
        status::paused(ctx, &names, &kafka).await?;
        return Ok(Next(ctx.settings.interval));
    }
    let found = {
        // Never closed, so that there is always a permit to come.
        let _permit = liveness::waiting(ctx.readers.acquire()).await.ok();
        found::read(&ctx.client, &names).await?
    };
    let mut look_again = None;
    let (mut report, error) = match steps::wishes::run(ctx, kafka.clone(), written, found).await {
        Ok(steps::wishes::Wishes::Good(mut work)) => {
            let (outcome, error) = steps(&mut work).await;
            if outcome == Outcome::Done && !work.record.was_ready {
                work.record.was_ready = true;
                work.save().await?;
            }
            look_again = work.known.look_again;
            (status::Report::of(*work, outcome), error)
        }
        Ok(steps::wishes::Wishes::Refused { note, warnings }) => {
            (status::Report::refused(&names, note, warnings), None)
        }
        Err(error) => {
            let report = status::Report::refused(&names, error.note(), Vec::new());
            (report, Some(error))
        }
    };
    report.write(ctx, &kafka).await?;
    let next = match error {
        Some(error) => return Err(error),
        None if report.is_settled() => ctx.settings.interval,
        // Whatever it is that somebody wants to look at, nobody would show it.
        None if report.awaits(Reason::KafkaUnreachable) => return Ok(Next(LATER)),
        // A KafkaRebalance that gets on begins a pass by itself.
        None if report.awaits(Reason::AutoRebalancing) => LATER,
        None => SOON,
    };
    Ok(Next(look_again.map_or(next, |soon| soon.min(next))))
}

/// Goes through the steps. A step that fails ends the pass like one that holds it.
async fn steps(work: &mut Work) -> (Outcome, Option<PassError>) {
    let (mut awaited, mut fault): (Option<Note>, _) = (None, None);
    for area in Area::ALL {
        tracing::trace!(%area, "reconciling");
        liveness::progress();
        match step(area)(work).await {
            Ok(Step::Done) => {}
            Ok(Step::Waiting(note)) => match &awaited {
                Some(first) if !area.explains(first.reason) => {}
                Some(_) | None => awaited = Some(note),
            },
            Ok(Step::Fault(note)) => {
                fault.get_or_insert(note);
            }
            Ok(Step::Stop(note)) => {
                awaited.get_or_insert(note);
                break;
            }
            Ok(Step::Hold(note)) => return (Outcome::Held(fault.unwrap_or(note)), None),
            Err(error) if error.is_conflict() => {
                // Somebody wrote at the same time; the next pass sees it.
                return (
                    Outcome::Progressing(awaited.unwrap_or_else(|| error.note())),
                    Some(error),
                );
            }
            Err(error) => return (Outcome::Held(error.note()), Some(error)),
        }
    }
    let going_on = awaited.map_or(Outcome::Done, Outcome::Progressing);
    (fault.map_or(going_on, Outcome::Held), None)
}
