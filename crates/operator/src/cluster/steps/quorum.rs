//! Who votes: at most one change in a pass, after which the quorum is described anew.

use std::collections::{BTreeMap, BTreeSet};

use control::conditions::{Note, Reason};
use control::node::Roles;
use control::quorum::bootstrap::{self, Strangers};
use control::quorum::plan::{self, Controller, Decision, Listener, Removal};
use control::quorum::{QuorumView, plan::Step as Plan};
use control::scaling::leaving::Leaving;
use kafka_admin::{ConfigResource, Outcome, VoterListener};
use model::{DirectoryId, NodeId};

use super::kafka::view;
use super::workload::is_ready;
use crate::cluster::error::PassError;
use crate::cluster::pass::{Step, Work};
use crate::cluster::resources::Node;
use crate::cluster::steps::roll::roles_of;
use crate::metrics::KafkaEffect;
use crate::words::chain;

/// The name of the listener of controllers.
const CONTROLLER_LISTENER: &str = "CONTROLPLANE-9090";

pub(crate) async fn run(work: &mut Work) -> Result<Step, PassError> {
    if work.known.kafka.access.is_none() {
        return Ok(Step::Done);
    }
    let facts = facts(work).await?;
    work.known.quorum_settled = plan::unsettled(&facts).map(|unsettled| unsettled.is_empty());
    let Decision { step, warnings } = plan::decide(&facts);
    work.warnings.extend(warnings.iter().map(plan::Warning::note));
    if let Some(view) = &facts.quorum {
        let mark = view.mark();
        work.ctx.marks.change(&work.blueprint.names, |kept| kept.mark = mark);
        let voters = view.voters.iter().filter_map(|voter| Some((voter.id, voter.directory?)));
        let voters: BTreeMap<NodeId, DirectoryId> = voters.collect();
        work.record.voters = voters;
        work.save().await?;
    }
    let note = step.note();
    work.known.quorum_facts = Some(facts);
    let Some(note) = note else { return Ok(Step::Done) };
    if matches!(step, Plan::Remove { why: Removal::NotWished, .. }) {
        let strangers = strangers(work).await;
        if let Some(note) = strangers.note() {
            work.known.strangers = strangers.restart;
            return Ok(Step::Waiting(note));
        }
    }
    // What is known of the voters is old once one of them has changed: nobody is restarted by it.
    if matches!(step, Plan::Add { .. } | Plan::Remove { .. }) {
        work.known.quorum_settled = Some(false);
    }
    match step {
        Plan::Settled => Ok(Step::Done),
        Plan::Wait(_) => Ok(Step::Waiting(note)),
        Plan::Add { id, directory, listeners } => {
            add(work, (id, directory), &listeners, note).await
        }
        Plan::Remove { id, directory, .. } => remove(work, (id, directory), note).await,
        // The controllers stay as they are, and everything else goes on.
        Plan::Refuse(_) | Plan::StaticRefused { .. } => {
            work.known.look_again_soon();
            work.warnings.push(note);
            Ok(Step::Done)
        }
        Plan::QuorumLost(_) => Ok(Step::Hold(note)),
    }
}

async fn facts(work: &Work) -> Result<plan::Facts, PassError> {
    let quorum = work.known.kafka.quorum.as_ref().map(|quorum| view(work, quorum));
    let names = &work.blueprint.names;
    let wished = work.blueprint.controllers().filter(|node| {
        let wished = work.blueprint.wished.get(&node.id).is_some_and(|roles| roles.is_controller());
        wished && !work.record.leaving.get(&node.id).is_some_and(Leaving::is_stopped)
    });
    let wished = wished.map(|node| {
        let pod = work.blueprint.pod(node);
        let found = work.found.pods.get(&pod);
        let runs = found
            .is_some_and(|pod| is_ready(pod) && roles_of(pod).is_some_and(Roles::is_controller));
        let listener = Listener {
            name: CONTROLLER_LISTENER.to_owned(),
            host: names.host(&pod),
            port: api::names::CONTROLLER_PORT,
        };
        (node.id, Controller { runs: Some(runs), listeners: vec![listener] })
    });
    // Those that were not even started are told with the others.
    let refused = work.blueprint.refused.iter().map(|id| (*id, Controller::default()));
    let kept = work.ctx.marks.get(names);
    Ok(plan::Facts {
        mode: work.record.quorum.mode,
        wished: wished.chain(refused).collect(),
        disks: disks(work, quorum.as_ref()).await,
        earlier: kept.mark,
        recorded_voters: work.record.voters.clone(),
        failed_adds: kept.failed_adds,
        quorum,
    })
}

/// The nodes that would not find the quorum again without the voters that go.
async fn strangers(work: &Work) -> Strangers {
    let facts = work.known.quorum_facts.as_ref();
    let voters = facts.and_then(|facts| facts.quorum.as_ref()).map(|view| &view.voters);
    let stays = |id: NodeId| facts.is_some_and(|facts| facts.wished.contains_key(&id));
    let stay: BTreeSet<NodeId> =
        voters.into_iter().flatten().map(|voter| voter.id).filter(|id| stays(*id)).collect();
    let host = |node: &Node| work.blueprint.names.host(&work.blueprint.pod(node));
    let stay = work.blueprint.controllers().filter(|node| stay.contains(&node.id));
    let stay = stay.map(|node| format!("{}:{}", host(node), api::names::CONTROLLER_PORT)).collect();
    let mut running = BTreeMap::new();
    for node in &work.blueprint.nodes {
        let pod = work.found.pods.get(&work.blueprint.pod(node));
        if let Some(pod) = pod.filter(|pod| is_ready(pod)) {
            running.insert(node.id, servers(work, node, roles_of(pod)).await);
        }
    }
    bootstrap::strangers(&stay, &running)
}

/// The controllers that a node was started with, as it says.
async fn servers(work: &Work, node: &Node, started_as: Option<Roles>) -> Option<String> {
    let access = work.known.kafka.access.as_ref()?;
    let admin = match started_as.unwrap_or(node.roles) {
        Roles::Broker | Roles::Combined => access.brokers.as_ref()?,
        Roles::Controller => &access.controllers,
    };
    work.ctx.writer.metrics().kafka_call("describe configs", KafkaEffect::Read);
    let of = ConfigResource::Node(node.id);
    match admin.describe_configs(&of, Some(&[bootstrap::SERVERS])).await {
        Ok(mut found) => found.remove(bootstrap::SERVERS)?.value,
        Err(error) => {
            tracing::info!("whom node {} knows is not known: {}", node.id, chain(&error));
            None
        }
    }
}

/// The disk that each controller has now. One that votes and keeps up fetches with it; the others are
/// asked.
async fn disks(work: &Work, quorum: Option<&QuorumView>) -> BTreeMap<NodeId, DirectoryId> {
    let mut disks = BTreeMap::new();
    for node in work.blueprint.controllers() {
        let voter = quorum.and_then(|view| Some((view, view.voter(node.id)?)));
        let fetches = voter.filter(|(view, voter)| view.has_caught_up(voter));
        if let Some(directory) = fetches.and_then(|(_, voter)| voter.directory) {
            disks.insert(node.id, directory);
            continue;
        }
        let pod = work.blueprint.pod(node);
        let Some(client) = work.known.kafka.nodes.as_ref() else { continue };
        if !work.found.pods.contains_key(&pod) {
            continue;
        }
        match client.directory(&work.blueprint.names.host(&pod)).await {
            Ok(directory) => {
                disks.insert(node.id, directory);
            }
            Err(error) => tracing::debug!("the disk of {pod} is not known: {}", chain(&error)),
        }
    }
    disks
}

async fn add(
    work: &mut Work,
    (id, directory): (NodeId, DirectoryId),
    listeners: &[Listener],
    note: Note,
) -> Result<Step, PassError> {
    let Some(access) = work.known.kafka.access.clone() else { return Ok(Step::Done) };
    let names = work.blueprint.names.clone();
    if !work.ctx.marks.get(&names).may_add() {
        return Ok(Step::Waiting(note));
    }
    let cluster = work.known.kafka.cluster_id(&work.record);
    let listeners: Vec<_> = listeners
        .iter()
        .map(|one| VoterListener { name: one.name.clone(), host: one.host.clone(), port: one.port })
        .collect();
    let what = format!("add controller {id} with disk {directory} to the voters");
    let call = access.controllers.add_voter(cluster.as_ref(), id, directory, &listeners);
    let done = work.ctx.writer.kafka("add voter", &what, call, |error| error.outcome()).await;
    if let Err(error) = &done {
        // It may be done all the same; the next description tells. Nothing rests on it.
        tracing::info!("{}", chain(error));
    }
    work.ctx.marks.change(&names, |kept| kept.added(id, done.is_ok()));
    Ok(Step::Waiting(note))
}

async fn remove(
    work: &mut Work,
    (id, directory): (NodeId, DirectoryId),
    note: Note,
) -> Result<Step, PassError> {
    let Some(access) = work.known.kafka.access.clone() else { return Ok(Step::Done) };
    work.record.quorum = work.record.quorum.before_removal(id);
    work.save().await?;
    let cluster = work.known.kafka.cluster_id(&work.record);
    let what = format!("remove controller {id} with disk {directory} from the voters");
    let call = access.controllers.remove_voter(cluster.as_ref(), id, directory);
    let done = work.ctx.writer.kafka("remove voter", &what, call, |error| error.outcome()).await;
    Ok(match done {
        Ok(()) => Step::Waiting(note),
        Err(error) => {
            let is_known = matches!(
                &error,
                crate::write::KafkaWriteError::Kafka { source, .. }
                    if source.outcome() == Outcome::NotDone
            );
            tracing::info!("{}", chain(&error));
            // Nobody is stopped, and nothing else begun, who may still vote.
            match is_known {
                true => Step::Hold(Note::new(Reason::QuorumChangeFailed, chain(&error))),
                false => Step::Stop(note),
            }
        }
    })
}
