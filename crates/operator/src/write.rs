//! The one door for writes to Kubernetes and to Kafka.
//!
//! What holds for all that goes through it:
//!
//! 1. Nothing is sent that would change nothing, as far as the object that is at hand can tell.
//! 2. Nothing is begun by a process that does not lead ([`Fence`]). A deletion, any change in Kafka, and a write that
//!    is not tied to a version begin only if this process leads for longer than the call can take.
//! 3. An object is applied, replaced or deleted only as the version that was read, or created only where none was found.
//!    That it still leads is asked after the read, so no other process has led before it: a former leader that was
//!    paused in between, however long, overwrites nothing that its successor wrote.
//! 4. Neither Kubernetes nor Kafka knows who leads. A process that is paused just after it asked whether it leads sends
//!    the request when it wakes up, whoever leads by then. The API server refuses it if it is tied to a version that
//!    has changed (3). The others are carried out: a creation, a deletion of an object that has not changed, a
//!    patch without a version, a change in Kafka. The next pass of the successor finds and corrects what it can.
//! 5. Every call ends by its deadline. One that ran out may have been carried out.
//! 6. After each write that changed something the [`CrashSwitch`] is asked, so that tests can cross every
//!    boundary at which a crash could hurt.
//! 7. What the operator is not allowed is logged as an error with verb and kind: it is a fault of the
//!    installation and does not pass by itself.
//!
//! Leases and Events do not go through it: they are no acts.

mod error;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kafka_admin::Outcome;
use kube::api::{
    DeleteParams, ListParams, ObjectList, Patch, PatchParams, PostParams, Preconditions,
};
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::{Api, Client, Resource, ResourceExt as _};
use objects::{Compared, State, same};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::crash::CrashSwitch;
use crate::fence::Fence;
use crate::liveness;
use crate::metrics::{KafkaEffect, Metrics, WriteOutcome};
pub use error::{KafkaWriteError, WriteError};

/// Who we are to the API server, in `managedFields`.
pub const FIELD_MANAGER: &str = "gregor";

/// How long a write to Kubernetes may take. The API server answers within milliseconds; this is for one that
/// does not answer at all, and it leaves most of the time of a Lease for the fence.
pub const KUBERNETES_DEADLINE: Duration = Duration::from_secs(5);

/// How long a change in Kafka may take. Longer, and the fence would refuse it after two renewals that
/// failed, which a busy API server is enough for.
pub const KAFKA_DEADLINE: Duration = Duration::from_secs(8);

/// What came of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    /// It was asked for and accepted; the object may still be there for a while.
    Asked,
    /// There is no such object.
    Absent,
    /// There is one by the same name, but another one: it was not touched.
    Another,
}

/// A kind of object that can be written.
pub trait Object:
    Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug
{
}

impl<K> Object for K where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug
{
}

/// The door. Clones share everything.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    fence: Fence,
    crash: CrashSwitch,
    metrics: Metrics,
    in_vain: Arc<Mutex<BTreeMap<String, Vain>>>,
    /// For one that only looks: whether something was refused.
    refused: Option<Arc<AtomicBool>>,
}

/// A patch that changed nothing, and the version of the object that it did not change.
///
/// Where definitions of other people are installed the API server drops fields of ours that these do not
/// have. To send them again, in every pass, would be in vain again.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Vain {
    version: String,
    patch: String,
}

/// A version that no object has: the first write to etcd makes revision 2. An apply that names it is refused where there
/// is an object, and creates one where there is none.
const NO_VERSION: &str = "1";

/// How often a write that is tied to a version is sent. Others write too: every change of a status makes a version.
const TIED_ATTEMPTS_MAX: usize = 3;

/// As many are remembered; beyond that all are forgotten, and sent once more.
const VAIN_MAX: usize = 10_000;

impl Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("fence", &self.fence).finish_non_exhaustive()
    }
}

impl Writer {
    /// A door to what the client talks to.
    #[must_use]
    pub fn new(client: Client, fence: Fence, crash: CrashSwitch, metrics: Metrics) -> Self {
        Self { client, fence, crash, metrics, in_vain: Arc::default(), refused: None }
    }

    /// A door through which nothing goes, for one who only looks.
    pub(crate) fn closed(client: Client) -> Self {
        Self::new(client, Fence::closed(), CrashSwitch::Off, Metrics::new())
    }

    /// A door through which nothing goes, for a pass that only finds out whether there is anything to write.
    #[must_use]
    pub(crate) fn looking(&self) -> Self {
        Self { fence: Fence::closed(), refused: Some(Arc::default()), ..self.clone() }
    }

    /// Whether nothing goes through, because the pass only looks.
    #[must_use]
    pub(crate) const fn is_looking(&self) -> bool {
        self.refused.is_some()
    }

    /// Notes that there is something to write.
    pub(crate) fn refuse(&self) {
        if let Some(refused) = &self.refused {
            refused.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a pass that only looks has found something to write.
    #[must_use]
    pub(crate) fn has_refused(&self) -> bool {
        self.refused.as_ref().is_some_and(|refused| refused.load(Ordering::Relaxed))
    }

    /// The client, for reads.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// What is counted.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Brings the fields of an object to what is desired, and takes away those that an earlier call has
    /// set and this one does not. Other people's fields stay. Creates the object if there is none.
    ///
    /// `before` is the object as it was last seen; if nothing would change it is returned as it is. One that has
    /// changed since is read again, and applied if this process leads still: it was not another operator.
    pub async fn apply<K: Object>(
        &self,
        api: &Api<K>,
        name: &str,
        desired: &K,
        before: Option<&K>,
    ) -> Result<K, WriteError> {
        let compared = Compared::new(desired, before).map_err(|source| {
            let act = Act::new::<K>("apply", name, api.namespace());
            WriteError::Encode { what: act.what, source }
        })?;
        self.apply_compared(api, name, &compared, before).await
    }

    /// The same for an object that was compared with `before` already.
    pub async fn apply_compared<K: Object>(
        &self,
        api: &Api<K>,
        name: &str,
        compared: &Compared,
        before: Option<&K>,
    ) -> Result<K, WriteError> {
        let act = Act::new::<K>("apply", name, api.namespace());
        if let (State::Same, Some(before)) = (compared.state, before) {
            self.count(&act, WriteOutcome::Skipped);
            return Ok(before.clone());
        }
        let old = self.version_before(api, name, before).await;
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let mut seen: Option<ObjectMeta> = before.map(|before| before.meta().clone());
        let mut attempts = 1;
        let result = loop {
            let patch = Patch::Apply(tied(&compared.sent, seen.as_ref()));
            let sent = self.send(&act, Duration::ZERO, api.patch(name, &params, &patch)).await;
            match sent {
                Err(WriteError::Conflict { .. }) if attempts < TIED_ATTEMPTS_MAX => {
                    attempts += 1;
                    match self.look(&act, api, name).await {
                        Ok(found) => seen = found,
                        Err(error) => break Err(error),
                    }
                }
                sent => break sent,
            }
        };
        self.finish(&act, result, old.as_deref())
    }

    /// Creates an object; one that is there already is an error.
    pub async fn create<K: Object>(&self, api: &Api<K>, object: &K) -> Result<K, WriteError> {
        let act = Act::new::<K>("create", &object.name_any(), api.namespace());
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), dry_run: false };
        let result = self.send(&act, KUBERNETES_DEADLINE, api.create(&params, object)).await;
        self.finish(&act, result, None)
    }

    /// Replaces an object whole, if it is still the version that is given in it.
    pub async fn replace<K: Object>(&self, api: &Api<K>, object: &K) -> Result<K, WriteError> {
        let name = object.name_any();
        let act = Act::new::<K>("replace", &name, api.namespace());
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), dry_run: false };
        let result = self.send(&act, Duration::ZERO, api.replace(&name, &params, object)).await;
        self.finish(&act, result, object.meta().resource_version.as_deref())
    }

    /// Makes the status of an object the desired one, whole. A condition that holds as before keeps its
    /// `lastTransitionTime`, so that callers may always write the present.
    ///
    /// Returns the object as it is afterwards; `None` if nothing had to be sent.
    pub async fn patch_status<K: Object>(
        &self,
        api: &Api<K>,
        name: &str,
        desired: &Value,
        before: Option<&K>,
    ) -> Result<Option<K>, WriteError> {
        let act = Act::new::<K>("patch status", name, api.namespace());
        let stored = before.map(|before| act.encode(before)).transpose()?;
        let stored = stored.as_ref().and_then(|stored| stored.get("status"));
        let Some(patch) = same::status_patch(stored, desired) else {
            self.count(&act, WriteOutcome::Skipped);
            return Ok(None);
        };
        let vain = before.and_then(|before| before.meta().resource_version.clone());
        let vain = vain.map(|version| Vain { version, patch: same::hash(&patch) });
        if vain.is_some() && self.tried_in_vain(&act) == vain {
            self.count(&act, WriteOutcome::Skipped);
            return Ok(None);
        }
        let old = self.version_before(api, name, before).await;
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..Default::default() };
        let patch = Patch::Merge(json!({ "status": patch }));
        let call = api.patch_status(name, &params, &patch);
        let result = self.send(&act, KUBERNETES_DEADLINE, call).await;
        let written = self.finish(&act, result, old.as_deref())?;
        let now = written.meta().resource_version.as_deref();
        self.remember_vain(&act, vain.filter(|vain| Some(vain.version.as_str()) == now));
        Ok(Some(written))
    }

    /// Sends a JSON merge patch, for single annotations, labels and finalizers. With a `resourceVersion` in
    /// its metadata it is refused if the object has changed since.
    ///
    /// Returns the object as it is afterwards; `None` if nothing had to be sent.
    pub async fn patch<K: Object>(
        &self,
        api: &Api<K>,
        name: &str,
        patch: &Value,
        before: Option<&K>,
    ) -> Result<Option<K>, WriteError> {
        let act = Act::new::<K>("patch", name, api.namespace());
        if let Some(before) = before
            && same::merges_to_itself(&act.encode(before)?, patch)
        {
            self.count(&act, WriteOutcome::Skipped);
            return Ok(None);
        }
        let old = self.version_before(api, name, before).await;
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..Default::default() };
        let is_tied = patch.pointer("/metadata/resourceVersion").is_some_and(Value::is_string);
        let lasting = if is_tied { Duration::ZERO } else { KUBERNETES_DEADLINE };
        let patch = Patch::Merge(patch);
        let result = self.send(&act, lasting, api.patch(name, &params, &patch)).await;
        self.finish(&act, result, old.as_deref()).map(Some)
    }

    /// Deletes the object that has this uid, and no other by the same name. What it owns goes after it, in
    /// the background.
    ///
    /// `version` is that of the object as it was last seen. One that has changed since is read again, and deleted if
    /// this process leads still: it was not another operator.
    pub async fn delete<K: Object>(
        &self,
        api: &Api<K>,
        name: &str,
        (uid, version): (&str, Option<&str>),
    ) -> Result<Deleted, WriteError> {
        let act = Act::new::<K>("delete", name, api.namespace());
        let mut seen = version.map(str::to_owned);
        let mut attempts = 1;
        let result = loop {
            let preconditions =
                Preconditions { uid: Some(uid.to_owned()), resource_version: seen.take() };
            let params = DeleteParams::background().preconditions(preconditions);
            let sent = self.send(&act, KUBERNETES_DEADLINE, api.delete(name, &params)).await;
            match sent {
                Ok(_) => break Ok(Deleted::Asked),
                Err(WriteError::Missing { .. }) => break Ok(Deleted::Absent),
                Err(WriteError::Conflict { .. }) if attempts < TIED_ATTEMPTS_MAX => {
                    attempts += 1;
                    match self.look(&act, api, name).await {
                        Ok(Some(found)) if found.uid.as_deref() == Some(uid) => {
                            seen = found.resource_version;
                        }
                        Ok(Some(_)) => break Ok(Deleted::Another),
                        Ok(None) => break Ok(Deleted::Absent),
                        Err(error) => break Err(error),
                    }
                }
                Err(error) => break Err(error),
            }
        };
        self.finish_deletion(&act, &result);
        result
    }

    /// Deletes the object that has this uid, after all that it owns: until then it is there, being deleted.
    pub async fn delete_after_dependents<K: Object>(
        &self,
        api: &Api<K>,
        name: &str,
        uid: &str,
    ) -> Result<Deleted, WriteError> {
        let act = Act::new::<K>("delete", name, api.namespace());
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let params = DeleteParams::foreground().preconditions(preconditions);
        let result = match self.send(&act, KUBERNETES_DEADLINE, api.delete(name, &params)).await {
            Ok(_) => Ok(Deleted::Asked),
            Err(WriteError::Missing { .. }) => Ok(Deleted::Absent),
            Err(error) => Err(error),
        };
        self.finish_deletion(&act, &result);
        result
    }

    fn finish_deletion(&self, act: &Act, result: &Result<Deleted, WriteError>) {
        match result {
            Ok(Deleted::Asked) => {
                self.count(act, WriteOutcome::Changed);
                tracing::info!("{}", act.what);
                self.crash.acted(&act.what);
            }
            Ok(Deleted::Absent) => self.count(act, WriteOutcome::Unchanged),
            Ok(Deleted::Another) => {
                tracing::info!("{}: another object has this name now", act.what);
                self.count(act, WriteOutcome::Unchanged);
            }
            Err(_) => self.count(act, WriteOutcome::Failed),
        }
    }

    /// Makes a call that changes something in Kafka. `kind` says what, without names or ids, for the
    /// metrics; `what` says it whole, for people. `outcome` tells of an error whether it may have happened.
    ///
    /// The call is given up after [`KAFKA_DEADLINE`]: make the client with no longer a time-out than that.
    pub async fn kafka<T, E: std::error::Error + 'static>(
        &self,
        kind: &str,
        what: &str,
        call: impl Future<Output = Result<T, E>>,
        outcome: impl FnOnce(&E) -> Outcome,
    ) -> Result<T, KafkaWriteError<E>> {
        self.kafka_with((kind, what), call, outcome, |_| true).await
    }

    /// The same for a call whose answer may be that nothing was done: `changed` tells. What Kafka refuses is no act, so
    /// that a process that ends after its first act gets beyond what is refused each time.
    pub async fn kafka_with<T, E: std::error::Error + 'static>(
        &self,
        (kind, what): (&str, &str),
        call: impl Future<Output = Result<T, E>>,
        outcome: impl FnOnce(&E) -> Outcome,
        changed: impl FnOnce(&T) -> bool,
    ) -> Result<T, KafkaWriteError<E>> {
        if !self.lead(KAFKA_DEADLINE) {
            return Err(KafkaWriteError::NotLeader { what: what.to_owned() });
        }
        liveness::progress();
        self.metrics.kafka_call(kind, KafkaEffect::Change);
        match tokio::time::timeout(KAFKA_DEADLINE, call).await {
            Ok(Ok(answer)) => {
                if changed(&answer) {
                    tracing::info!("Kafka: {what}");
                    self.crash.acted(what);
                } else {
                    tracing::debug!("Kafka: refused: {what}");
                }
                Ok(answer)
            }
            Ok(Err(error)) => {
                match outcome(&error) {
                    Outcome::NotDone => {}
                    Outcome::Unknown => self.crash.acted(what),
                }
                Err(KafkaWriteError::Kafka { what: what.to_owned(), source: error })
            }
            Err(_) => {
                self.crash.acted(what);
                Err(KafkaWriteError::Expired { what: what.to_owned() })
            }
        }
    }

    /// Whether this process is the leader for longer than a call can take. That is so when it is asked, and not for longer than
    /// the process runs without a pause (4).
    #[must_use]
    pub fn lead(&self, deadline: Duration) -> bool {
        self.refuse();
        self.fence.time_left() > deadline
    }

    fn tried_in_vain(&self, act: &Act) -> Option<Vain> {
        let in_vain = self.in_vain.lock().unwrap_or_else(PoisonError::into_inner);
        in_vain.get(&act.what).cloned()
    }

    fn remember_vain(&self, act: &Act, vain: Option<Vain>) {
        let mut in_vain = self.in_vain.lock().unwrap_or_else(PoisonError::into_inner);
        if in_vain.len() >= VAIN_MAX {
            in_vain.clear();
        }
        match vain {
            Some(vain) => in_vain.insert(act.what.clone(), vain),
            None => in_vain.remove(&act.what),
        };
    }

    /// Makes a call, if this process leads for longer than that.
    async fn send<T>(
        &self,
        act: &Act,
        lasting: Duration,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, WriteError> {
        if !self.lead(lasting) {
            return Err(WriteError::NotLeader { what: act.what.clone() });
        }
        liveness::progress();
        self.crash.sending(&act.what);
        match tokio::time::timeout(KUBERNETES_DEADLINE, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(act.refused(error)),
            Err(_) => Err(WriteError::Expired { what: act.what.clone() }),
        }
    }

    fn finish<K: Object>(
        &self,
        act: &Act,
        result: Result<K, WriteError>,
        before: Option<&str>,
    ) -> Result<K, WriteError> {
        match &result {
            Ok(object)
                if before.is_some() && object.meta().resource_version.as_deref() == before =>
            {
                self.count(act, WriteOutcome::Unchanged);
            }
            Ok(_) => {
                self.count(act, WriteOutcome::Changed);
                tracing::debug!("{}", act.what);
                self.crash.acted(&act.what);
            }
            Err(error) => {
                self.count(act, WriteOutcome::Failed);
                if let WriteError::Expired { .. } = error {
                    self.crash.acted(&act.what);
                }
            }
        }
        result
    }

    /// What an object is now; `None` if there is none. By a list: there are kinds that the operator need not get one by
    /// one.
    async fn look<K: Object>(
        &self,
        act: &Act,
        api: &Api<K>,
        name: &str,
    ) -> Result<Option<ObjectMeta>, WriteError> {
        let params = ListParams::default().fields(&format!("metadata.name={name}"));
        let found: ObjectList<PartialObjectMeta<K>> =
            self.send(act, Duration::ZERO, api.list_metadata(&params)).await?;
        Ok(found.items.into_iter().next().map(|object| object.metadata))
    }

    /// The version that a write starts from. With the crash switch on it is asked for, as one that was
    /// seen a while ago would make a write that changes nothing look like an act, again in every life.
    async fn version_before<K: Object>(
        &self,
        api: &Api<K>,
        name: &str,
        before: Option<&K>,
    ) -> Option<String> {
        if !self.crash.is_on() {
            return before.and_then(|before| before.meta().resource_version.clone());
        }
        // By a list: there are kinds that the operator need not get one by one, and a test must not make it
        // hold a right for that.
        let params = ListParams::default().fields(&format!("metadata.name={name}"));
        let found: ObjectList<PartialObjectMeta<K>> = api.list_metadata(&params).await.ok()?;
        found.items.into_iter().next()?.metadata.resource_version
    }

    fn count(&self, act: &Act, outcome: WriteOutcome) {
        // What one that only looks was refused is written, and counted, by the pass after it.
        if !self.is_looking() {
            self.metrics.write(&act.kind, act.verb, outcome);
        }
    }
}

/// An object that is applied, tied to the version of it that was read, or to there being none.
fn tied(sent: &Value, seen: Option<&ObjectMeta>) -> Value {
    let mut tied = sent.clone();
    if let Some(metadata) = tied.get_mut("metadata").and_then(Value::as_object_mut) {
        let version = seen.and_then(|seen| seen.resource_version.as_deref());
        metadata.insert("resourceVersion".to_owned(), version.unwrap_or(NO_VERSION).into());
        // Without it, an object that was deleted in between would be created again.
        if let Some(uid) = seen.and_then(|seen| seen.uid.as_deref()) {
            metadata.insert("uid".to_owned(), uid.into());
        }
    }
    tied
}

/// One write, for people and for counting.
struct Act {
    verb: &'static str,
    kind: String,
    what: String,
}

impl Act {
    fn new<K: Object>(verb: &'static str, name: &str, namespace: Option<&str>) -> Self {
        let kind = K::kind(&()).into_owned();
        let what = match namespace {
            Some(namespace) => format!("{verb} {kind} {namespace}/{name}"),
            None => format!("{verb} {kind} {name}"),
        };
        Self { verb, kind, what }
    }

    fn encode<T: Serialize>(&self, object: &T) -> Result<Value, WriteError> {
        serde_json::to_value(object)
            .map_err(|source| WriteError::Encode { what: self.what.clone(), source })
    }

    fn refused(&self, error: kube::Error) -> WriteError {
        let what = self.what.clone();
        let kube::Error::Api(status) = &error else {
            return WriteError::Kubernetes { what, source: Box::new(error) };
        };
        match status.code {
            403 => {
                let message = status.message.clone();
                let refused = WriteError::Kubernetes { what, source: Box::new(error) };
                if !refused.is_of_ending_namespace() {
                    tracing::error!("{refused}: not allowed: {message}");
                }
                refused
            }
            404 => WriteError::Missing { what },
            409 if status.is_already_exists() => WriteError::Exists { what },
            409 => WriteError::Conflict { what },
            400 | 422 => WriteError::Invalid { what, reason: status.message.clone() },
            _ => WriteError::Kubernetes { what, source: Box::new(error) },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[tokio::test]
    async fn kafka_is_not_touched_by_one_that_does_not_lead() {
        let fence = Fence::closed();
        let service = tower_stub();
        let writer = Writer::new(service, fence.clone(), CrashSwitch::Off, Metrics::new());
        let call = async { Ok::<_, std::io::Error>(1) };
        let never = |_: &std::io::Error| Outcome::NotDone;
        let refused = writer.kafka("unregister broker", "unregister broker 3", call, never).await;
        assert!(matches!(refused, Err(KafkaWriteError::NotLeader { .. })));
        // A little is not enough either: the call might end after the term.
        fence.renew(std::time::Instant::now(), KAFKA_DEADLINE);
        assert!(!writer.lead(KAFKA_DEADLINE));
        fence.renew(std::time::Instant::now(), KAFKA_DEADLINE * 2);
        let call = async { Ok::<_, std::io::Error>(1) };
        let done = writer.kafka("unregister broker", "unregister broker 3", call, never).await;
        assert_eq!(done.unwrap(), 1);
        let text = writer.metrics().encode();
        let line = r#"gregor_kafka_calls_total{call="unregister broker",effect="Change"} 1"#;
        assert!(text.contains(line), "{text}");
    }

    #[tokio::test]
    async fn kubernetes_is_not_touched_by_one_that_does_not_lead() {
        let fence = Fence::closed();
        let writer = Writer::new(tower_stub(), fence, CrashSwitch::Off, Metrics::new());
        let map = |version: Option<&str>| -> ConfigMap {
            let metadata = json!({ "name": "a", "namespace": "n", "resourceVersion": version });
            serde_json::from_value(json!({ "metadata": metadata })).unwrap()
        };
        let api = Api::<ConfigMap>::namespaced(writer.client().clone(), "n");
        let (new, old) = (map(None), map(Some("7")));
        let patch = json!({ "metadata": { "resourceVersion": "7", "annotations": { "a": "1" } } });
        let status = json!({ "a": 1 });
        let refused = [
            writer.apply(&api, "a", &new, None).await.unwrap_err(),
            writer.apply(&api, "a", &new, Some(&old)).await.unwrap_err(),
            writer.create(&api, &new).await.unwrap_err(),
            writer.replace(&api, &old).await.unwrap_err(),
            writer.patch(&api, "a", &patch, Some(&old)).await.unwrap_err(),
            writer.patch_status(&api, "a", &status, Some(&old)).await.unwrap_err(),
            writer.delete(&api, "a", ("uid", Some("7"))).await.unwrap_err(),
        ];
        for error in refused {
            assert!(matches!(error, WriteError::NotLeader { .. }), "{error}");
        }
    }

    #[tokio::test]
    async fn a_pass_that_only_looks_notes_every_write_and_nothing_that_would_change_nothing() {
        let leader = Writer::new(tower_stub(), Fence::open(), CrashSwitch::Off, Metrics::new());
        let metadata = json!({ "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7" });
        let map: ConfigMap = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
        let api = Api::<ConfigMap>::namespaced(leader.client().clone(), "n");
        let (old, change) = (Some(&map), json!({ "metadata": { "annotations": { "a": "1" } } }));
        let same = json!({ "metadata": { "labels": {} } });
        let looking = leader.looking();
        assert!(looking.patch(&api, "a", &same, old).await.unwrap().is_none());
        assert!(looking.patch_status(&api, "a", &json!({}), old).await.unwrap().is_none());
        assert!(looking.is_looking() && !looking.has_refused() && !leader.is_looking());
        let call = || async { Ok::<_, std::io::Error>(1) };
        let never = |_: &std::io::Error| Outcome::NotDone;
        for way in 0..7 {
            let looking = leader.looking();
            let is_refused = match way {
                0 => looking.apply(&api, "a", &map, None).await.is_err(),
                1 => looking.create(&api, &map).await.is_err(),
                2 => looking.replace(&api, &map).await.is_err(),
                3 => looking.patch(&api, "a", &change, old).await.is_err(),
                4 => looking.patch_status(&api, "a", &json!({ "a": 1 }), old).await.is_err(),
                5 => looking.delete(&api, "a", ("u", Some("7"))).await.is_err(),
                _ => looking.kafka("unregister", "unregister", call(), never).await.is_err(),
            };
            assert!(is_refused && looking.has_refused(), "{way}");
        }
        // It is no failure of a write, and another pass that looks begins anew.
        let text = leader.metrics().encode();
        assert!(!text.contains(r#"outcome="Failed""#), "{text}");
        assert!(!leader.looking().has_refused() && !leader.has_refused());
    }

    /// No longer than the call may take: what the server would not refuse is not begun, and what it would is.
    #[tokio::test]
    async fn a_term_that_may_end_during_the_call_is_enough_only_for_what_is_tied_to_a_version() {
        let fence = Fence::closed();
        let writer = Writer::new(tower_stub(), fence.clone(), CrashSwitch::Off, Metrics::new());
        let metadata = json!({ "name": "a", "namespace": "n", "resourceVersion": "7" });
        let map: ConfigMap = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
        let api = Api::<ConfigMap>::namespaced(writer.client().clone(), "n");
        let note = json!({ "metadata": { "annotations": { "a": "1" } } });
        let tied = json!({ "metadata": { "resourceVersion": "7", "annotations": { "a": "1" } } });
        let status = json!({ "a": 1 });
        let renew = || fence.renew(Instant::now(), KUBERNETES_DEADLINE);
        renew();
        let refused = [
            writer.create(&api, &map).await.unwrap_err(),
            writer.patch(&api, "a", &note, Some(&map)).await.unwrap_err(),
            writer.patch_status(&api, "a", &status, Some(&map)).await.unwrap_err(),
            writer.delete(&api, "a", ("uid", Some("7"))).await.unwrap_err(),
            writer.delete(&api, "a", ("uid", None)).await.unwrap_err(),
        ];
        for error in refused {
            assert!(matches!(error, WriteError::NotLeader { .. }), "{error}");
        }
        // There is no server: that it cannot be reached says that the request was sent.
        renew();
        let applied = writer.apply(&api, "a", &map, None).await.unwrap_err();
        renew();
        let replaced = writer.replace(&api, &map).await.unwrap_err();
        renew();
        let patched = writer.patch(&api, "a", &tied, Some(&map)).await.unwrap_err();
        for error in [applied, replaced, patched] {
            assert!(matches!(error, WriteError::Kubernetes { .. }), "{error}");
        }
        fence.renew(Instant::now(), KAFKA_DEADLINE);
        let call = async { Ok::<(), std::io::Error>(()) };
        let changed = writer.kafka("a", "a", call, |_| Outcome::NotDone).await.unwrap_err();
        assert!(matches!(changed, KafkaWriteError::NotLeader { .. }), "{changed}");
    }

    #[test]
    fn an_apply_is_tied_to_the_version_that_was_read_or_to_there_being_none() {
        let sent = json!({ "metadata": { "name": "a" }, "data": {} });
        let metadata = |seen: Option<&ObjectMeta>| tied(&sent, seen)["metadata"].clone();
        assert_eq!(metadata(None), json!({ "name": "a", "resourceVersion": "1" }));
        let seen = ObjectMeta {
            resource_version: Some("7".to_owned()),
            uid: Some("u".to_owned()),
            ..ObjectMeta::default()
        };
        let expected = json!({ "name": "a", "resourceVersion": "7", "uid": "u" });
        assert_eq!(metadata(Some(&seen)), expected);
        assert_eq!(tied(&sent, None)["data"], json!({}));
    }

    /// A client that no test here sends anything through.
    fn tower_stub() -> Client {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        Client::try_from(config).unwrap()
    }
}
