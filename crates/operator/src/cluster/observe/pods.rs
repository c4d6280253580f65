//! Pods: what they run, what they were started with, and what they should be started with.

use std::collections::BTreeMap;

use api::names::{BROKER_LABEL, CONTROLLER_LABEL, POOL_LABEL, node_of_pod};
use control::annotations::Annotation;
use control::cluster::fact::{Fact, Why};
use control::cluster::snapshot::{NodeView, PodView, Revision};
use control::node::Roles;
use control::node::readiness;
use control::rolling::facts::Recovery;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use objects::areas::configuration::{DYNAMIC, KAFKA_VERSION, QUORUM};
use objects::pods::{REVISION, SETTINGS, is_ready};

use super::{RESTART, is_annotated};
use crate::cluster::keys::SERVER_CERT;
use crate::cluster::nodes::{AskError, BrokerState, NodeClient};
use crate::cluster::pass::Work;
use crate::pki::names;
use crate::time::now_ms;
use crate::words::chain;

/// The container of Kafka in every pod.
const KAFKA_CONTAINER: &str = "kafka";

/// All pods, by name.
pub(super) fn views(work: &Work) -> BTreeMap<String, PodView> {
    work.found.pods.iter().map(|(name, pod)| (name.clone(), view(name, pod))).collect()
}

fn view(name: &str, pod: &Pod) -> PodView {
    let millis = |time: Option<&Time>| u64::try_from(time?.0.as_millisecond()).ok();
    let annotation = |name: &str| pod.annotations().get(name).cloned();
    PodView {
        node: node_of_pod(name),
        pool: pod.labels().get(POOL_LABEL).cloned(),
        uid: pod.uid().unwrap_or_default(),
        ready: is_ready(pod),
        roles: roles(pod),
        kafka_version: annotation(KAFKA_VERSION).and_then(|text| text.parse().ok()),
        dynamic_quorum: annotation(QUORUM).is_some_and(|mode| mode == DYNAMIC),
        deleting: pod.metadata.deletion_timestamp.is_some(),
        deletion_ms: millis(pod.metadata.deletion_timestamp.as_ref()),
        created_ms: millis(pod.metadata.creation_timestamp.as_ref()).unwrap_or_default(),
        waiting: waiting(pod),
        unschedulable: is_unschedulable(pod),
        revision: revision(annotation),
        restart: is_annotated(pod, RESTART),
        disk_replaced: is_annotated(pod, Annotation::DiskReplaced.name()),
        exit_code: exit_code(pod),
    }
}

/// The roles of a pod, from its labels.
fn roles(pod: &Pod) -> Option<Roles> {
    let is = |label: &str| pod.labels().get(label).map(|value| value == "true");
    match (is(BROKER_LABEL)?, is(CONTROLLER_LABEL)?) {
        (true, true) => Some(Roles::Combined),
        (true, false) => Some(Roles::Broker),
        (false, true) => Some(Roles::Controller),
        (false, false) => None,
    }
}

/// What the first container that waits waits for.
fn waiting(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let inits = status.init_container_statuses.iter().flatten();
    let mut all = inits.chain(status.container_statuses.iter().flatten());
    all.find_map(|container| container.state.as_ref()?.waiting.as_ref()?.reason.clone())
}

/// The exit code with which the container of Kafka ended last, unless it runs.
fn exit_code(pod: &Pod) -> Option<i32> {
    let containers = pod.status.as_ref()?.container_statuses.as_ref()?;
    let kafka = containers.iter().find(|container| container.name == KAFKA_CONTAINER)?;
    let state = kafka.state.as_ref();
    if state.is_some_and(|state| state.running.is_some()) {
        return None;
    }
    let ended = state.and_then(|state| state.terminated.as_ref());
    let ended = ended.or_else(|| kafka.last_state.as_ref()?.terminated.as_ref());
    ended.map(|ended| ended.exit_code)
}

fn is_unschedulable(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    })
}

fn revision(annotation: impl Fn(&str) -> Option<String>) -> Revision {
    Revision {
        pod: annotation(REVISION),
        settings: annotation(SETTINGS),
        cluster_ca: annotation(names::CLUSTER_CERT_GENERATION),
        cluster_ca_key: annotation(names::CLUSTER_KEY_GENERATION),
        clients_ca: annotation(names::CLIENTS_CERT_GENERATION),
        certificate: annotation(SERVER_CERT),
    }
}

/// The revision that each pod should have, as its pod set says once it is applied, by the name of the pod.
pub(super) fn desired_revisions(work: &Work) -> BTreeMap<String, Revision> {
    // Sets of pools that are gone are not built any more.
    let built = work.objects.pod_sets.iter();
    let pods = work.found.pod_sets.values().chain(built).flat_map(|set| &set.spec.pods);
    let revision = |pod: &api::Verbatim| {
        let metadata = pod.0.get("metadata")?;
        let annotations = metadata.get("annotations")?.as_object()?;
        let annotation = |name: &str| annotations.get(name)?.as_str().map(str::to_owned);
        Some((metadata.get("name")?.as_str()?.to_owned(), revision(annotation)))
    };
    pods.filter_map(revision).collect()
}

/// What a node that is not ready says of itself.
pub(super) async fn recovery(work: &Work, node: &NodeView) -> Fact<Recovery> {
    let Some(client) = &work.known.kafka.nodes else { return Fact::Unknown(Why::NobodyToAsk) };
    let at_ms = now_ms();
    match ask(client, node).await {
        Ok(recovery) => Fact::read(recovery, at_ms),
        Err(error) => {
            tracing::debug!("the state of {} is unknown: {}", node.pod, chain(&error));
            Fact::Unknown(Why::NoAnswer)
        }
    }
}

/// A JVM that hangs is known to its node program, which does not have to ask it.
async fn ask(client: &NodeClient, node: &NodeView) -> Result<Recovery, AskError> {
    if client.hangs(&node.host).await? {
        return Ok(Recovery::Hung);
    }
    if !node.current.is_some_and(Roles::is_broker) {
        return Ok(Recovery::No);
    }
    Ok(meaning(&client.broker_state(&node.host).await?))
}

/// What the state of a broker means. `RECOVERY` says that the active controller has acknowledged the broker as caught up, which
/// may be before or after the logs are loaded. So what remains shows whether it recovers them, not the name of the state.
fn meaning(state: &BrokerState) -> Recovery {
    use readiness::BrokerState as Kafka;
    let number = i32::try_from(state.number).unwrap_or(i32::MAX);
    let (logs, segments) = (state.remaining_logs_to_recover, state.remaining_segments_to_recover);
    match Kafka::from_number(number) {
        Kafka::NotRunning | Kafka::Starting | Kafka::Recovery => match (logs, segments) {
            (Some(0), Some(0)) => Recovery::Starting,
            (None | Some(0), None | Some(0)) => Recovery::Unknown,
            (logs, segments) => Recovery::Yes {
                logs: logs.unwrap_or_default(),
                segments: segments.unwrap_or_default(),
            },
        },
        Kafka::Running | Kafka::PendingControlledShutdown | Kafka::ShuttingDown => Recovery::No,
        Kafka::Unknown(_) => Recovery::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::nodes::tests::hostile;
    use crate::hostile::Manner;

    #[tokio::test]
    async fn a_hung_jvm_is_known_from_its_node_whatever_its_role() {
        let unwell = "503 Service Unavailable";
        for roles in [Roles::Broker, Roles::Controller, Roles::Combined] {
            let node = NodeView {
                pool: "broker".to_owned(),
                pod: "c-broker-0".to_owned(),
                host: "c-broker-0.c-kafka-brokers.ns.svc".to_owned(),
                recorded: Some(roles),
                desired: Some(roles),
                current: Some(roles),
                revision: None,
                settings: None,
            };
            let (client, _peer) = hostile(Manner::status(unwell)).await;
            assert_eq!(ask(&client, &node).await.ok(), Some(Recovery::Hung), "{roles:?}");
            // The JVM makes progress: a controller has no log directories to recover, and a broker is asked.
            let (client, _peer) = hostile(Manner::status("200 OK")).await;
            let expected = (roles == Roles::Controller).then_some(Recovery::No);
            assert_eq!(ask(&client, &node).await.ok(), expected, "{roles:?}");
        }
    }

    #[test]
    fn what_a_broker_says_is_told_apart() {
        let yes = |logs: u64, segments: u64| Recovery::Yes { logs, segments };
        let meaning = |number: i64, logs: Option<u64>, segments: Option<u64>| {
            meaning(&BrokerState {
                number,
                remaining_logs_to_recover: logs,
                remaining_segments_to_recover: segments,
            })
        };
        for number in [0, 1, 2] {
            let rows = [
                (Some(7), Some(9), yes(7, 9)),
                (Some(7), Some(0), yes(7, 0)),
                (Some(0), Some(9), yes(0, 9)),
                (Some(7), None, yes(7, 0)),
                (Some(0), Some(0), Recovery::Starting),
                // Strimzi's agent reports what remains in one state only.
                (Some(0), None, Recovery::Unknown),
                (None, None, Recovery::Unknown),
            ];
            for (logs, segments, expected) in rows {
                assert_eq!(meaning(number, logs, segments), expected, "{number} {logs:?}");
            }
        }
        // One that shuts down may still lead. A state of a later Kafka may be anything.
        let unknown = [127, -1, 4, i64::MAX].map(|number| (number, Recovery::Unknown));
        for (number, expected) in
            [3, 6, 7].map(|number| (number, Recovery::No)).iter().chain(&unknown)
        {
            assert_eq!(meaning(*number, Some(0), Some(0)), *expected, "{number}");
        }
    }
}
