//! What an edit would do, in order: nodes started and stopped, voters added and removed, restarts, disks, what
//! blocks, what is refused.
//!
//! 1. Nothing is guessed that the operator decides: the voters are those that the planner itself gives, step
//!    by step, in a world in which new controllers come up and everything else stays as it is.
//! 2. What would not be carried out as it was asked for is refused, with the reason, even if the rest would
//!    be.
//! 3. What is not known cannot be promised.

use std::collections::{BTreeMap, BTreeSet};

use model::{DirectoryId, NodeId};

use super::leaving::Member;
use crate::conditions::Note;
use crate::node::Roles;
use crate::quorum::QuorumView;
use crate::quorum::Replica;
use crate::quorum::format::QuorumMode;
use crate::quorum::plan::{self, Controller, Listener, Removal, Step};
use crate::words::count;

/// What is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The nodes as they are recorded.
    pub now: BTreeMap<NodeId, Member>,
    /// The nodes as the edit asks for them.
    pub desired: BTreeMap<NodeId, Member>,
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
    /// What becomes of nodes that stay, and of disks.
    pub upkeep: Upkeep,
}

/// What an edit asks for besides other nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Upkeep {
    /// Why nothing at all is carried out for now, such as that the cluster is paused.
    pub blocked: Vec<String>,
    /// Brokers that are on their way out and would be desired again.
    pub taken_back: BTreeSet<NodeId>,
    /// The claims that new nodes get.
    pub new_claims: BTreeMap<NodeId, Vec<String>>,
    /// Claims that grow.
    pub grown: Vec<Growth>,
    /// Other objects that are made or changed.
    pub objects: Vec<Object>,
    /// Settings that change of which nobody knows whether nodes have to be restarted for them.
    pub unclear: Vec<String>,
    /// Whether it is asked that a static quorum becomes dynamic.
    pub migrates: bool,
    /// The metadata version that Kafka is brought to, or why it is not.
    pub metadata: Option<Result<String, String>>,
    /// Settings that are changed while nodes run.
    pub changes: Vec<Setting>,
    /// Nodes that are restarted with the roles that they have, in this order.
    pub restarts: Vec<Restart>,
    /// The claims that nodes have, and whether they are deleted with them.
    pub claims: BTreeMap<NodeId, Vec<(String, bool)>>,
}

/// A claim that grows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Growth {
    /// Which.
    pub claim: String,
    /// What it asks for.
    pub from: String,
    /// What it would ask for.
    pub to: String,
}

/// An object that is made or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its kind and name.
    pub name: String,
    /// Whether it is there.
    pub exists: bool,
}

/// A setting that is changed while nodes run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setting {
    /// Its name.
    pub key: String,
    /// Its value; `None` if it goes back to what holds without it.
    pub value: Option<String>,
    /// On which node; `None` for all.
    pub node: Option<NodeId>,
}

/// A node that is restarted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restart {
    /// Which.
    pub node: NodeId,
    /// Why.
    pub why: Vec<String>,
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
    /// Nothing is carried out for now.
    Blocked(String),
    /// This broker was to go, and stays.
    TakeBack(NodeId),
    /// Claims are made.
    MakeClaims(Vec<String>),
    /// A claim grows.
    Grow(Growth),
    /// Another object is made or changed.
    Write(Object),
    /// These settings change, with restarts or without.
    Unclear(Vec<String>),
    /// The static quorum becomes dynamic.
    Migrate,
    /// The metadata version changes.
    Metadata(String),
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
    /// A setting is changed while nodes run.
    Change(Setting),
    /// This one is restarted.
    Restart(Restart),
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
    /// These claims of a node that is gone are deleted, with what is on them.
    DeleteClaims(Vec<String>),
    /// These claims of a node that is gone stay.
    KeepClaims(Vec<String>),
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
    /// No change is known, and not everything is.
    Unknown,
}

impl Outcome {
    /// For programs that run the command.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::Changes => 2,
            Self::Refused | Self::Unknown => 3,
        }
    }

    /// The same where something is not known that may be a change.
    #[must_use]
    pub const fn or_unknown(self, is_unknown: bool) -> Self {
        match self {
            Self::Nothing if is_unknown => Self::Unknown,
            Self::Nothing | Self::Changes | Self::Refused | Self::Unknown => self,
        }
    }
}

impl Plan {
    /// What comes of it.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let refused = |line: &Line| {
            matches!(line, Line::Refused { .. } | Line::Invalid(_) | Line::Blocked(_))
        };
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
    let (voters, upkeep) = (Voters::foresee(facts), &facts.upkeep);
    let mut lines = voters.dead.clone();
    lines.extend(upkeep.taken_back.iter().copied().map(Line::TakeBack));
    lines.extend(made_claims(facts, &voters));
    lines.extend(upkeep.grown.iter().cloned().map(Line::Grow));
    lines.extend(upkeep.objects.iter().cloned().map(Line::Write));
    lines.extend(starts(facts, &voters));
    lines.extend(gains(facts, &voters));
    if upkeep.migrates && facts.mode == QuorumMode::Static {
        lines.push(Line::Migrate);
    }
    lines.extend(voters.changes.iter().cloned());
    lines.extend(voters.refused.iter().cloned());
    lines.extend(upkeep.changes.iter().cloned().map(Line::Change));
    if !upkeep.unclear.is_empty() {
        lines.push(Line::Unclear(upkeep.unclear.clone()));
    }
    lines.extend(upkeep.restarts.iter().cloned().map(Line::Restart));
    lines.extend(leaves(facts, &voters));
    lines.extend(upkeep.metadata.clone().map(|change| match change {
        Ok(to) => Line::Metadata(to),
        Err(why) => Line::Refused { nodes: BTreeSet::new(), why },
    }));
    let added = added_brokers(facts, &voters);
    if facts.fills && !added.is_empty() {
        lines.push(Line::Fill(added));
    }
    // Nothing that is not to happen is held up.
    if !lines.is_empty() {
        lines.extend(upkeep.blocked.iter().cloned().map(Line::Blocked));
    }
    Plan { lines }
}

/// The claims of nodes that are started.
fn made_claims(facts: &Facts, voters: &Voters) -> Option<Line> {
    let made = facts.upkeep.new_claims.iter().filter(|(id, _)| !voters.not_started.contains(id));
    let made: Vec<String> = made.flat_map(|(_, claims)| claims.clone()).collect();
    (!made.is_empty()).then_some(Line::MakeClaims(made))
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
    /// Those that still vote in the end though they are not desired, or may.
    keep: BTreeSet<NodeId>,
    /// Those that are not started.
    not_started: BTreeSet<NodeId>,
}

impl Voters {
    fn foresee(facts: &Facts) -> Self {
        let mut voters = Self::default();
        if facts.now.is_empty() {
            // The first controllers vote from birth.
            return voters;
        }
        let desired = controllers(&facts.desired);
        if desired == controllers(&facts.now) && facts.quorum.is_none() {
            // What cannot be seen is not asked for either.
            return voters;
        }
        let mut world = foreseen_world(facts, &desired);
        // Each step brings one voter in or out.
        let steps_max = 2 * (facts.now.len() + facts.desired.len()) + 1;
        for _ in 0..steps_max {
            let step = plan::decide(&world).step;
            let Some(line) = apply(&mut world, &step) else {
                voters.end(&step, &world, &desired, facts);
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
    fn end(&mut self, step: &Step, world: &plan::Facts, desired: &BTreeSet<NodeId>, facts: &Facts) {
        let leaving: BTreeSet<NodeId> = &controllers(&facts.now) - desired;
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
                let joining = desired.iter().filter(|id| !voting.contains(id)).copied();
                self.keep.iter().copied().chain(joining).collect()
            }
        };
        self.refused.push(Line::Refused { nodes, why: step.to_string() });
    }
}

/// The planner's facts when all that is desired has come up. New disks get ids of our own making: only
/// that they are there matters.
fn foreseen_world(facts: &Facts, desired: &BTreeSet<NodeId>) -> plan::Facts {
    let listener = Listener { name: String::new(), host: String::new(), port: 0 };
    let mut world = plan::Facts {
        mode: facts.mode,
        desired: BTreeMap::new(),
        disks: facts.disks.clone(),
        quorum: facts.quorum.clone(),
        earlier: None,
        recorded_voters: BTreeMap::new(),
        failed_adds: BTreeMap::new(),
    };
    for id in desired {
        let controller = Controller { runs: Some(true), listeners: vec![listener.clone()] };
        world.desired.insert(*id, controller);
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
    let new = facts.desired.iter().filter(|(id, _)| !facts.now.contains_key(id));
    for (id, one) in new.filter(|(id, _)| !voters.not_started.contains(id)) {
        pools.entry(&one.pool).or_default().insert(*id);
    }
    pools.into_iter().map(|(pool, nodes)| Line::Start { pool: pool.to_owned(), nodes }).collect()
}

/// Roles that nodes get. Roles that they lose come when nothing needs them any more.
fn gains(facts: &Facts, voters: &Voters) -> Vec<Line> {
    let gain = |(id, desired): (&NodeId, &Member)| {
        let from = facts.now.get(id)?.roles;
        let to = both(from, desired.roles);
        let stays = to == from || voters.not_started.contains(id);
        (!stays).then_some(Line::Roles { node: *id, from, to })
    };
    facts.desired.iter().filter_map(gain).collect()
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
        let desired = facts.desired.get(id).map(|one| one.roles);
        let loses_broker = now.roles.is_broker() && !desired.is_some_and(Roles::is_broker);
        let loses_controller =
            now.roles.is_controller() && !desired.is_some_and(Roles::is_controller);
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
        lines.push(match desired {
            None => Line::Stop(*id),
            Some(to) => Line::Roles { node: *id, from: both(now.roles, to), to },
        });
        if loses_broker {
            lines.push(Line::Unregister(*id));
        }
        if desired.is_none() {
            lines.extend(claims_after(facts, *id));
        }
    }
    lines
}

/// What becomes of the claims of a node that is gone.
fn claims_after(facts: &Facts, id: NodeId) -> Vec<Line> {
    let of = |deleted: bool| -> Vec<String> {
        let claims = facts.upkeep.claims.get(&id).into_iter().flatten();
        claims.filter(|(_, delete)| *delete == deleted).map(|(name, _)| name.clone()).collect()
    };
    let some = |claims: Vec<String>| Some(claims).filter(|claims| !claims.is_empty());
    let deleted = some(of(true)).map(Line::DeleteClaims);
    deleted.into_iter().chain(some(of(false)).map(Line::KeepClaims)).collect()
}

/// Whether a broker is, or will be, without partitions.
fn drained(facts: &Facts, id: NodeId, lines: &mut Vec<Line>) -> bool {
    let refused = |why: String| Line::Refused { nodes: [id].into(), why };
    let others = facts.desired.values().any(|one| one.roles.is_broker());
    if !others {
        lines.push(refused("it would be the last broker".to_owned()));
        return false;
    }
    if facts.skip_check {
        return true;
    }
    let Some(partitions) = &facts.partitions else {
        lines.push(refused("it is unknown whether it still has partitions".to_owned()));
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
        desired: roles(&facts.desired),
        recorded: Some(roles(&facts.now)),
        refused: voters.not_started.clone(),
    };
    super::up::decide(&up).added_brokers
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
