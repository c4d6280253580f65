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
    let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0.as_millisecond());
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
        created_ms: created.and_then(|ms| u64::try_from(ms).ok()).unwrap_or_default(),
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

fn meaning(state: &BrokerState) -> Recovery {
    use readiness::BrokerState as Kafka;
    let number = i32::try_from(state.number).unwrap_or(i32::MAX);
    match Kafka::from_number(number) {
        Kafka::Recovery => Recovery::Yes {
            logs: state.remaining_logs_to_recover.unwrap_or_default(),
            segments: state.remaining_segments_to_recover.unwrap_or_default(),
        },
        Kafka::NotRunning | Kafka::Starting => Recovery::Starting,
        Kafka::Running
        | Kafka::PendingControlledShutdown
        | Kafka::ShuttingDown
        | Kafka::Unknown(_) => Recovery::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_broker_says_is_told_apart() {
        let left = Recovery::Yes { logs: 7, segments: 9 };
        let rows = [
            (0, Recovery::Starting),
            (1, Recovery::Starting),
            (2, left),
            (3, Recovery::No),
            // It may still lead.
            (6, Recovery::No),
            (7, Recovery::No),
            (127, Recovery::No),
            (-1, Recovery::No),
            (i64::MAX, Recovery::No),
        ];
        for (number, expected) in rows {
            let state = BrokerState {
                number,
                remaining_logs_to_recover: Some(7),
                remaining_segments_to_recover: Some(9),
            };
            assert_eq!(meaning(&state), expected, "{number}");
        }
    }
}
