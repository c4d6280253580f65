//! Publishes Events with the kubelet's reasons and messages: in the background, in order, equal ones counted,
//! rate limited.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::mpsc;

/// Events per object in a burst, then one per [`REFILL`]: the kubelet's numbers.
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_secs(300);

/// Equal Events within this time are counted as one.
const SAME_WITHIN: Duration = Duration::from_secs(600);

/// Queue length; if it is exceeded, the API server is down and Events do not matter.
const WAITING_MAX: usize = 1000;

/// Entries to remember before all are dropped, which only means that a few Events are not counted together.
const REMEMBERED_MAX: usize = 5000;

/// Type of an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Normal,
    Warning,
}

/// An Event to publish.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Note {
    object: Object,
    level: Level,
    reason: &'static str,
    message: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Object {
    kind: &'static str,
    namespace: String,
    name: String,
    uid: String,
    field: Option<String>,
}

/// Publishes Events.
#[derive(Debug, Clone)]
pub(crate) struct Recorder(mpsc::Sender<Note>);

impl Recorder {
    pub(crate) fn start(client: Client, node: &str) -> Self {
        let (sender, notes) = mpsc::channel(WAITING_MAX);
        let writer = Writer { client, node: node.to_owned(), ledger: Ledger::default() };
        tokio::spawn(writer.run(notes));
        Self(sender)
    }

    /// Publishes an Event about a pod.
    pub(crate) fn pod(&self, pod: &Pod, level: Level, reason: &'static str, message: String) {
        self.send(pod, None, (level, reason, message));
    }

    /// Publishes an Event about a container, at `field` in the spec of its pod.
    pub(crate) fn container(
        &self,
        pod: &Pod,
        field: String,
        (level, reason, message): (Level, &'static str, String),
    ) {
        self.send(pod, Some(field), (level, reason, message));
    }

    /// Publishes an Event about the node.
    pub(crate) fn node(&self, name: &str, reason: &'static str, message: String) {
        let object = Object {
            kind: "Node",
            namespace: "default".to_owned(),
            name: name.to_owned(),
            uid: name.to_owned(),
            field: None,
        };
        let _ = self.0.try_send(Note { object, level: Level::Normal, reason, message });
    }

    fn send(
        &self,
        pod: &Pod,
        field: Option<String>,
        (level, reason, message): (Level, &'static str, String),
    ) {
        let object = Object {
            kind: "Pod",
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            name: pod.metadata.name.clone().unwrap_or_default(),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            field,
        };
        let _ = self.0.try_send(Note { object, level, reason, message });
    }
}

/// Recent Events, for counting and rate limiting. Pure.
#[derive(Debug, Default)]
struct Ledger {
    said: BTreeMap<Note, Said>,
    budgets: BTreeMap<String, Budget>,
}

#[derive(Debug, Clone)]
struct Said {
    name: String,
    count: i32,
    last: Timestamp,
}

#[derive(Debug, Clone)]
struct Budget {
    left: u32,
    since: Timestamp,
}

/// How to publish an Event.
#[derive(Debug, PartialEq, Eq)]
enum Writing {
    New { name: String },
    Again { name: String, count: i32 },
    Nothing,
}

impl Ledger {
    fn note(&mut self, note: &Note, now: Timestamp) -> Writing {
        if self.said.len() > REMEMBERED_MAX {
            self.said.clear();
            self.budgets.clear();
        }
        if !self.affords(&note.object.uid, now) {
            return Writing::Nothing;
        }
        let since = |then: Timestamp| Duration::try_from(now.duration_since(then)).ok();
        if let Some(said) = self.said.get_mut(note)
            && since(said.last).is_some_and(|time| time < SAME_WITHIN)
        {
            said.count += 1;
            said.last = now;
            return Writing::Again { name: said.name.clone(), count: said.count };
        }
        let name = format!("{}.{:x}", note.object.name, now.as_nanosecond());
        let said = Said { name: name.clone(), count: 1, last: now };
        self.said.insert(note.clone(), said);
        Writing::New { name }
    }

    fn affords(&mut self, uid: &str, now: Timestamp) -> bool {
        let full = Budget { left: BURST, since: now };
        let budget = self.budgets.entry(uid.to_owned()).or_insert(full);
        let passed = Duration::try_from(now.duration_since(budget.since)).unwrap_or_default();
        let earned = u32::try_from(passed.as_secs() / REFILL.as_secs()).unwrap_or(u32::MAX);
        if earned > 0 {
            *budget = Budget { left: budget.left.saturating_add(earned).min(BURST), since: now };
        }
        let affords = budget.left > 0;
        budget.left = budget.left.saturating_sub(1);
        affords
    }
}

struct Writer {
    client: Client,
    node: String,
    ledger: Ledger,
}

impl Writer {
    async fn run(mut self, mut notes: mpsc::Receiver<Note>) {
        while let Some(note) = notes.recv().await {
            let now = Timestamp::now();
            let api = Api::<Event>::namespaced(self.client.clone(), &note.object.namespace);
            let written = match self.ledger.note(&note, now) {
                Writing::Nothing => continue,
                Writing::New { name } => {
                    let event = self.event(&note, name, now);
                    api.create(&PostParams::default(), &event).await
                }
                Writing::Again { name, count } => {
                    let patch = json!({ "count": count, "lastTimestamp": Time(now) });
                    api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await
                }
            };
            // Common while a namespace is being deleted.
            if let Err(error) = written {
                tracing::debug!(reason = note.reason, %error, "cannot publish an Event");
            }
        }
    }

    fn event(&self, note: &Note, name: String, now: Timestamp) -> Event {
        let Object { kind, namespace, name: object, uid, field } = note.object.clone();
        Event {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(namespace.clone()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some(kind.to_owned()),
                // A node has no namespace, but its Events must have one.
                namespace: (kind != "Node").then_some(namespace),
                name: Some(object),
                uid: Some(uid),
                field_path: field,
                ..ObjectReference::default()
            },
            type_: Some(format!("{:?}", note.level)),
            reason: Some(note.reason.to_owned()),
            message: Some(note.message.clone()),
            count: Some(1),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            source: Some(EventSource {
                component: Some("kubelet".to_owned()),
                host: Some(self.node.clone()),
            }),
            reporting_component: Some("kubelet".to_owned()),
            reporting_instance: Some(self.node.clone()),
            ..Event::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(message: &str) -> Note {
        let object = Object {
            kind: "Pod",
            namespace: "n".into(),
            name: "p".into(),
            uid: "u".into(),
            field: None,
        };
        Note { object, level: Level::Normal, reason: "Pulled", message: message.into() }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn equal_events_are_counted_and_forgotten() {
        let mut ledger = Ledger::default();
        let Writing::New { name } = ledger.note(&note("a"), at(0)) else { panic!() };
        assert_eq!(ledger.note(&note("a"), at(5)), Writing::Again { name, count: 2 });
        assert!(matches!(ledger.note(&note("b"), at(6)), Writing::New { .. }));
        assert!(matches!(ledger.note(&note("a"), at(700)), Writing::New { .. }));
    }

    #[test]
    fn a_flood_is_cut_off_and_comes_back_slowly() {
        let mut ledger = Ledger::default();
        let mut written = |second| {
            (0..40)
                .filter(|n| ledger.note(&note(&n.to_string()), at(second)) != Writing::Nothing)
                .count()
        };
        assert_eq!([written(0), written(1), written(301), written(1000)], [25, 0, 1, 2]);
    }
}
