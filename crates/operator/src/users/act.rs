//! Carries out the plans for users: changes in Kafka, then Secrets, then statuses.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::KafkaUser;
use api::names::KIND_LABEL;
use control::annotations::Annotation;
use control::users::{Credential, Facts, Plan, Problem, Report, SecretAct, SecretPlan};
use futures::stream::{self, StreamExt as _};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kafka_admin::Admin;
use kube::{Api, Resource as _, ResourceExt as _};

use super::cache::Entry;
use super::material::{self, ClientsCa, Material, Passwords};
use super::stored::Found;
use super::{FINALIZER, KIND, kafka, status};
use crate::context::Context;
use crate::liveness;
use crate::news::{EVENTS_MAX, publish};
use crate::words::chain;
use crate::write::WriteError;

/// Writes to the API server at a time.
const WRITERS: usize = 16;

/// Users for whom keys and passwords are made at a time. More threads than processors would gain nothing.
const MAKERS: usize = 4;

/// Carries out plans with what was read for a pass.
pub(super) struct Actor<'a> {
    pub(super) ctx: &'a Context,
    pub(super) admin: &'a Admin,
    pub(super) authority: Arc<ClientsCa>,
    pub(super) passwords: Arc<Passwords>,
    pub(super) facts: Facts,
}

/// A resource with the plan for it.
pub(super) struct Planned {
    pub(super) entry: Arc<Entry>,
    /// Its Secret, as the watch has shown it.
    pub(super) found: Option<Arc<Found>>,
    pub(super) plan: Plan,
}

/// The results of plans.
#[derive(Default)]
pub(super) struct Results {
    /// Each with the first problem.
    pub(super) done: Vec<(Arc<Entry>, Plan, Option<Problem>)>,
    /// Users that are tried again soon.
    pub(super) retry: BTreeSet<String>,
}

/// A plan with what is needed to carry it out.
struct Ready {
    planned: Planned,
    material: Option<Material>,
    problem: Option<Problem>,
}

impl Planned {
    fn name(&self) -> &str {
        &self.entry.resource.name
    }
}

impl Actor<'_> {
    pub(super) async fn carry_out(&self, planned: Vec<Planned>) -> Results {
        let mut results = Results::default();
        let prepared = stream::iter(planned).map(|planned| self.prepared(planned));
        let prepared: Vec<_> = prepared.buffer_unordered(MAKERS).collect().await;
        let mut ready = Vec::new();
        for one in prepared {
            match one {
                Ok(one) => ready.push(one),
                Err(user) => drop(results.retry.insert(user)),
            }
        }
        let outcomes = {
            let items = ready.iter_mut().filter(|one| one.problem.is_none()).map(|one| {
                let password = one.material.as_mut().and_then(|one| one.password.take());
                kafka::Item { user: one.planned.name(), plan: &one.planned.plan.kafka, password }
            });
            kafka::change(self.ctx, self.admin, items.collect()).await
        };
        results.retry.extend(outcomes.retry.iter().cloned());
        let written = stream::iter(ready).map(|one| self.written(one, &outcomes));
        let written: Vec<_> = written.buffer_unordered(WRITERS).collect().await;
        for (one, is_retried) in written {
            if is_retried {
                results.retry.insert(one.planned.name().to_owned());
            }
            let problem =
                one.problem.or_else(|| outcomes.problems.get(one.planned.name()).cloned());
            results.done.push((one.planned.entry, one.planned.plan, problem));
        }
        results
    }

    async fn read(&self, planned: &Planned, found: &Found) -> Result<Option<Secret>, ()> {
        let name = self.secret_name(planned.name());
        match self.secrets(&planned.entry).get_opt(&name).await {
            Ok(Some(secret)) if secret.resource_version().as_ref() == Some(&found.version) => {
                Ok(Some(secret))
            }
            Ok(_) => Err(()),
            Err(error) => {
                tracing::debug!(
                    secret = name,
                    "cannot read the Secret of a user: {}",
                    chain(&error)
                );
                Err(())
            }
        }
    }

    /// Whether a Secret of the name exists that is not that of a user. One that is was not seen yet.
    async fn is_taken(&self, planned: &Planned) -> Result<Option<Problem>, ()> {
        let name = self.secret_name(planned.name());
        let found = self.secrets(&planned.entry).get_metadata_opt(&name).await;
        let found = found.map_err(|error| {
            tracing::debug!(secret = name, "cannot read the Secret of a user: {}", chain(&error));
        })?;
        match found {
            None => Ok(None),
            Some(found) if found.labels().get(KIND_LABEL).map(String::as_str) == Some(KIND) => {
                Err(())
            }
            Some(_) => Ok(Some(Problem::secret_exists(&name))),
        }
    }

    /// Makes passwords, keys and certificates, on a thread of its own. The error is a user whose Secret has changed since
    /// it was read, so that what was decided may be wrong.
    async fn prepared(&self, planned: Planned) -> Result<Ready, String> {
        let sets_password = planned.plan.kafka.sets_password;
        let credential = match &planned.plan.secret {
            SecretAct::Write(secret) => Some(secret.credential.clone()),
            SecretAct::Nothing | SecretAct::Delete => sets_password.then_some(Credential::Kept),
        };
        let Some(credential) = credential else {
            return Ok(Ready { planned, material: None, problem: None });
        };
        let before = match &planned.found {
            Some(found) => self.read(&planned, found).await,
            // Before Kafka gets a password that no Secret could hold.
            None => match self.is_taken(&planned).await {
                Ok(None) => Ok(None),
                Ok(problem) => return Ok(Ready { planned, material: None, problem }),
                Err(()) => Err(()),
            },
        };
        let before = before.map_err(|()| planned.name().to_owned())?;
        let resource = &planned.entry.resource;
        let order = material::Order {
            user: resource.name.clone(),
            namespace: resource.namespace.clone(),
            secret: self.secret_name(&resource.name),
            credential,
            sets_password,
            before,
            now: self.facts.now,
        };
        let (authority, passwords) = (self.authority.clone(), self.passwords.clone());
        let made = move || material::make(order, &authority, &passwords);
        let made = tokio::task::spawn_blocking(made).await;
        liveness::progress();
        Ok(match made {
            Ok(Ok(material)) => Ready { planned, material: Some(material), problem: None },
            Ok(Err(problem)) => Ready { planned, material: None, problem: Some(problem) },
            Err(error) => {
                let problem = Some(Problem::not_issued(&error.to_string()));
                Ready { planned, material: None, problem }
            }
        })
    }

    /// Writes the Secret of a user if Kafka has its password; whether the user is tried again soon.
    async fn written(&self, mut one: Ready, outcomes: &kafka::Outcomes) -> (Ready, bool) {
        let name = one.planned.name();
        if one.problem.is_some() || outcomes.without_password.contains(name) {
            return (one, false);
        }
        let done = match (&one.planned.plan.secret, one.material.take()) {
            (SecretAct::Write(secret), Some(material)) => {
                self.write(&one.planned.entry, secret, material).await
            }
            (SecretAct::Delete, _) => self.delete(&one.planned).await,
            (SecretAct::Nothing | SecretAct::Write(_), _) => Ok(()),
        };
        match done {
            Ok(()) | Err(WriteError::Missing { .. }) => (one, false),
            Err(WriteError::Exists { .. }) => {
                let secret = self.secret_name(name);
                one.problem = Some(Problem::secret_exists(&secret));
                (one, false)
            }
            Err(error) => {
                let why = chain(&error);
                tracing::debug!("{why}");
                one.problem = Some(Problem::kubernetes(&why));
                (one, true)
            }
        }
    }

    async fn write(
        &self,
        entry: &Entry,
        plan: &SecretPlan,
        material: Material,
    ) -> Result<(), WriteError> {
        let mut annotations = plan.annotations.clone();
        if let Some(print) = &material.new_print {
            let mark = format!("{} {print}", self.facts.cluster_id);
            annotations.insert(Annotation::ScramCredential.name().to_owned(), mark);
        }
        let api = self.secrets(entry);
        let is_new = material.before.is_none();
        let before = material.before.unwrap_or_default();
        let finalizers: Vec<_> =
            before.finalizers().iter().filter(|one| *one != FINALIZER).cloned().collect();
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(self.secret_name(&entry.resource.name)),
                namespace: Some(entry.resource.namespace.clone()),
                labels: Some(plan.labels.clone()),
                annotations: Some(annotations),
                finalizers: (!finalizers.is_empty()).then_some(finalizers),
                owner_references: Some(owners(&entry.user, &before)),
                uid: before.metadata.uid.clone(),
                resource_version: before.metadata.resource_version.clone(),
                ..ObjectMeta::default()
            },
            data: Some(material.data),
            type_: before.type_.or_else(|| Some("Opaque".to_owned())),
            ..Secret::default()
        };
        match is_new {
            true => self.ctx.writer.create(&api, &secret).await?,
            false => self.ctx.writer.replace(&api, &secret).await?,
        };
        Ok(())
    }

    async fn delete(&self, planned: &Planned) -> Result<(), WriteError> {
        let Some(found) = &planned.found else { return Ok(()) };
        let (api, name) = (self.secrets(&planned.entry), self.secret_name(planned.name()));
        self.ctx.writer.delete(&api, &name, (&found.uid, Some(&found.version))).await?;
        Ok(())
    }

    /// Writes statuses; users whose status was not written are to be tried again.
    pub(super) async fn report(&self, reports: Vec<(Arc<Entry>, Report)>) -> BTreeSet<String> {
        let news = reports
            .iter()
            .filter_map(|(entry, report)| Some((entry.clone(), report.news(&entry.resource)?)));
        let news: Vec<_> = news.take(EVENTS_MAX).collect();
        let written = stream::iter(reports).map(|(entry, report)| async move {
            match status::write(self.ctx, &entry.user, &report).await {
                Ok(()) | Err(WriteError::Missing { .. }) => None,
                Err(error) => {
                    tracing::debug!("{}", chain(&error));
                    Some(entry.resource.name.clone())
                }
            }
        });
        let written: Vec<_> = written.buffer_unordered(WRITERS).collect().await;
        let retry: BTreeSet<_> = written.into_iter().flatten().collect();
        // What was not written is news in the next pass again.
        let told = news.into_iter().filter(|(entry, _)| !retry.contains(&entry.resource.name));
        let told = stream::iter(told.collect::<Vec<_>>()).map(|(entry, news)| async move {
            publish(self.ctx, &entry.user, news).await;
        });
        told.buffer_unordered(WRITERS).collect::<Vec<()>>().await;
        retry
    }

    fn secret_name(&self, user: &str) -> String {
        format!("{}{user}", self.facts.settings.secret_prefix)
    }

    fn secrets(&self, entry: &Entry) -> Api<Secret> {
        Api::namespaced(self.ctx.client.clone(), &entry.resource.namespace)
    }
}

/// The Secret goes with its user. Other owners stay; a former resource of this name is none.
fn owners(user: &KafkaUser, before: &Secret) -> Vec<OwnerReference> {
    let own = user.owner_ref(&()).map(|owner| OwnerReference {
        controller: Some(false),
        block_owner_deletion: None,
        ..owner
    });
    let others = before.owner_references().iter().filter(|owner| owner.kind != KIND).cloned();
    others.chain(own).collect()
}
