//! Sends what was decided: finalizers and annotations, changes in Kafka in batches, statuses.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;

use api::KafkaTopic;
use control::annotations::Annotation;
use control::topics::batch::{RECORDS_MAX, cut, records_of};
use control::topics::config::Change;
use control::topics::{Answers, ConfigMode, FINALIZER, Plan, Problem, Report};
use kafka_admin::{Admin, CallError, Code, ConfigChange, Layout, NewTopic, Outcome, Refusal};
use kube::api::ListParams;
use kube::core::ObjectMeta;
use kube::{Api, ResourceExt as _};
use model::{TopicId, TopicName};
use serde_json::{Value, json};

use super::cache::Entry;
use super::pass::{Changed, Deletion, Plans, each};
use super::{status, view};
use crate::context::Context;
use crate::news::{EVENTS_MAX, publish};
use crate::words::chain;
use crate::write::{KafkaWriteError, WriteError};

/// Names in a line of the log.
const NAMED_MAX: usize = 5;

/// Answers after which the same request may succeed soon: the controller changes, or takes fewer requests for a while.
const PASSING: [Code; 4] = [
    Code::REQUEST_TIMED_OUT,
    Code::NOT_CONTROLLER,
    Code::NETWORK_EXCEPTION,
    Code::THROTTLING_QUOTA_EXCEEDED,
];

/// Sends acts.
#[derive(Clone, Copy)]
pub(super) struct Actor<'a> {
    pub(super) ctx: &'a Context,
    pub(super) admin: Option<&'a Admin>,
}

impl Actor<'_> {
    /// Removes the finalizer of resources; those that are to be tried again are returned.
    pub(super) async fn release(&self, entries: Vec<Arc<Entry>>) -> BTreeSet<String> {
        let done = each(entries, |entry| async move {
            let done = self.patch(&entry, Some(false), false).await;
            (entry, done)
        });
        failed(done.await)
    }

    /// Marks resources before anything is done in Kafka. Only the plans of those that are marked go on.
    pub(super) async fn mark(&self, mut plans: Plans) -> (Plans, BTreeSet<String>) {
        let marks = plans
            .values()
            .filter(|(_, plan)| plan.finalizer.is_some() || plan.notes_kept_config)
            .map(|(entry, plan)| (entry.clone(), plan.finalizer, plan.notes_kept_config))
            .collect();
        let done = each(marks, |(entry, finalizer, keeps_config)| async move {
            let done = self.patch(&entry, finalizer, keeps_config).await;
            (entry, done)
        });
        let retry = failed(done.await);
        plans.retain(|_, (entry, _)| !retry.contains(&entry.resource.name));
        (plans, retry)
    }

    /// Sets or removes the finalizer, and notes that overrides stay.
    async fn patch(
        &self,
        entry: &Entry,
        finalizer: Option<bool>,
        keeps_config: bool,
    ) -> Result<(), WriteError> {
        let topic = &entry.topic;
        let mut metadata = json!({ "resourceVersion": topic.resource_version() });
        if let Some(is_set) = finalizer {
            let others = topic.finalizers().iter().filter(|name| *name != FINALIZER).cloned();
            let ours = is_set.then(|| FINALIZER.to_owned());
            metadata["finalizers"] = others.chain(ours).collect::<Vec<_>>().into();
        }
        if keeps_config {
            let note = Value::from(ConfigMode::Keep.name());
            metadata["annotations"] = json!({ Annotation::TopicConfig.name(): note });
        }
        let patch = json!({ "metadata": metadata });
        self.ctx.writer.patch(&self.api(entry), &topic.name_any(), &patch, Some(topic)).await?;
        Ok(())
    }

    /// Writes statuses; resources whose status was not written are to be tried again.
    pub(super) async fn report(&self, reports: Vec<(Arc<Entry>, Report)>) -> BTreeSet<String> {
        let news = reports
            .iter()
            .filter_map(|(entry, report)| Some((entry.clone(), report.news(&entry.resource)?)));
        let news: Vec<_> = news.take(EVENTS_MAX).collect();
        let done = each(reports, |(entry, report)| async move {
            let done = status::write(self.ctx, &entry.topic, &report).await;
            (entry, done)
        });
        let retry = failed(done.await);
        // What was not written is news in the next pass again.
        let written = news.into_iter().filter(|(entry, _)| !retry.contains(&entry.resource.name));
        each(written.collect(), |(entry, news)| async move {
            publish(self.ctx, &entry.topic, news).await;
        })
        .await;
        retry
    }

    /// Deletes topics and then lets go of their resources. Returned are the statuses of those where Kafka refused, and the
    /// resources that are to be tried again.
    pub(super) async fn delete(
        &self,
        deletions: Vec<Deletion>,
    ) -> (Vec<(Arc<Entry>, Report)>, BTreeSet<String>) {
        let all = deletions.iter().map(|one| one.0.resource.name.clone());
        let mut retry: BTreeSet<String> = all.collect();
        // The cache may be older than a resource of the same name that was created since.
        let meant = each(deletions, |one| async move {
            let found = self.look(&one.0).await.ok().flatten();
            let is_same = found.is_some_and(|found| {
                found.uid.as_deref() == Some(&one.0.resource.uid)
                    && found.deletion_timestamp.is_some()
                    && found.finalizers.iter().flatten().any(|name| name == FINALIZER)
            });
            is_same.then_some(one)
        });
        let meant: Vec<_> = meant.await.into_iter().flatten().collect();
        for one in &meant {
            retry.remove(&one.0.resource.name);
        }
        let by_id: BTreeSet<_> = meant.iter().filter_map(|(_, _, id)| *id).collect();
        let by_name: BTreeSet<_> = meant
            .iter()
            .filter(|(_, _, id)| id.is_none())
            .map(|(_, name, _)| name.clone())
            .collect();
        let ids = self.delete_ids(&by_id, &meant).await;
        let names = self.delete_names(&by_name).await;
        let (mut gone, mut refused) = (Vec::new(), Vec::new());
        for (entry, name, id) in meant {
            let answer = match id {
                Some(id) => ids.get(&id).cloned(),
                None => names.get(&name).cloned(),
            };
            let no_answer = || Err(Problem::no_answer("Kafka did not answer the deletion"));
            match answer.unwrap_or_else(no_answer) {
                Ok(()) => gone.push(entry),
                Err(problem) => {
                    let report = Report::failed(&entry.resource, None, problem);
                    refused.push((entry, report));
                }
            }
        }
        retry.extend(self.release(gone).await);
        (refused, retry)
    }

    async fn delete_ids(
        &self,
        ids: &BTreeSet<TopicId>,
        deletions: &[Deletion],
    ) -> BTreeMap<TopicId, Result<(), Problem>> {
        let mut answers = BTreeMap::new();
        let Some(admin) = self.admin else { return answers };
        let ids: Vec<_> = ids.iter().copied().collect();
        let names = deletions.iter().map(|(_, name, _)| name);
        let what = listed("delete", names);
        for some in ids.chunks(RECORDS_MAX) {
            let call = admin.delete_topics_by_id(some);
            match self.send("delete topics", &what, call, |_| Outcome::Unknown).await {
                Ok(results) => {
                    answers.extend(results.into_iter().map(|(id, result)| (id, gone(result))))
                }
                Err(problem) => answers.extend(some.iter().map(|id| (*id, Err(problem.clone())))),
            }
        }
        answers
    }

    async fn delete_names(
        &self,
        names: &BTreeSet<TopicName>,
    ) -> BTreeMap<TopicName, Result<(), Problem>> {
        let mut answers = BTreeMap::new();
        let Some(admin) = self.admin else { return answers };
        let names: Vec<_> = names.iter().cloned().collect();
        for some in names.chunks(RECORDS_MAX) {
            let what = listed("delete", some);
            let call = admin.delete_topics(some);
            match self.send("delete topics", &what, call, |_| Outcome::Unknown).await {
                Ok(results) => {
                    answers.extend(results.into_iter().map(|(name, result)| (name, gone(result))))
                }
                Err(problem) => {
                    answers.extend(some.iter().map(|name| (name.clone(), Err(problem.clone()))));
                }
            }
        }
        answers
    }

    /// Deletes topics of resources that are gone. Those that failed are returned.
    pub(super) async fn delete_vanished(
        &self,
        vanished: Vec<(Arc<Entry>, TopicId)>,
    ) -> Vec<Arc<Entry>> {
        let mut left = Vec::new();
        let mut meant = BTreeMap::new();
        for (entry, id) in vanished {
            match self.look(&entry).await {
                Ok(None) => drop(meant.insert(id, entry)),
                // It was created again: that one has its own say.
                Ok(Some(_)) => {}
                Err(error) => {
                    tracing::debug!("{}", chain(&error));
                    left.push(entry);
                }
            }
        }
        let ids: Vec<_> = meant.keys().copied().collect();
        let (Some(admin), false) = (self.admin, ids.is_empty()) else { return left };
        let what = format!("delete {} topics of resources that are gone", ids.len());
        let call = admin.delete_topics_by_id(&ids);
        let answers = self.send("delete topics", &what, call, |_| Outcome::Unknown).await;
        for (id, entry) in meant {
            let answer = answers.as_ref().ok().and_then(|answers| answers.get(&id).cloned());
            match answer.map(gone) {
                Some(Ok(())) => {}
                Some(Err(problem)) => {
                    let of = entry.resource.claimed_topic();
                    tracing::warn!("topic {of} stays in Kafka: {}", problem.message);
                }
                None => left.push(entry),
            }
        }
        left
    }

    /// What a resource is now, by a list: the operator need not get resources one by one.
    async fn look(&self, entry: &Entry) -> Result<Option<ObjectMeta>, kube::Error> {
        let name = &entry.resource.name;
        let params = ListParams::default().fields(&format!("metadata.name={name}"));
        let found = self.api(entry).list_metadata(&params).await?;
        Ok(found.items.into_iter().next().map(|object| object.metadata))
    }

    fn api(&self, entry: &Entry) -> Api<KafkaTopic> {
        Api::namespaced(self.ctx.client.clone(), &entry.resource.namespace)
    }

    /// Creates topics, changes their configuration and adds partitions, in this order.
    pub(super) async fn change(&self, plans: &Plans) -> Changed {
        let mut changed = Changed::default();
        let Some(admin) = self.admin else { return changed };
        self.create(admin, plans, &mut changed).await;
        self.configure(admin, plans, &mut changed).await;
        self.grow(admin, plans, &mut changed).await;
        changed
    }

    async fn create(&self, admin: &Admin, plans: &Plans, changed: &mut Changed) {
        let new = plans.iter().filter_map(|(topic, (_, plan))| {
            let new = plan.create.as_ref()?;
            let records = records_of(new.partitions, new.config.len());
            let layout = Layout::Counts { partitions: new.partitions, replicas: new.replicas };
            let configs = new.config.clone();
            Some((NewTopic { name: topic.clone(), layout, configs }, records))
        });
        for some in cut(new, RECORDS_MAX) {
            let what = listed("create", some.iter().map(|topic| &topic.name));
            let call = admin.create_topics(&some, false);
            let results = self.send("create topics", &what, call, |_| Outcome::Unknown).await;
            for NewTopic { name, .. } in some {
                let answer = answer(&results, &name);
                let entry = &plans[&name].0.resource.name;
                match answer {
                    Ok(created) => changed.answers.entry(name).or_default().created = created,
                    // The broker that was asked did not know it yet. The next pass compares it.
                    Err((_, Some(Code::TOPIC_ALREADY_EXISTS))) => {
                        changed.retry.insert(entry.clone());
                        changed.answers.entry(name).or_default().existed = true;
                    }
                    Err(why) => changed.fail(name, entry, why),
                }
            }
        }
    }

    async fn configure(&self, admin: &Admin, plans: &Plans, changed: &mut Changed) {
        let changes = plans.iter().filter(|(_, (_, plan))| !plan.config.is_empty());
        let changes = changes.map(|(topic, (_, plan))| ((topic, plan), plan.config.len()));
        for some in cut(changes, RECORDS_MAX) {
            let what = listed("configure", some.iter().map(|(topic, _)| *topic));
            let wire = |(topic, plan): &(&TopicName, &Plan)| {
                ((*topic).clone(), plan.config.iter().map(config_change).collect())
            };
            let request: BTreeMap<TopicName, Vec<ConfigChange>> = some.iter().map(wire).collect();
            let call = admin.alter_topic_configs(&request);
            let results = self.send("alter topic configs", &what, call, CallError::outcome).await;
            for (topic, _) in some {
                if let Err(why) = answer(&results, topic) {
                    changed.fail(topic.clone(), &plans[topic].0.resource.name, why);
                }
            }
        }
    }

    async fn grow(&self, admin: &Admin, plans: &Plans, changed: &mut Changed) {
        let totals = plans.iter().filter_map(|(topic, (_, plan))| {
            let total = plan.partitions?;
            Some(((topic.clone(), total), records_of(Some(total), 0)))
        });
        for some in cut(totals, RECORDS_MAX) {
            let request: BTreeMap<_, _> = some.into_iter().collect();
            let what = listed("add partitions to", request.keys());
            let call = admin.create_partitions_of(&request);
            let results = self.send("create partitions", &what, call, CallError::outcome).await;
            for topic in request.keys() {
                if let Err(why) = answer(&results, topic) {
                    changed.fail(topic.clone(), &plans[topic].0.resource.name, why);
                }
            }
        }
    }

    /// Sends a change to Kafka.
    async fn send<K, T, E: std::error::Error + 'static>(
        &self,
        kind: &str,
        what: &str,
        call: impl Future<Output = Result<Results<K, T>, E>>,
        outcome: impl FnOnce(&E) -> Outcome,
    ) -> Result<Results<K, T>, Problem> {
        let done = self.ctx.writer.kafka_with((kind, what), call, outcome, has_changed).await;
        done.map_err(|error: KafkaWriteError<E>| {
            let why = chain(&error);
            tracing::debug!("{why}");
            Problem::no_answer(&why)
        })
    }
}

/// What Kafka answered for each of several topics.
type Results<K, T> = BTreeMap<K, Result<T, Refusal>>;

/// Whether one of the topics was changed, or may have been.
fn has_changed<K, T>(results: &Results<K, T>) -> bool {
    let may_have = |result: &Result<T, Refusal>| match result {
        Ok(_) => true,
        Err(refusal) => refusal.outcome() == Outcome::Unknown,
    };
    results.values().any(may_have)
}

/// Why a change failed, with the code if Kafka answered.
type Failure = (Problem, Option<Code>);

impl Changed {
    /// Keeps the first problem of a topic.
    fn fail(&mut self, topic: TopicName, entry: &str, (problem, code): Failure) {
        if code.is_none_or(|code| PASSING.contains(&code)) {
            self.retry.insert(entry.to_owned());
        }
        let answers: &mut Answers = self.answers.entry(topic).or_default();
        answers.problem.get_or_insert(problem);
    }
}

/// The answer for one of several topics.
fn answer<T: Clone>(
    results: &Result<BTreeMap<TopicName, Result<T, Refusal>>, Problem>,
    topic: &TopicName,
) -> Result<T, Failure> {
    match results {
        Ok(results) => match results.get(topic) {
            Some(Ok(done)) => Ok(done.clone()),
            Some(Err(refusal)) => Err((view::problem(refusal), Some(refusal.code))),
            None => Err((
                Problem::no_answer("the answer of Kafka lacks the topics that were asked for"),
                None,
            )),
        },
        Err(problem) => Err((problem.clone(), None)),
    }
}

/// A topic that does not exist is deleted.
fn gone(result: Result<(), Refusal>) -> Result<(), Problem> {
    match result {
        Ok(()) => Ok(()),
        Err(refusal) => match refusal.code {
            Code::UNKNOWN_TOPIC_OR_PARTITION | Code::UNKNOWN_TOPIC_ID => Ok(()),
            _ => Err(view::problem(&refusal)),
        },
    }
}

fn config_change(change: &Change) -> ConfigChange {
    match change {
        Change::Set(name, value) => ConfigChange::Set(name.clone(), value.clone()),
        Change::Delete(name) => ConfigChange::Delete(name.clone()),
    }
}

/// The resources that are to be tried again. One that is gone needs nothing more.
fn failed(done: Vec<(Arc<Entry>, Result<(), WriteError>)>) -> BTreeSet<String> {
    let mut retry = BTreeSet::new();
    for (entry, result) in done {
        match result {
            Ok(()) | Err(WriteError::Missing { .. }) => {}
            Err(error) => {
                match &error {
                    WriteError::Conflict { .. } | WriteError::NotLeader { .. } => {
                        tracing::debug!("{}", chain(&error));
                    }
                    _ => tracing::warn!("{}", chain(&error)),
                }
                retry.insert(entry.resource.name.clone());
            }
        }
    }
    retry
}

/// What is done with topics, for the log.
fn listed<'a>(verb: &str, topics: impl IntoIterator<Item = &'a TopicName>) -> String {
    let names: Vec<_> = topics.into_iter().map(TopicName::as_str).collect();
    let first = names.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    match names.len() {
        1 => format!("{verb} topic {first}"),
        count if count <= NAMED_MAX => format!("{verb} topics {first}"),
        count => format!("{verb} {count} topics: {first}, ..."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kafka_refuses_for_all_topics_is_no_act() {
        let refused = |code| Err(Refusal { code, message: None });
        let rows: [(Vec<Result<(), Refusal>>, bool); 4] = [
            (vec![refused(Code::INVALID_CONFIG), refused(Code::TOPIC_ALREADY_EXISTS)], false),
            (vec![refused(Code::INVALID_CONFIG), Ok(())], true),
            (vec![refused(Code::REQUEST_TIMED_OUT)], true),
            (vec![], false),
        ];
        for (answers, expected) in rows {
            let results: Results<usize, ()> = answers.into_iter().enumerate().collect();
            assert_eq!(has_changed(&results), expected, "{results:?}");
        }
    }

    fn refused<T>(code: Code) -> Result<T, Refusal> {
        Err(Refusal { code, message: None })
    }

    #[test]
    fn a_resource_goes_only_after_its_topic() {
        let rows = [
            ("T5.4 deleted", Ok(()), true),
            ("T5.4 it was gone", refused(Code::UNKNOWN_TOPIC_OR_PARTITION), true),
            ("T5.4 another has the name by now", refused(Code::UNKNOWN_TOPIC_ID), true),
            ("T5.5 Kafka deletes no topics", refused(Code(73)), false),
            ("T5.6 no right", refused(Code(29)), false),
            ("T5.6 too slow", refused(Code::REQUEST_TIMED_OUT), false),
        ];
        for (row, answer, expected) in rows {
            assert_eq!(gone(answer).is_ok(), expected, "{row}");
        }
        let disabled = gone(refused(Code(73))).unwrap_err().message;
        assert!(disabled.ends_with("TopicDeletionDisabledException: Topic deletion is disabled."));
    }

    #[test]
    fn the_first_problem_of_a_topic_counts_and_what_may_pass_is_tried_again() {
        let mut changed = Changed::default();
        let name = |text: &str| TopicName::new(text).unwrap();
        let mut fail = |topic: &str, answer: Result<(), Refusal>| {
            let results = Ok(BTreeMap::from([(name(topic), answer)]));
            if let Err(why) = super::answer(&results, &name(topic)) {
                changed.fail(name(topic), topic, why);
            }
        };
        fail("a", Ok(()));
        fail("b", refused(Code::INVALID_CONFIG));
        fail("b", refused(Code(37)));
        fail("c", refused(Code::THROTTLING_QUOTA_EXCEEDED));
        fail("d", refused(Code::NOT_CONTROLLER));
        let why =
            |topic: &str| changed.answers.get(&name(topic)).and_then(|one| one.problem.clone());
        assert_eq!(why("a"), None);
        assert!(why("b").unwrap().message.contains("InvalidConfigurationException"), "T7.10");
        assert!(why("c").unwrap().message.contains("ThrottlingQuotaExceeded"), "T13.7");
        assert_eq!(changed.retry, ["c", "d"].map(str::to_owned).into(), "T13.7, T3.8");
        let none: Result<BTreeMap<TopicName, Result<(), Refusal>>, _> = Ok(BTreeMap::new());
        assert!(super::answer(&none, &name("a")).is_err(), "no answer is no success");
    }

    #[test]
    fn a_resource_that_is_gone_needs_no_finalizer_and_one_that_changed_is_tried_again() {
        let what = || "patch KafkaTopic ns/a".to_owned();
        let rows = [
            ("done", Ok(()), false),
            ("T5.13 it is gone", Err(WriteError::Missing { what: what() }), false),
            ("T5.13 it has changed", Err(WriteError::Conflict { what: what() }), true),
            ("no longer leading", Err(WriteError::NotLeader { what: what() }), true),
        ];
        for (row, result, expected) in rows {
            let topic = KafkaTopic::new("a", api::KafkaTopicSpec::default());
            let entry = Arc::new(Entry { resource: api::read::topic(&topic, true), topic });
            assert_eq!(!failed(vec![(entry, result)]).is_empty(), expected, "{row}");
        }
    }
}
