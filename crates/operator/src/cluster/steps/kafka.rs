//! Asks Kafka how it is.

use control::cluster::begin::{Asking, Nodes, asking};
use control::cluster::witness::Candidate;
use control::quorum::{QuorumView, Replica, mode};
use kafka_admin::{Cluster, Quorum};
use model::NodeId;
use objects::pods::is_ready;

use crate::cluster::admins::Keys;
use crate::cluster::error::PassError;
use crate::cluster::facts::KafkaFacts;
use crate::cluster::keys::Authorities;
use crate::cluster::nodes::NodeClient;
use crate::cluster::pass::Work;
use crate::cluster::{machines, witnesses};
use crate::metrics::KafkaEffect;
use crate::time::now_ms;
use crate::words::chain;

/// Reads what Kafka and its nodes say, if there are nodes and keys to talk to them with.
pub(crate) async fn read(work: &mut Work) -> Result<(), PassError> {
    // Nodes are asked also when none of them is ready: one may recover its logs for hours.
    if let Some(authorities) = &work.known.authorities {
        let nodes = NodeClient::new(&keys(authorities));
        let nodes = nodes.map_err(|error| PassError::Certificates(Box::new(error)))?;
        work.known.kafka.nodes = Some(nodes.with_names(work.ctx.admins.names()));
    }
    let any_ready = work
        .blueprint
        .nodes
        .iter()
        .any(|node| work.found.pods.get(&work.blueprint.pod(node)).is_some_and(is_ready));
    let controller_runs = any_controller_runs(work);
    match asking(Nodes { any_ready, controller_runs, was_ready: work.record.was_ready }) {
        Asking::No => {}
        Asking::Yes => ask(work).await?,
        Asking::Hoping => {
            ask(work).await?;
            forget_silence(&mut work.known.kafka);
        }
    }
    work.known.machines = machines::read(work).await?;
    Ok(())
}

/// Whether the pod of a controller runs.
fn any_controller_runs(work: &Work) -> bool {
    work.blueprint.controllers().any(|node| {
        let pod = work.found.pods.get(&work.blueprint.pod(node));
        let phase = pod.and_then(|pod| pod.status.as_ref()?.phase.as_deref());
        phase == Some("Running")
    })
}

/// Counts no answer as not having asked.
fn forget_silence(facts: &mut KafkaFacts) {
    if facts.quorum.is_none() {
        (facts.asked_ms, facts.access) = (None, None);
        (facts.features, facts.brokers) = (None, None);
    }
}

fn keys(authorities: &Authorities) -> Keys<'_> {
    Keys {
        authorities: authorities.trusted.as_bytes(),
        certificate: &authorities.operator_certificate,
        key: &authorities.operator_key,
    }
}

/// Reads everything that can be had.
pub(crate) async fn ask(work: &mut Work) -> Result<(), PassError> {
    let Some(authorities) = &work.known.authorities else { return Ok(()) };
    let names = &work.blueprint.names;
    let hosts = |nodes: Vec<&objects::Node>| -> Vec<String> {
        nodes.into_iter().map(|node| names.host(&work.blueprint.pod(node))).collect()
    };
    let brokers = hosts(work.blueprint.brokers().collect());
    let controllers = hosts(work.blueprint.controllers().collect());
    let access = work.ctx.admins.get(names, (&brokers, &controllers), &keys(authorities))?;
    let facts = &mut work.known.kafka;
    facts.asked_ms = Some(now_ms());
    (facts.quorum, facts.features, facts.brokers) = (None, None, None);
    let count = |call: &str| work.ctx.writer.metrics().kafka_call(call, KafkaEffect::Read);
    count("describe quorum");
    count("describe features");
    // At once: where no answer, each takes as long as it may.
    let (quorum, features) = tokio::join!(
        access.controllers.describe_quorum(),
        access.controllers.describe_features(None),
    );
    facts.quorum = answered("controllers", quorum);
    facts.features = answered("controllers", features);
    facts.access = Some(access);
    work.known.kafka.brokers = registered(work).await;
    ask_leader_again(work).await;
    Ok(())
}

/// The registered brokers, from one that keeps up with the controllers: the metadata of others is stale.
async fn registered(work: &Work) -> Option<(NodeId, Cluster)> {
    let facts = &work.known.kafka;
    let admin = facts.access.as_ref()?.brokers.as_ref()?;
    let candidates = work.blueprint.brokers().filter_map(|node| {
        let pod = work.found.pods.get(&work.blueprint.pod(node))?;
        Some(Candidate { id: node.id, ready: is_ready(pod), fenced: false })
    });
    let witnesses = view(work, facts.quorum.as_ref()?).witnesses(candidates);
    let answers = witnesses::ask(&witnesses, 1, |broker| async move {
        work.ctx.writer.metrics().kafka_call("describe cluster", KafkaEffect::Read);
        Some((broker, answered("brokers", admin.at(broker).describe_cluster().await)?))
    });
    answers.await.into_iter().next()
}

fn answered<T, E: std::error::Error + 'static>(who: &str, answer: Result<T, E>) -> Option<T> {
    answer.map_err(|error| tracing::debug!("the {who} do not answer: {}", chain(&error))).ok()
}

/// Asks the leader for the features where what another controller said is doubtful.
async fn ask_leader_again(work: &mut Work) {
    let facts = &mut work.known.kafka;
    let is_doubtful = mode::is_doubtful(work.record.quorum.mode, facts.kraft_version());
    let (true, Some(access), Some(quorum)) = (is_doubtful, &facts.access, &facts.quorum) else {
        return;
    };
    work.ctx.writer.metrics().kafka_call("describe features", KafkaEffect::Read);
    match access.controllers.describe_features(Some(quorum.leader)).await {
        Ok(features) => facts.features = Some(features),
        Err(error) => {
            tracing::debug!("cannot read the features from the leader: {}", chain(&error));
            facts.features = None;
        }
    }
}

/// The quorum as decisions want it.
pub(crate) fn view(work: &Work, quorum: &Quorum) -> QuorumView {
    let replica = |replica: &kafka_admin::QuorumReplica| Replica {
        id: replica.id,
        directory: replica.directory,
        log_end: replica.log_end,
        last_fetch_ms: replica.last_fetch_ms,
        last_caught_up_ms: replica.last_caught_up_ms,
    };
    QuorumView {
        leader: quorum.leader,
        epoch: quorum.leader_epoch,
        high_watermark: quorum.high_watermark,
        voters: quorum.voters.iter().map(replica).collect(),
        observers: quorum.observers.iter().map(replica).collect(),
        fetch_timeout_ms: work.blueprint.spec.fetch_timeout_ms(),
    }
}
