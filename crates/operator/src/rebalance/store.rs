//! What is remembered of rebalances, in ConfigMaps.
//!
//! 1. What belongs to a request (how far it is, and its plan) is owned by the `KafkaRebalance` and goes with
//!    it.
//! 2. Moves belong to the cluster and are owned by the `Kafka`: whoever deletes a request must not take away
//!    the only note of what to cancel and which throttle to take back. There is one such note for each cluster, and
//!    it is only written over the version that was read, so there is one execution.
//! 3. A ConfigMap of another owner, or of a former resource of the same name, is never taken for ours.

use std::collections::BTreeSet;

use api::KafkaRebalance;
use api::names::{
    CLUSTER_LABEL, COMPONENT_LABEL, KIND_LABEL, Labels, MANAGED_BY, MANAGER, NAME_LABEL, Names,
};
use control::rebalance::execution;
use control::rebalance::request;
use control::rebalance::request::claims;
use control::rebalance::request::record::{Plan, Session};
use control::rebalance::request::snapshot::Claimant;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use model::NodeId;
use objects::{hash, owner_of};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use crate::store::StoreError;
use crate::store::{self, Unknown};
use crate::write::Writer;

/// The kind that these ConfigMaps are made for, in their label. They begin no pass over a cluster.
pub(crate) const KIND: &str = "KafkaRebalance";

/// Of which attempt a part is, and how many parts there are.
const PART_OF: &str = "attempt";
const PARTS: &str = "parts";

/// An object may have a MiB, with its metadata.
const PART_BYTES_MAX: usize = 900_000;

/// What is remembered of a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RequestRecord {
    /// How far it is.
    pub(crate) request: request::Recorded,
    /// The cluster that all of it is about.
    pub(crate) cluster: Option<String>,
    /// What came of the plan that was asked for last.
    pub(crate) proposal: Option<ProposalRecord>,
    /// What Cruise Control knows it by, if that is the engine.
    pub(crate) session: Option<Session>,
}

impl RequestRecord {
    /// What decisions use of it.
    pub(crate) fn facts(&self) -> request::Record {
        let plan = self.proposal.as_ref().map(|one| Plan {
            attempt: one.attempt,
            failure: one.failure.clone(),
            unknown: one.unknown.clone(),
        });
        let (request, cluster) = (self.request.clone(), self.cluster.clone());
        request::Record { request, cluster, plan, session: self.session.clone() }
    }

    /// Takes over what was decided. A decision makes no plan, but it may forget one.
    pub(crate) fn decided(&mut self, record: &request::Record) {
        self.request.clone_from(&record.request);
        self.cluster.clone_from(&record.cluster);
        self.session.clone_from(&record.session);
        if record.plan.is_none() {
            self.proposal = None;
        }
    }
}

/// What came of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProposalRecord {
    /// Of which attempt.
    pub(crate) attempt: u64,
    /// Why there is none, if there is none.
    pub(crate) failure: Option<request::Failure>,
    /// What it would do, as it is shown.
    pub(crate) summary: Value,
    /// What the brokers have before and after.
    pub(crate) broker_load: Value,
    /// The brokers that it is about: those of the spec, and those that get replicas.
    pub(crate) brokers: BTreeSet<NodeId>,
    /// What it could not take into account.
    pub(crate) unknown: Vec<String>,
}

impl ProposalRecord {
    /// That there is no plan, and why.
    pub(crate) fn failed(attempt: u64, failure: request::Failure) -> Self {
        Self {
            attempt,
            failure: Some(failure),
            summary: Value::Null,
            broker_load: Value::Null,
            brokers: BTreeSet::new(),
            unknown: Vec::new(),
        }
    }
}

/// The moves that run on a cluster, or ran last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Moves {
    /// Who they are for.
    pub(crate) by: Claimant,
    /// In how many parts the job is stored, until all is over.
    pub(crate) parts: usize,
    /// The brokers that they are about.
    pub(crate) brokers: BTreeSet<NodeId>,
    /// How far they are.
    pub(crate) recorded: execution::Recorded,
}

impl Moves {
    /// What decisions use of them.
    pub(crate) fn facts(&self) -> request::snapshot::Moves {
        request::snapshot::Moves { by: self.by.clone(), recorded: self.recorded.clone() }
    }

    /// Whether nothing of it runs any more.
    pub(crate) fn is_over(&self) -> bool {
        self.recorded.phase == execution::Phase::Ended
    }

    /// Whether a request claims them. `requests` are those of the namespace.
    pub(crate) fn is_claimed<'a>(
        &self,
        kafka: &api::Kafka,
        requests: impl IntoIterator<Item = &'a KafkaRebalance>,
    ) -> bool {
        let name = kafka.name_any();
        let request = |kr: &'a KafkaRebalance| claims::Request {
            uid: kr.metadata.uid.as_deref(),
            cluster: kr.labels().get(CLUSTER_LABEL).map(String::as_str),
        };
        self.by.is_claimed(&cluster(kafka, &name), requests.into_iter().map(request))
    }

    /// Whether they are for topics of this cluster.
    pub(crate) fn is_for_topics_of(&self, kafka: &api::Kafka) -> bool {
        self.by.is_for_topics_of(&cluster(kafka, &kafka.name_any()))
    }

    /// By what the parts of its job are known.
    pub(crate) fn key(&self) -> String {
        key(&self.by.uid, self.by.attempt)
    }
}

/// A cluster that may claim moves.
fn cluster<'a>(kafka: &'a api::Kafka, name: &'a str) -> claims::Cluster<'a> {
    let (uid, manages_topics) = (kafka.metadata.uid.as_deref(), api::read::topics(kafka).is_some());
    claims::Cluster { name, uid, manages_topics }
}

/// By what the parts of a plan are known.
pub(crate) fn key(uid: &str, attempt: u64) -> String {
    format!("{uid}/{attempt}")
}

/// A document in a ConfigMap: its name, labels and owner.
#[derive(Clone)]
pub(crate) struct Document {
    api: Api<ConfigMap>,
    name: String,
    labels: Labels,
    owner: OwnerReference,
}

/// The value of a document, with the version of the ConfigMap that holds it.
#[derive(Debug, Clone)]
pub(crate) struct Kept<T> {
    found: Option<ConfigMap>,
    stale: bool,
    unknown: Unknown,
    /// What was read; `None` if there is nothing.
    pub(crate) value: Option<T>,
}

impl Document {
    /// How far a request is.
    pub(crate) fn of_request(client: &Client, kr: &KafkaRebalance) -> Result<Self, StoreError> {
        Self::of_rebalance(client, kr, "-gregor-rebalance")
    }

    /// The plan of a request.
    pub(crate) fn of_plan(client: &Client, kr: &KafkaRebalance) -> Result<Self, StoreError> {
        Self::of_rebalance(client, kr, "-gregor-plan")
    }

    /// What people and tools read of a request.
    pub(crate) fn for_people(client: &Client, kr: &KafkaRebalance) -> Result<Self, StoreError> {
        Self::of_rebalance(client, kr, "")
    }

    /// The moves of a cluster.
    pub(crate) fn of_moves(client: &Client, kafka: &api::Kafka) -> Result<Self, StoreError> {
        let namespace = kafka.namespace().unwrap_or_default();
        let cluster = kafka.name_any();
        let owner = owner_of(kafka).ok_or(StoreError::NoOwner)?;
        Ok(Self {
            api: Api::namespaced(client.clone(), &namespace),
            name: Names::new(&namespace, &cluster).moves(),
            labels: labels(&cluster, &cluster),
            owner,
        })
    }

    /// The users that a cluster manages.
    pub(crate) fn of_users(client: &Client, kafka: &api::Kafka) -> Result<Self, StoreError> {
        let document = Self::of_moves(client, kafka)?;
        let name = Names::new(&kafka.namespace().unwrap_or_default(), &kafka.name_any()).users();
        Ok(Self { name, ..document })
    }

    /// The job of moves. Each has a ConfigMap of its own, so that a job that cannot claim the cluster overwrites nothing.
    pub(crate) fn of_job(
        client: &Client,
        kafka: &api::Kafka,
        key: &str,
    ) -> Result<Self, StoreError> {
        let document = Self::of_moves(client, kafka)?;
        let name = format!("{}-{}", document.name, hash::short(key.as_bytes()));
        Ok(Self { name, ..document })
    }

    fn of_rebalance(
        client: &Client,
        kr: &KafkaRebalance,
        suffix: &str,
    ) -> Result<Self, StoreError> {
        let mut owner = kr.owner_ref(&()).ok_or(StoreError::NoOwner)?;
        owner.controller = Some(false);
        let cluster = kr.labels().get(CLUSTER_LABEL).cloned().unwrap_or_default();
        Ok(Self {
            api: Api::namespaced(client.clone(), &kr.namespace().unwrap_or_default()),
            name: format!("{}{suffix}", kr.name_any()),
            labels: labels(&cluster, &kr.name_any()),
            owner,
        })
    }

    /// What the ConfigMap is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A part of a plan. It is large, so it is not among what every pass over the cluster reads.
    fn part(&self, number: usize) -> Self {
        let mut labels = self.labels.clone();
        labels.remove(CLUSTER_LABEL);
        Self { name: format!("{}-{number}", self.name), labels, ..self.clone() }
    }

    /// The ConfigMap of that name: ours, that of a former owner, or none.
    async fn find(&self) -> Result<(Option<ConfigMap>, bool), StoreError> {
        let read = |source| StoreError::Read { name: self.name.clone(), source: Box::new(source) };
        let Some(found) = self.api.get_opt(&self.name).await.map_err(read)? else {
            return Ok((None, false));
        };
        if owned_by(&found, &self.owner.uid) {
            return Ok((Some(found), false));
        }
        if found.labels().get(KIND_LABEL).map(String::as_str) == Some(KIND) {
            return Ok((Some(found), true));
        }
        Err(StoreError::Taken { name: self.name.clone() })
    }

    fn map(&self) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                namespace: self.api.namespace().map(str::to_owned),
                labels: Some(self.labels.clone()),
                owner_references: Some(vec![self.owner.clone()]),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        }
    }

    /// Reads the document.
    pub(crate) async fn load<T: DeserializeOwned>(&self) -> Result<Kept<T>, StoreError> {
        let (found, stale) = self.find().await?;
        let (value, unknown) = match &found {
            Some(map) if !stale => {
                let (value, unknown) = store::decode(map)?;
                (Some(value), unknown)
            }
            _ => (None, Unknown::new()),
        };
        Ok(Kept { found, stale, unknown, value })
    }

    /// Remembers something, if it is not what is remembered already. Refused if another process has written
    /// since it was read.
    pub(crate) async fn save<T: Serialize + Clone + PartialEq>(
        &self,
        writer: &Writer,
        kept: &mut Kept<T>,
        value: &T,
    ) -> Result<(), StoreError> {
        if kept.value.as_ref() == Some(value) {
            return Ok(());
        }
        if kept.stale {
            self.clear(writer, kept.found.as_ref()).await?;
            (kept.found, kept.stale) = (None, false);
        }
        let mut map = self.map();
        store::encode(&mut map, value, &kept.unknown)?;
        kept.found = Some(store::write(writer, &self.api, map, kept.found.as_ref()).await?);
        kept.value = Some(value.clone());
        Ok(())
    }

    /// Writes entries for people to read; those that are not given are taken away.
    pub(crate) async fn show(
        &self,
        writer: &Writer,
        entries: std::collections::BTreeMap<String, String>,
    ) -> Result<(), StoreError> {
        let (found, stale) = self.find().await?;
        let found = match stale {
            true => {
                self.clear(writer, found.as_ref()).await?;
                None
            }
            false => found,
        };
        let mut map = self.map();
        map.data = Some(entries);
        writer.apply(&self.api, &self.name, &map, found.as_ref()).await?;
        Ok(())
    }

    /// The entries that people read, if there are some.
    pub(crate) async fn shown(
        &self,
    ) -> Result<std::collections::BTreeMap<String, String>, StoreError> {
        let (found, stale) = self.find().await?;
        Ok(found.filter(|_| !stale).and_then(|map| map.data).unwrap_or_default())
    }

    /// Writes something large in as many parts as it takes, and returns how many those are.
    pub(crate) async fn put<T: Serialize>(
        &self,
        writer: &Writer,
        key: &str,
        value: &T,
    ) -> Result<usize, StoreError> {
        let packed = store::pack(&serde_json::to_vec(value).map_err(StoreError::Encode)?)?;
        let parts: Vec<&[u8]> = packed.chunks(PART_BYTES_MAX).collect();
        for (number, part) in parts.iter().enumerate() {
            let document = self.part(number);
            let (found, stale) = document.find().await?;
            if stale {
                document.clear(writer, found.as_ref()).await?;
            }
            let mut map = document.map();
            let entries = [(PART_OF, key.to_owned()), (PARTS, parts.len().to_string())];
            map.data = Some(entries.map(|(name, value)| (name.to_owned(), value)).into());
            map.binary_data = Some([(store::PACKED.to_owned(), ByteString(part.to_vec()))].into());
            let before = found.as_ref().filter(|_| !stale);
            writer.apply(&document.api, &document.name, &map, before).await?;
        }
        Ok(parts.len())
    }

    /// Reads it; `None` if it, or a part of it, is not there.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        key: &str,
    ) -> Result<Option<T>, StoreError> {
        let (mut packed, mut number, mut count) = (Vec::new(), 0, 1);
        while number < count {
            let document = self.part(number);
            let (Some(map), false) = document.find().await? else { return Ok(None) };
            let entry = |name: &str| map.data.as_ref().and_then(|data| data.get(name));
            if entry(PART_OF).map(String::as_str) != Some(key) {
                return Ok(None);
            }
            count = entry(PARTS).and_then(|parts| parts.parse().ok()).unwrap_or(0);
            let part = map.binary_data.as_ref().and_then(|data| data.get(store::PACKED));
            let Some(part) = part else { return Ok(None) };
            packed.extend_from_slice(&part.0);
            number += 1;
        }
        let unpack = |source| StoreError::Unpack { name: self.name.clone(), source };
        let bytes = store::unpack(&packed).map_err(unpack)?;
        let unreadable = |source| StoreError::Unreadable { name: self.name.clone(), source };
        serde_json::from_slice(&bytes).map(Some).map_err(unreadable)
    }

    /// Deletes the parts.
    pub(crate) async fn drop_parts(&self, writer: &Writer, parts: usize) -> Result<(), StoreError> {
        for number in 0..parts {
            let document = self.part(number);
            let (found, _) = document.find().await?;
            document.clear(writer, found.as_ref()).await?;
        }
        Ok(())
    }

    async fn clear(&self, writer: &Writer, found: Option<&ConfigMap>) -> Result<(), StoreError> {
        let metadata = found.map(|found| &found.metadata);
        if let Some((metadata, uid)) = metadata.and_then(|one| Some((one, one.uid.as_deref()?))) {
            let version = metadata.resource_version.as_deref();
            writer.delete(&self.api, &self.name, (uid, version)).await?;
        }
        Ok(())
    }
}

/// What a list of ConfigMaps has of a request: how far it is.
pub(crate) fn request_in<'a>(
    maps: impl IntoIterator<Item = &'a ConfigMap>,
    kr: &KafkaRebalance,
) -> Result<Option<RequestRecord>, StoreError> {
    let name = format!("{}-gregor-rebalance", kr.name_any());
    let uid = kr.uid().unwrap_or_default();
    let found = maps.into_iter().find(|map| map.name_any() == name && owned_by(map, &uid));
    found.map(decode).transpose()
}

/// Whether a ConfigMap belongs to the resource with this uid.
pub(crate) fn owned_by(map: &ConfigMap, uid: &str) -> bool {
    map.owner_references().iter().any(|owner| owner.uid == uid)
}

fn labels(cluster: &str, name: &str) -> Labels {
    let all = [
        (CLUSTER_LABEL, cluster),
        (KIND_LABEL, KIND),
        (NAME_LABEL, name),
        (MANAGED_BY, MANAGER),
        (COMPONENT_LABEL, "kafka-rebalance"),
    ];
    // The names of resources may be longer than labels may.
    let fits = |value: &&str| value.len() <= 63;
    all.into_iter()
        .filter(|(_, value)| fits(value))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// What a ConfigMap of ours holds.
pub(crate) fn decode<T: DeserializeOwned>(map: &ConfigMap) -> Result<T, StoreError> {
    Ok(store::decode(map)?.0)
}

/// Whether partitions are being moved, by the ConfigMap with the moves of a cluster. `None` if it cannot be read.
#[must_use]
pub fn is_moving(map: &ConfigMap) -> Option<bool> {
    decode::<Moves>(map).ok().map(|moves| !moves.is_over())
}

/// The moves of a cluster, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct Executing {
    /// The request or the topics that they are for.
    pub by: String,
    /// The key of their job.
    pub key: String,
    /// How far they are.
    pub recorded: execution::Recorded,
}

/// The moves in progress, or the last ones, by the ConfigMap with the moves of a cluster. `None` if it cannot be read.
#[must_use]
pub fn executing(map: &ConfigMap) -> Option<Executing> {
    let moves = decode::<Moves>(map).ok()?;
    Some(Executing { by: moves.by.name.clone(), key: moves.key(), recorded: moves.recorded })
}

/// What moves are to do, by their key; `None` if that is not stored any more, or cannot be read.
pub async fn job(client: &Client, kafka: &api::Kafka, key: &str) -> Option<execution::Job> {
    Document::of_job(client, kafka, key).ok()?.get(key).await.ok()?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_whether_it_is_small_or_large() {
        for topics in [1, 20_000] {
            let mut record = RequestRecord { cluster: Some("c".to_owned()), ..Default::default() };
            let unknown = (0..topics).map(|n| format!("a topic with a long name {n}")).collect();
            record.proposal = Some(ProposalRecord {
                attempt: 3,
                failure: None,
                summary: serde_json::json!({ "dataToMoveMB": 12 }),
                broker_load: Value::Null,
                brokers: BTreeSet::new(),
                unknown,
            });
            let mut map = ConfigMap::default();
            store::encode(&mut map, &record, &Unknown::new()).unwrap();
            assert_eq!(map.binary_data.is_some(), topics > 1);
            assert_eq!(decode::<RequestRecord>(&map).unwrap(), record);
        }
        assert!(decode::<RequestRecord>(&ConfigMap::default()).is_err());
    }

    /// A request, as an earlier operator has written it.
    const REQUEST: &str = r#"{
      "formatVersion": "1.0",
      "request": {
        "phase": "NotReady", "attempt": 3, "generation": 2, "wish": "Refresh",
        "failure": { "Hindered": { "InvalidSpec": "goals" } },
        "failures": 1, "paused_in": "Rebalancing", "since_ms": 1700000000000
      },
      "cluster": "c",
      "proposal": {
        "attempt": 3, "failure": { "Final": "no" }, "summary": { "dataToMoveMB": 12 },
        "brokerLoad": {}, "brokers": [0, 4], "unknown": ["CPU"]
      },
      "session": {
        "attempt": 3, "proposal": "p", "execution": "x", "asked": true, "stopping": true,
        "failure": { "Passing": "Cruise Control answered with 503" }
      }
    }"#;

    /// Moves, as an earlier operator has written them.
    const MOVES: &str = r#"{
      "formatVersion": "1.0",
      "by": { "name": "r", "uid": "u", "attempt": 3 },
      "parts": 1,
      "brokers": [0, 4],
      "recorded": {
        "phase": "Restoring", "outcome": "Stopped", "since_ms": 7, "began_ms": 5,
        "in_flight": [{ "topic": "t", "partition": 2 }], "away": { "4": 6 }, "rate_bytes": 1000,
        "former": { "broker/4": { "leader": "9", "follower": null }, "topic/t": { "leader": null, "follower": "*" } },
        "measured": [6, 100]
      }
    }"#;

    fn stored<T: DeserializeOwned>(text: &str) -> T {
        let data = [("record.json".to_owned(), text.to_owned())].into();
        decode(&ConfigMap { data: Some(data), ..ConfigMap::default() }).unwrap()
    }

    #[test]
    fn a_request_that_an_earlier_operator_wrote_is_read() {
        use request::{Command, Failure, Hindrance, Phase};
        let hindrance = Hindrance::InvalidSpec("goals".to_owned());
        let expected = RequestRecord {
            request: request::Recorded {
                phase: Phase::NotReady,
                attempt: 3,
                generation: 2,
                command: Some(Command::Refresh),
                failure: Some(Failure::Hindered(hindrance)),
                failures: 1,
                paused_in: Some(Phase::Rebalancing),
                since_ms: 1_700_000_000_000,
            },
            cluster: Some("c".to_owned()),
            proposal: Some(ProposalRecord {
                attempt: 3,
                failure: Some(Failure::Final("no".to_owned())),
                summary: serde_json::json!({ "dataToMoveMB": 12 }),
                broker_load: serde_json::json!({}),
                brokers: [0, 4].into_iter().filter_map(NodeId::new).collect(),
                unknown: vec!["CPU".to_owned()],
            }),
            session: Some(Session {
                attempt: 3,
                proposal: Some("p".to_owned()),
                execution: Some("x".to_owned()),
                asked: true,
                stopping: true,
                failure: Some(Failure::Passing("Cruise Control answered with 503".to_owned())),
            }),
        };
        assert_eq!(stored::<RequestRecord>(REQUEST), expected);
        // What is missing was not there yet.
        let bare = stored::<RequestRecord>(r#"{ "cluster": "c", "session": { "asked": true } }"#);
        assert!(bare.session.unwrap().asked);
    }

    #[test]
    fn moves_that_an_earlier_operator_wrote_are_read() {
        use control::rebalance::execution::{Outcome, Phase};
        let found = stored::<Moves>(MOVES);
        assert_eq!(found.by, Claimant { name: "r".to_owned(), uid: "u".to_owned(), attempt: 3 });
        assert_eq!((found.parts, found.brokers.len()), (1, 2));
        let recorded = &found.recorded;
        assert_eq!((recorded.phase, recorded.outcome), (Phase::Restoring, Some(Outcome::Stopped)));
        assert_eq!((recorded.since_ms, recorded.began_ms), (7, 5));
        let in_flight = recorded.in_flight.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(in_flight, ["t-2"]);
        assert_eq!(recorded.away.values().collect::<Vec<_>>(), [&6]);
        assert_eq!((recorded.rate_bytes, recorded.measured), (Some(1_000), Some((6, 100))));
        let former = recorded.former.iter().map(|(subject, values)| {
            format!("{subject} {:?} {:?}", values.leader.as_deref(), values.follower.as_deref())
        });
        let expected = [r#"broker/4 Some("9") None"#, r#"topic/t None Some("*")"#];
        assert_eq!(former.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_plan_of_another_cluster_is_dropped() {
        let mut snapshot = request::Snapshot::default();
        for (cluster, keeps) in [("c", true), ("d", false)] {
            snapshot.resource.cluster = Some(cluster.to_owned());
            let mut record = stored::<RequestRecord>(REQUEST);
            let decision = request::decide(&snapshot, Some(&record.facts()));
            record.decided(&decision.record.unwrap());
            assert_eq!(record.cluster.as_deref(), Some(cluster));
            let found = (record.proposal.is_some(), record.session.is_some());
            assert_eq!(found, (keeps, keeps), "{cluster}");
        }
    }

    #[test]
    fn what_a_former_resource_of_the_same_name_left_is_not_ours() {
        let kr = |uid: &str| {
            let mut kr = KafkaRebalance::new("r", api::KafkaRebalanceSpec::default());
            kr.metadata.uid = Some(uid.to_owned());
            kr
        };
        let mut map = ConfigMap::default();
        map.metadata.name = Some("r-gregor-rebalance".to_owned());
        map.metadata.owner_references = Some(vec![kr("old").owner_ref(&()).unwrap()]);
        store::encode(&mut map, &RequestRecord::default(), &Unknown::new()).unwrap();
        assert!(request_in([&map], &kr("old")).unwrap().is_some());
        assert!(request_in([&map], &kr("new")).unwrap().is_none());
    }
}
