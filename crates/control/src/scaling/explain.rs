//! What an edit would do, in order: nodes started and stopped, voters added and removed, what blocks, what is
//! refused.
//!
//! 1. Nothing is guessed that the operator decides: the voters are those that the planner itself gives, step
//!    by step, in a world in which new controllers come up and everything else stays as it is.
//! 2. What would not be carried out as it was asked for is refused, with the reason, even if the rest would
//!    be.
//! 3. What is not known cannot be promised.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use model::{DirectoryId, NodeId};

use super::leaving::Member;
use crate::conditions::Note;
use crate::node::Roles;
use crate::quorum::QuorumView;
use crate::quorum::Replica;
use crate::quorum::format::QuorumMode;
use crate::quorum::plan::{self, Controller, Listener, Removal, Step};
use crate::words::{count, list};

/// What is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The nodes as they are recorded.
    pub now: BTreeMap<NodeId, Member>,
    /// The nodes as the edit asks for them.
    pub wished: BTreeMap<NodeId, Member>,
    /// What is wrong with the edit as a whole; nothing of it is carried out then.
    pub invalid: Vec<Note>,
    /// How the controllers know each other.
    pub mode: QuorumMode,
    /// The quorum. `None` if it could not be described.
    pub quorum: Option<QuorumView>,
    /// The directory id that the metadata disk of each controller has.
    pub disks: BTreeMap<NodeId, DirectoryId>,
    /// To how many partitions each broker is assigned; one that is missing has none. `None` if it could
    /// not be read.
    pub partitions: Option<BTreeMap<NodeId, usize>>,
    /// Whether the user gave up the check for partitions.
    pub skip_check: bool,
    /// Whether brokers that are to go are drained by a rebalance.
    pub drains: bool,
    /// Whether brokers that have come are filled by a rebalance.
    pub fills: bool,
}

/// What an edit would do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// In this order.
    pub lines: Vec<Line>,
}

/// One thing that would happen, or would not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// The edit is not valid.
    Invalid(Note),
    /// These are started at once.
    Start {
        /// Their pool.
        pool: String,
        /// Which.
        nodes: BTreeSet<NodeId>,
    },
    /// This one is restarted with other roles.
    Roles {
        /// Which.
        node: NodeId,
        /// What it is.
        from: Roles,
        /// What it becomes.
        to: Roles,
    },
    /// A voter more.
    AddVoter(NodeId),
    /// A voter less.
    RemoveVoter {
        /// Which.
        node: NodeId,
        /// Why.
        why: Removal,
    },
    /// A rebalance moves the partitions of this broker to others.
    Drain {
        /// Which.
        node: NodeId,
        /// How many partitions.
        partitions: usize,
    },
    /// This one is stopped.
    Stop(NodeId),
    /// Kafka forgets this broker.
    Unregister(NodeId),
    /// A rebalance moves partitions to these brokers.
    Fill(BTreeSet<NodeId>),
    /// This would not be carried out, or not as far as one can tell.
    Refused {
        /// The nodes that stay, or do not come.
        nodes: BTreeSet<NodeId>,
        /// Why.
        why: String,
    },
}

/// What comes of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing changes.
    Nothing,
    /// Everything is carried out.
    Changes,
    /// Something is not.
    Refused,
}

impl Outcome {
    /// For programs that run the command.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::Changes => 2,
            Self::Refused => 3,
        }
    }
}

impl Plan {
    /// What comes of it.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let refused = |line: &Line| matches!(line, Line::Refused { .. } | Line::Invalid(_));
        match self.lines.is_empty() {
            true => Outcome::Nothing,
            false if self.lines.iter().any(refused) => Outcome::Refused,
            false => Outcome::Changes,
        }
    }
}

/// Says what an edit would do.
#[must_use]
pub fn explain(facts: &Facts) -> Plan {
    if !facts.invalid.is_empty() {
        return Plan { lines: facts.invalid.iter().cloned().map(Line::Invalid).collect() };
    }
    let voters = Voters::foresee(facts);
    let mut lines = voters.dead.clone();
    lines.extend(starts(facts, &voters));
    lines.extend(gains(facts, &voters));
    lines.extend(voters.changes.iter().cloned());
    lines.extend(voters.refused.iter().cloned());
    lines.extend(leaves(facts, &voters));
    let added = added_brokers(facts, &voters);
    if facts.fills && !added.is_empty() {
        lines.push(Line::Fill(added));
    }
    Plan { lines }
}

/// What becomes of the voters.
#[derive(Debug, Default)]
struct Voters {
    /// Removals of dead ones, which come before all else.
    dead: Vec<Line>,
    /// The changes after that.
    changes: Vec<Line>,
    /// What is not carried out.
    refused: Vec<Line>,
    /// Those that still vote in the end though they are not wished for, or may.
    keep: BTreeSet<NodeId>,
    /// Those that are not started.
    not_started: BTreeSet<NodeId>,
}

impl Voters {
    fn foresee(facts: &Facts) -> Self {
        let mut voters = Self::default();
        let wished = controllers(&facts.wished);
        if wished == controllers(&facts.now) && facts.quorum.is_none() {
            // What cannot be seen is not asked for either.
            return voters;
        }
        let mut world = foreseen_world(facts, &wished);
        // Each step brings one voter in or out.
        let steps_max = 2 * (facts.now.len() + facts.wished.len()) + 1;
        for _ in 0..steps_max {
            let step = plan::decide(&world).step;
            let Some(line) = apply(&mut world, &step) else {
                voters.end(&step, &world, &wished, facts);
                return voters;
            };
            let is_dead = matches!(line, Line::RemoveVoter { why: Removal::Dead, .. });
            if is_dead && voters.changes.is_empty() {
                voters.dead.push(line);
            } else {
                voters.changes.push(line);
            }
        }
        voters
    }

    /// What the last step says of those that are still where they were.
    fn end(&mut self, step: &Step, world: &plan::Facts, wished: &BTreeSet<NodeId>, facts: &Facts) {
        let leaving: BTreeSet<NodeId> = &controllers(&facts.now) - wished;
        let voting: BTreeSet<NodeId> = match &world.quorum {
            Some(view) => view.voters.iter().map(|voter| voter.id).collect(),
            None => controllers(&facts.now),
        };
        self.keep = leaving.iter().copied().filter(|id| voting.contains(id)).collect();
        let nodes = match step {
            Step::Settled | Step::Add { .. } | Step::Remove { .. } => return,
            Step::StaticRefused { add, remove } => {
                self.not_started.clone_from(add);
                add | remove
            }
            Step::Refuse(_) | Step::Wait(_) | Step::QuorumLost(_) => {
                let joining = wished.iter().filter(|id| !voting.contains(id)).copied();
                self.keep.iter().copied().chain(joining).collect()
            }
        };
        self.refused.push(Line::Refused { nodes, why: step.to_string() });
    }
}

/// The planner's facts when all that is wished for has come up. New disks get ids of our own making: only
/// that they are there matters.
fn foreseen_world(facts: &Facts, wished: &BTreeSet<NodeId>) -> plan::Facts {
    let listener = Listener { name: String::new(), host: String::new(), port: 0 };
    let mut world = plan::Facts {
        mode: facts.mode,
        wished: BTreeMap::new(),
        disks: facts.disks.clone(),
        quorum: facts.quorum.clone(),
        earlier: None,
        recorded_voters: BTreeMap::new(),
        failed_adds: BTreeMap::new(),
    };
    for id in wished {
        let controller = Controller { runs: Some(true), listeners: vec![listener.clone()] };
        world.wished.insert(*id, controller);
        let Some(view) = &mut world.quorum else { continue };
        let former = view.voter(*id).map(|voter| voter.directory);
        let disk = world.disks.get(id).copied();
        let stays = former.is_some_and(|former| disk.is_none() || former == disk);
        if stays || facts.mode == QuorumMode::Static {
            continue;
        }
        let Some(disk) = disk.or_else(|| new_disk(*id)) else { continue };
        world.disks.insert(*id, disk);
        let level = view.leader_replica().cloned();
        let level = level.map(|leader| Replica { id: *id, directory: Some(disk), ..leader });
        view.observers.retain(|observer| observer.id != *id);
        view.observers.extend(level);
    }
    world
}

fn new_disk(id: NodeId) -> Option<DirectoryId> {
    let mut bytes = [0xff; 16];
    bytes[..4].copy_from_slice(&id.get().to_be_bytes());
    DirectoryId::from_bytes(bytes)
}

/// Does to the foreseen world what the step says; `None` if the step is no change.
fn apply(world: &mut plan::Facts, step: &Step) -> Option<Line> {
    let view = world.quorum.as_mut()?;
    match step {
        Step::Add { id, directory, .. } => {
            let at = view
                .observers
                .iter()
                .position(|one| one.id == *id && one.directory == Some(*directory))?;
            let joined = view.observers.remove(at);
            view.voters.push(joined);
            Some(Line::AddVoter(*id))
        }
        Step::Remove { id, why, .. } => {
            let at = view.voters.iter().position(|voter| voter.id == *id)?;
            view.voters.remove(at);
            if view.leader == *id {
                view.leader = next_leader(view)?;
            }
            Some(Line::RemoveVoter { node: *id, why: *why })
        }
        Step::Wait(_)
        | Step::Settled
        | Step::Refuse(_)
        | Step::QuorumLost(_)
        | Step::StaticRefused { .. } => None,
    }
}

/// The one that is furthest.
fn next_leader(view: &QuorumView) -> Option<NodeId> {
    let furthest = view.voters.iter().max_by_key(|voter| (voter.last_caught_up_ms, voter.log_end));
    furthest.map(|voter| voter.id)
}

fn controllers(nodes: &BTreeMap<NodeId, Member>) -> BTreeSet<NodeId> {
    nodes.iter().filter(|(_, one)| one.roles.is_controller()).map(|(id, _)| *id).collect()
}

fn starts(facts: &Facts, voters: &Voters) -> Vec<Line> {
    let mut pools: BTreeMap<&str, BTreeSet<NodeId>> = BTreeMap::new();
    let new = facts.wished.iter().filter(|(id, _)| !facts.now.contains_key(id));
    for (id, one) in new.filter(|(id, _)| !voters.not_started.contains(id)) {
        pools.entry(&one.pool).or_default().insert(*id);
    }
    pools.into_iter().map(|(pool, nodes)| Line::Start { pool: pool.to_owned(), nodes }).collect()
}

/// Roles that nodes get. Roles that they lose come when nothing needs them any more.
fn gains(facts: &Facts, voters: &Voters) -> Vec<Line> {
    let gain = |(id, wished): (&NodeId, &Member)| {
        let from = facts.now.get(id)?.roles;
        let to = both(from, wished.roles);
        let stays = to == from || voters.not_started.contains(id);
        (!stays).then_some(Line::Roles { node: *id, from, to })
    };
    facts.wished.iter().filter_map(gain).collect()
}

const fn both(one: Roles, other: Roles) -> Roles {
    match (one, other) {
        (Roles::Broker, Roles::Broker) => Roles::Broker,
        (Roles::Controller, Roles::Controller) => Roles::Controller,
        (Roles::Combined, _)
        | (_, Roles::Combined)
        | (Roles::Broker, Roles::Controller)
        | (Roles::Controller, Roles::Broker) => Roles::Combined,
    }
}

/// What becomes of nodes that are to go, or to lose a role.
fn leaves(facts: &Facts, voters: &Voters) -> Vec<Line> {
    let mut lines = Vec::new();
    for (id, now) in &facts.now {
        let wished = facts.wished.get(id).map(|one| one.roles);
        let loses_broker = now.roles.is_broker() && !wished.is_some_and(Roles::is_broker);
        let loses_controller =
            now.roles.is_controller() && !wished.is_some_and(Roles::is_controller);
        if !loses_broker && !loses_controller {
            continue;
        }
        if loses_broker && !drained(facts, *id, &mut lines) {
            continue;
        }
        // The voters say why it stays.
        if loses_controller && voters.keep.contains(id) {
            continue;
        }
        lines.push(match wished {
            None => Line::Stop(*id),
            Some(to) => Line::Roles { node: *id, from: both(now.roles, to), to },
        });
        if loses_broker {
            lines.push(Line::Unregister(*id));
        }
    }
    lines
}

/// Whether a broker is, or will be, without partitions.
fn drained(facts: &Facts, id: NodeId, lines: &mut Vec<Line>) -> bool {
    let refused = |why: String| Line::Refused { nodes: [id].into(), why };
    let others = facts.wished.values().any(|one| one.roles.is_broker());
    if !others {
        lines.push(refused("it would be the last broker".to_owned()));
        return false;
    }
    if facts.skip_check {
        return true;
    }
    let Some(partitions) = &facts.partitions else {
        lines.push(refused("whether it still has partitions could not be read".to_owned()));
        return false;
    };
    match partitions.get(&id).copied().unwrap_or(0) {
        0 => true,
        partitions if facts.drains => {
            lines.push(Line::Drain { node: id, partitions });
            true
        }
        partitions => {
            let number = count(partitions, "partition");
            lines.push(refused(format!(
                "it still has {number}, and no rebalance is set up to move them to other brokers \
                 (spec.cruiseControl.autoRebalance, mode remove-brokers)"
            )));
            false
        }
    }
}

fn added_brokers(facts: &Facts, voters: &Voters) -> BTreeSet<NodeId> {
    let roles = |nodes: &BTreeMap<NodeId, Member>| -> BTreeMap<NodeId, Roles> {
        nodes.iter().map(|(id, one)| (*id, one.roles)).collect()
    };
    let up = super::up::Facts {
        wished: roles(&facts.wished),
        recorded: Some(roles(&facts.now)),
        refused: voters.not_started.clone(),
    };
    super::up::decide(&up).added_brokers
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(note) => write!(f, "refused: {} ({})", note.message, note.reason),
            Self::Start { pool, nodes } => write!(f, "start {} of {pool}", named(nodes)),
            Self::Roles { node, from, to } => write!(f, "restart node {node} as {to} (was {from})"),
            Self::AddVoter(id) => write!(f, "add controller {id} to the voters"),
            Self::RemoveVoter { node, why: Removal::Dead } => {
                write!(f, "remove controller {node}, which is gone or far behind, from the voters")
            }
            Self::RemoveVoter { node, why: Removal::DiskReplaced } => {
                write!(f, "remove the former self of controller {node} from the voters")
            }
            Self::RemoveVoter { node, why: Removal::NotWished } => {
                write!(f, "remove controller {node} from the voters")
            }
            Self::Drain { node, partitions } => {
                write!(f, "move {} from broker {node} to others", count(*partitions, "partition"))
            }
            Self::Stop(node) => write!(f, "stop node {node}"),
            Self::Unregister(node) => write!(f, "unregister broker {node}"),
            Self::Fill(brokers) if brokers.len() == 1 => {
                write!(f, "move partitions to the new broker {}", list(brokers))
            }
            Self::Fill(brokers) => {
                write!(f, "move partitions to the new brokers {}", list(brokers))
            }
            Self::Refused { nodes, why } => write!(f, "refused for {}: {why}", named(nodes)),
        }
    }
}

fn named(nodes: &BTreeSet<NodeId>) -> String {
    match nodes.len() {
        1 => format!("node {}", list(nodes)),
        _ => format!("nodes {}", list(nodes)),
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lines.is_empty() {
            return f.write_str("nothing would change\n");
        }
        for (index, line) in self.lines.iter().enumerate() {
            writeln!(f, "{:>3}. {line}", index + 1)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
