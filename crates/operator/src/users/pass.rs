//! One pass over users of a cluster: view, plans, record, changes in Kafka, Secrets, statuses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use api::names::{CLUSTER_LABEL, Names};
use api::read::Users;
use api::{Kafka, KafkaUser};
use control::certificates::windows;
use control::users::{Facts, KafkaPlan, Login, of_vanished, plan};
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use time::OffsetDateTime;

use super::act::{Actor, Planned};
use super::cache::Entry;
use super::error::PassError;
use super::kafka;
use super::material::{ClientsCa, Passwords};
use super::record::Record;
use super::stored::Found;
use crate::context::Context;
use crate::metrics::KafkaEffect;
use crate::takeover;
use crate::topics::schedule::{End, Scope};
use crate::words::chain;

/// Users that are changed together. The first of many are done while the others wait.
const CHUNK: usize = 200;

/// What a pass is about.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) kafka: Arc<Kafka>,
    pub(super) users: Users,
    /// Whether this cluster manages the resources of the namespace.
    pub(super) is_ours: bool,
    pub(super) scope: Scope,
    /// The names of all resources of the cluster that are not being deleted.
    pub(super) live: BTreeSet<String>,
    /// The resources of the scope.
    pub(super) entries: Vec<Arc<Entry>>,
    /// Their Secrets, by user.
    pub(super) secrets: BTreeMap<String, Arc<Found>>,
}

/// How a pass ended.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) end: End,
}

/// Makes one pass.
pub(super) async fn run(ctx: &Context, names: &Names, work: Work) -> Done {
    if !work.is_ours {
        return Done { end: End::Through(BTreeSet::new()) };
    }
    match reconcile(ctx, names, &work).await {
        Ok(retry) => Done { end: End::Through(retry) },
        Err(error) => {
            let (namespace, kafka) = (&names.namespace, &names.cluster);
            tracing::debug!(namespace, kafka, "users are not reconciled: {}", chain(&error));
            Done { end: End::NotBegun }
        }
    }
}

async fn reconcile(
    ctx: &Context,
    names: &Names,
    work: &Work,
) -> Result<BTreeSet<String>, PassError> {
    let access = ctx.admins.kept(names).and_then(|access| access.brokers);
    let admin = access.ok_or(PassError::NoBrokers)?;
    takeover::entity_operator(ctx, names, &work.users.namespace).await?;
    let mut record = Record::read(&ctx.client, &work.kafka, &work.users.namespace).await?;
    let gone = gone(work, &record);
    if work.entries.is_empty() && gone.is_empty() {
        return Ok(BTreeSet::new());
    }
    let authority = authority(ctx, names, work).await?;
    let settings = &work.users.settings;
    let (namespace, prefix) = (&work.users.namespace, &settings.secret_prefix);
    let passwords = Passwords::read(ctx, namespace, prefix, &work.entries).await;
    let metrics = ctx.writer.metrics();
    metrics.kafka_call("describe cluster", KafkaEffect::Read);
    let now = OffsetDateTime::now_utc().unix_timestamp();
    let facts = Facts {
        settings: settings.clone(),
        cluster_id: admin.describe_cluster().await?.id.to_string(),
        view: kafka::view(&admin, metrics, settings).await?,
        authority: authority.facts.clone(),
        passwords: passwords.facts.clone(),
        now,
        window_is_open: windows::opening(&settings.windows, now).is_open,
    };
    let (authority, passwords) = (Arc::new(authority), Arc::new(passwords));
    let actor = Actor { ctx, admin: &admin, authority, passwords, facts };
    let mut retry = vanish(&actor, work, &mut record, gone).await?;
    for some in work.entries.chunks(CHUNK) {
        retry.extend(chunk(&actor, work, &mut record, some).await?);
    }
    Ok(retry)
}

/// Users of the record that have no resource, as far as this pass is over them.
fn gone(work: &Work, record: &Record) -> Vec<String> {
    let is_in_scope = |name: &str| match &work.scope {
        Scope::All => true,
        Scope::These(these) => these.contains(name),
    };
    let recorded = record.managed.users.keys();
    let gone = recorded.filter(|name| !work.live.contains(*name) && is_in_scope(name));
    gone.cloned().collect()
}

async fn authority(ctx: &Context, names: &Names, work: &Work) -> Result<ClientsCa, PassError> {
    let has_certificate = |entry: &Arc<Entry>| {
        let spec = entry.resource.spec.as_ref();
        spec.is_some_and(|spec| matches!(spec.login, Login::Tls(_)))
    };
    match work.entries.iter().any(has_certificate) {
        true => ClientsCa::read(&ctx.client, &names.namespace, &names.cluster).await,
        false => Ok(ClientsCa::not_read()),
    }
}

/// Makes Kafka forget users whose resources are gone; those that are to be tried again are returned.
async fn vanish(
    actor: &Actor<'_>,
    work: &Work,
    record: &mut Record,
    gone: Vec<String>,
) -> Result<BTreeSet<String>, PassError> {
    if gone.is_empty() {
        return Ok(BTreeSet::new());
    }
    // The cache may be older than a resource of the same name that was created since.
    let live = live(actor.ctx, work).await?;
    let gone: Vec<_> = gone.into_iter().filter(|name| !live.contains(name)).collect();
    let mut retry = BTreeSet::new();
    for some in gone.chunks(CHUNK) {
        let plans: Vec<(&String, KafkaPlan)> = some
            .iter()
            .map(|name| (name, of_vanished(name, record.of(name), &actor.facts)))
            .collect();
        let items = plans.iter().map(|(user, plan)| kafka::Item { user, plan, password: None });
        let outcomes = kafka::change(actor.ctx, actor.admin, items.collect()).await;
        for (name, _) in &plans {
            match outcomes.problems.get(*name) {
                None => record.note(name, None),
                Some(problem) => {
                    tracing::warn!(
                        user = name.as_str(),
                        "a user stays in Kafka: {}",
                        problem.message
                    );
                    retry.insert((*name).clone());
                }
            }
        }
        record.save(&actor.ctx.writer).await?;
    }
    Ok(retry)
}

/// The names of the resources of the cluster that are not being deleted, as the API server has them now.
async fn live(ctx: &Context, work: &Work) -> Result<BTreeSet<String>, PassError> {
    let api: Api<KafkaUser> = Api::namespaced(ctx.client.clone(), &work.users.namespace);
    let label = format!("{CLUSTER_LABEL}={}", work.kafka.name_any());
    let found = api.list_metadata(&ListParams::default().labels(&label)).await;
    let found = found.map_err(|error| PassError::List(Box::new(error)))?;
    let live = found.items.into_iter().filter(|one| one.metadata.deletion_timestamp.is_none());
    Ok(live.map(|one| one.name_any()).collect())
}

/// Some users; those that are to be tried again are returned.
async fn chunk(
    actor: &Actor<'_>,
    work: &Work,
    record: &mut Record,
    entries: &[Arc<Entry>],
) -> Result<BTreeSet<String>, PassError> {
    let begun = Instant::now();
    let metrics = actor.ctx.writer.metrics();
    let is_all = work.scope == Scope::All;
    let (mut planned, mut retry) = (Vec::new(), BTreeSet::new());
    for entry in entries {
        let resource = &entry.resource;
        metrics.pass_begun("KafkaUser", &resource.namespace, is_all);
        if actor.passwords.unread.contains(&resource.name) {
            retry.insert(resource.name.clone());
            continue;
        }
        let found = work.secrets.get(&resource.name).cloned();
        let stored = found.as_deref().map(|found| &found.stored);
        let plan = plan(resource, stored, record.of(&resource.name), &actor.facts);
        if let Some(plan) = plan {
            planned.push(Planned { entry: entry.clone(), found, plan });
        }
    }
    // What is managed is on record before Kafka is changed.
    for one in &planned {
        record.note(&one.entry.resource.name, Some(one.plan.claims_before));
    }
    record.save(&actor.ctx.writer).await?;
    let results = actor.carry_out(planned).await;
    retry.extend(results.retry);
    let mut reports = Vec::new();
    for (entry, plan, problem) in results.done {
        let resource = &entry.resource;
        if problem.is_none() && plan.only.is_none() {
            record.note(&resource.name, Some(plan.claims_after));
        }
        let report = plan.report(resource, problem);
        metrics.pass_ended("KafkaUser", &resource.namespace, begun.elapsed(), report.is_good());
        reports.push((entry, report));
    }
    retry.extend(actor.report(reports).await);
    record.save(&actor.ctx.writer).await?;
    Ok(retry)
}
