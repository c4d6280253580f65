//! One pass over topics of a cluster: triage, view, plans, changes, statuses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use api::names::Names;
use control::topics::{
    Answers, Ownership, Plan, Report, Settings, Triage, View, of_vanished, plan, triage,
};
use futures::stream::{self, StreamExt as _};
use kafka_admin::Admin;
use model::{TopicId, TopicName};

use super::act::Actor;
use super::cache::Entry;
use super::error::TopicsError;
use super::moves::Mover;
use super::schedule::End;
use super::view;
use crate::context::Context;
use crate::managed;
use crate::takeover;
use crate::words::chain;

/// Resources that are read and changed together. The first of many are done while the others wait.
const CHUNK: usize = 1000;

/// Writes to the API server at a time.
pub(super) const WRITERS: usize = 16;

/// What a pass is about.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) task: Task,
    /// The namespace of the resources.
    pub(super) namespace: String,
    /// Whether it is over all resources of the cluster.
    pub(super) is_all: bool,
    pub(super) entries: Vec<Arc<Entry>>,
    pub(super) vanished: Vec<Arc<Entry>>,
    /// The claims of all resources of the cluster.
    pub(super) ownership: Ownership,
    /// All resources of the cluster.
    pub(super) all: Vec<Arc<Entry>>,
    /// Whether moves of replicas of topics run, as far as this process knows.
    pub(super) is_moving: bool,
}

impl Work {
    /// The resources to look at again when the moves of these topics have ended: their own, and those that waited.
    fn after_moves(&self, ended: &BTreeSet<TopicName>) -> BTreeSet<String> {
        if ended.is_empty() {
            return BTreeSet::new();
        }
        let concerned = self.all.iter().map(|entry| &entry.resource).filter(|one| {
            let has_moved = || ended.iter().any(|topic| topic.as_str() == one.topic());
            one.status.replicas_change.is_some() || has_moved()
        });
        concerned.map(|one| one.name.clone()).collect()
    }

    /// The number of replicas that each managed topic should have.
    pub(super) fn asked(&self) -> BTreeMap<TopicName, Option<usize>> {
        let of = |entry: &Arc<Entry>| {
            let Triage::Reconcile { topic } = triage(&entry.resource, &self.ownership) else {
                return None;
            };
            Some((topic, replicas(entry)))
        };
        self.all.iter().filter_map(of).collect()
    }
}

/// The number of replicas that a resource asks for.
fn replicas(entry: &Entry) -> Option<usize> {
    let count = entry.resource.spec.as_ref().and_then(|spec| spec.replicas)?;
    usize::try_from(count).ok()
}

/// What is done with the resources.
#[derive(Debug)]
pub(super) enum Task {
    /// Their cluster goes: they are let go of.
    Release,
    /// They are compared with Kafka.
    Reconcile { settings: Settings },
}

/// How a pass ended.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) end: End,
    /// Resources that are gone and whose topics still have to be deleted.
    pub(super) vanished: Vec<Arc<Entry>>,
    /// Whether moves of replicas of topics run; `None` if that is as unknown as before.
    pub(super) is_moving: Option<bool>,
}

impl Done {
    fn through(retry: BTreeSet<String>) -> Self {
        Self { end: End::Through(retry), vanished: Vec::new(), is_moving: Some(false) }
    }
}

/// Makes one pass.
pub(super) async fn run(ctx: &Context, names: &Names, work: Work) -> Done {
    let has_moves = work.is_moving || work.is_all;
    if work.entries.is_empty() && work.vanished.is_empty() && !has_moves {
        return Done::through(BTreeSet::new());
    }
    if managed::is_unmanaged(ctx, names) {
        return Done { end: End::NotBegun, vanished: work.vanished, is_moving: None };
    }
    let Task::Reconcile { settings } = &work.task else {
        let actor = Actor { ctx, admin: None };
        let held: Vec<_> =
            work.entries.iter().filter(|one| one.resource.has_finalizer).cloned().collect();
        let retry = actor.release(held).await;
        return Done::through(retry);
    };
    let failed = |error: &TopicsError| {
        let (of, error) = (&names.cluster, chain(error));
        tracing::debug!("topics of {}/{of} are not reconciled: {error}", names.namespace);
    };
    let access = ctx.admins.kept(names).and_then(|access| access.brokers);
    let Some(admin) = access else {
        failed(&TopicsError::NoBrokers);
        return Done { end: End::NotBegun, vanished: work.vanished, is_moving: None };
    };
    let mut mover = Mover::new(ctx, names, &admin);
    let outcome = reconcile((ctx, names, &admin), &work, settings, &mut mover).await;
    // Whatever became of the topics, what has begun to move goes on.
    let driven = mover.drive(&work).await;
    let is_moving = driven.as_ref().ok().map(|driven| driven.is_running);
    let ended = driven.inspect_err(failed).map(|driven| driven.ended).unwrap_or_default();
    match outcome {
        Ok((mut retry, vanished)) => {
            retry.extend(work.after_moves(&ended));
            Done { end: End::Through(retry), vanished, is_moving }
        }
        Err(error) => {
            failed(&error);
            Done { end: End::NotBegun, vanished: work.vanished, is_moving }
        }
    }
}

async fn reconcile(
    (ctx, names, admin): (&Context, &Names, &Admin),
    work: &Work,
    settings: &Settings,
    mover: &mut Mover<'_>,
) -> Result<(BTreeSet<String>, Vec<Arc<Entry>>), TopicsError> {
    takeover::entity_operator(ctx, names, &work.namespace).await?;
    let mut retry = BTreeSet::new();
    let pass = Pass { actor: Actor { ctx, admin: Some(admin) }, admin, work, settings };
    for some in work.entries.chunks(CHUNK) {
        retry.extend(pass.chunk(some, mover).await?);
    }
    let vanished = pass.vanished().await;
    Ok((retry, vanished))
}

struct Pass<'a> {
    actor: Actor<'a>,
    admin: &'a Admin,
    work: &'a Work,
    settings: &'a Settings,
}

/// Resources by what they need.
#[derive(Default)]
struct Sorted {
    reports: Vec<(Arc<Entry>, Report)>,
    releases: Vec<Arc<Entry>>,
    deletions: Vec<Deletion>,
    compared: BTreeMap<TopicName, Arc<Entry>>,
}

/// A resource whose topic goes, by its id if that is known.
pub(super) type Deletion = (Arc<Entry>, TopicName, Option<TopicId>);

impl Pass<'_> {
    /// Some resources; those that are to be tried again are returned.
    async fn chunk(
        &self,
        entries: &[Arc<Entry>],
        mover: &mut Mover<'_>,
    ) -> Result<BTreeSet<String>, TopicsError> {
        let begun = Instant::now();
        let metrics = self.actor.ctx.writer.metrics();
        for one in entries {
            metrics.pass_begun("KafkaTopic", &one.resource.namespace, self.work.is_all);
        }
        let mut sorted = self.sort(entries);
        // First what fails for want of an answer, before anything was done.
        let views = self.views(&sorted.compared).await?;
        let mut retry = self.actor.release(sorted.releases).await;
        let (failed, again) = self.actor.delete(sorted.deletions).await;
        sorted.reports.extend(failed);
        retry.extend(again);
        let plans = self.plans(&sorted.compared, &views);
        let (plans, again) = self.actor.mark(plans).await;
        retry.extend(again);
        let mut answers = self.actor.change(&plans).await;
        self.move_replicas(&plans, &mut answers, mover).await;
        for (topic, (entry, plan)) in &plans {
            let answer = answers.answers.remove(topic).unwrap_or_default();
            sorted.reports.push((entry.clone(), plan.report(&entry.resource, answer)));
        }
        retry.extend(answers.retry);
        for (entry, report) in &sorted.reports {
            let namespace = &entry.resource.namespace;
            metrics.pass_ended("KafkaTopic", namespace, begun.elapsed(), report.is_good());
        }
        retry.extend(self.actor.report(sorted.reports).await);
        Ok(retry)
    }

    /// Begins changes of the number of replicas, where nothing else has failed.
    async fn move_replicas(&self, plans: &Plans, answers: &mut Changed, mover: &mut Mover<'_>) {
        let has_failed = |topic: &TopicName| {
            answers.answers.get(topic).is_some_and(|answer| answer.problem.is_some())
        };
        let wanted = plans.iter().filter(|(topic, _)| !has_failed(topic));
        let wanted: BTreeMap<_, _> = wanted
            .filter_map(|(topic, (_, plan))| Some((topic.clone(), plan.replicas.clone()?)))
            .collect();
        match mover.begin(&wanted).await {
            Ok(changes) => {
                for (topic, change) in changes {
                    answers.answers.entry(topic).or_default().replicas = Some(change);
                }
            }
            Err(error) => {
                tracing::info!("replicas of topics are not changed: {}", chain(&error));
                let names = wanted.keys().map(|topic| plans[topic].0.resource.name.clone());
                answers.retry.extend(names);
            }
        }
    }

    fn sort(&self, entries: &[Arc<Entry>]) -> Sorted {
        let mut sorted = Sorted::default();
        for entry in entries {
            let decision = triage(&entry.resource, &self.work.ownership);
            let entry = entry.clone();
            match decision {
                Triage::Ignore => {}
                Triage::Report(report) => sorted.reports.push((entry, report)),
                Triage::Release => sorted.releases.push(entry),
                Triage::Delete { topic, id } => sorted.deletions.push((entry, topic, id)),
                Triage::Reconcile { topic } => drop(sorted.compared.insert(topic, entry)),
            }
        }
        sorted
    }

    async fn views(
        &self,
        compared: &BTreeMap<TopicName, Arc<Entry>>,
    ) -> Result<BTreeMap<TopicName, View>, TopicsError> {
        let wanted =
            compared.iter().map(|(topic, entry)| (topic.clone(), replicas(entry))).collect();
        view::read(self.admin, self.actor.ctx.writer.metrics(), &wanted).await
    }

    /// The plans of all whose topics Kafka has shown, or said that it does not have.
    fn plans(
        &self,
        compared: &BTreeMap<TopicName, Arc<Entry>>,
        views: &BTreeMap<TopicName, View>,
    ) -> Plans {
        let with_view = compared.iter().filter_map(|(topic, entry)| {
            let plan = plan(&entry.resource, views.get(topic)?, self.settings);
            Some((topic.clone(), (entry.clone(), plan)))
        });
        with_view.collect()
    }

    /// Deletes the topics of resources that are gone and had no finalizer; those that failed are returned.
    async fn vanished(&self) -> Vec<Arc<Entry>> {
        let meant = self.work.vanished.iter().filter_map(|entry| {
            Some((entry.clone(), of_vanished(&entry.resource, &self.work.ownership)?))
        });
        let meant: Vec<_> = meant.collect();
        self.actor.delete_vanished(meant).await
    }
}

/// Plans by topic, each with its resource.
pub(super) type Plans = BTreeMap<TopicName, (Arc<Entry>, Plan)>;

/// What Kafka answered, by topic, and which resources are to be tried again.
#[derive(Default)]
pub(super) struct Changed {
    pub(super) answers: BTreeMap<TopicName, Answers>,
    pub(super) retry: BTreeSet<String>,
}

/// Does something for each item, some at a time.
pub(super) async fn each<T, R, F: Future<Output = R>>(
    items: Vec<T>,
    work: impl FnMut(T) -> F,
) -> Vec<R> {
    stream::iter(items).map(work).buffer_unordered(WRITERS).collect().await
}
