//! A fleet over months, decided by the same functions that decide for a real one.
//!
//! Time is in minutes. Only data planes that something happened to are looked at, so that many that are
//! quiet cost nothing. The same arrivals give the same outcome: failures of machines come from numbers that look random and
//! are the same each time.

mod forecast;

use std::collections::{BTreeMap, BTreeSet};

pub use forecast::{Change, Forecast, Happened, StartPlane, forecast};

use super::demand::{Waiting, give};
use super::nodes::{Mode, NodeBounds, NodeStep, PlaneFacts, growth, judge_report, step_nodes};
use super::placement::{Candidate, Request, place};
use super::regions::{PlaneInRegion, RegionFacts, plan_creation, plan_removals};
use super::report::{AgentReady, Capacity, NodeInfo, Report, ResizeInfo};
use super::state::PlaneState;
use super::steps::StepProgress;

/// A Kafka that comes and goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// When it is asked for, in minutes from the beginning.
    pub at: u64,
    /// How long it stays once it is there.
    pub stays: u64,
    /// The region that it is asked for in.
    pub region: String,
    /// Whether its brokers are in three zones.
    pub multi_az: bool,
    /// What it takes.
    pub need: Capacity,
}

/// Failures of machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failures {
    /// How long a machine works on average until it fails, in minutes.
    pub mean_minutes: u64,
    /// How long it takes until it works again, in minutes.
    pub repair_minutes: u64,
}

/// What is set for a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// The room that must be left for a data plane to count as ready. At least a Kafka of Model T.
    pub headroom: Capacity,
    /// The room that one node gives.
    pub per_node: Capacity,
    /// The least number of nodes of a data plane, with which it begins.
    pub nodes_min: u32,
    /// The most nodes of a data plane.
    pub nodes_max: u32,
    /// The nodes of one step.
    pub node_delta: u32,
    /// How long nodes take to come, in minutes.
    pub node_minutes: u64,
    /// How long a data plane takes to come, in minutes.
    pub plane_minutes: u64,
    /// How long a Kafka waits for capacity before it is refused, in minutes.
    pub patience_minutes: u64,
    /// After a step up no nodes go for so long, in minutes.
    pub cool_down_minutes: u64,
    /// What a node costs in an hour, in thousandths.
    pub price_per_hour: u64,
    /// Machines that fail; none if unset.
    pub failures: Option<Failures>,
    /// Nodes go by the letter of the text, also if they come back with the next report.
    pub by_the_letter: bool,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Nodes times minutes.
    pub node_minutes: u64,
    /// Kafkas that found a place.
    pub placed: u64,
    /// Kafkas that waited in vain.
    pub refused: u64,
    /// How long each placed Kafka waited, in minutes, in ascending order.
    pub waits: Vec<u64>,
    /// Steps up.
    pub steps_up: u64,
    /// Steps down.
    pub steps_down: u64,
    /// Steps up within a day after a step down on the same data plane.
    pub flaps: u64,
    /// Data planes that were created.
    pub planes_created: u64,
    /// Data planes that were removed.
    pub planes_removed: u64,
    /// The most data planes there were at once.
    pub planes_peak: u64,
    /// Machines that failed.
    pub failures: u64,
    /// What all nodes cost, in thousandths.
    pub cost: u64,
    /// How many nodes there were from which minute on.
    pub nodes: Vec<(u64, u64)>,
}

impl Outcome {
    /// How long a Kafka waited at most, of this share of all in percent; nothing if none was placed.
    #[must_use]
    pub fn wait(&self, percent: usize) -> Option<u64> {
        let last = self.waits.len().checked_sub(1)?;
        self.waits.get(last * percent.min(100) / 100).copied()
    }
}

const DAY: u64 = 24 * 60;

const ZONES: usize = 3;

const ZONE_COUNT: u32 = 3;

#[derive(Debug)]
struct Plane {
    name: String,
    region: usize,
    state: PlaneState,
    nodes: u32,
    coming: Option<u32>,
    used: Capacity,
    kafkas: u64,
    /// Machines that have failed, by zone.
    down: [u32; ZONES],
    last_up: Option<u64>,
    last_down: Option<u64>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Leaves { plane: usize, kafka: usize },
    NodesCame { plane: usize },
    PlaneCame { plane: usize },
    Fails { plane: usize },
    Repaired { plane: usize, zone: usize, failure: u64 },
    Look { region: usize },
    Arrives { kafka: usize },
}

struct World<'a> {
    policy: &'a Policy,
    arrivals: &'a [Arrival],
    /// Names, and whether data planes are in three zones. Kafkas in one zone have data planes of their own.
    regions: Vec<(&'a str, bool)>,
    planes: Vec<Plane>,
    by_region: Vec<Vec<usize>>,
    waiting: Vec<Vec<usize>>,
    /// By Kafka that waits: the data plane that grows for it.
    given: BTreeMap<usize, usize>,
    events: BTreeMap<u64, BTreeSet<Event>>,
    outcome: Outcome,
    /// What was decided, if anybody wants to know.
    log: Option<Vec<Happened>>,
    planes_max: u64,
    dice: u64,
    now: u64,
}

/// Lets a fleet live through the arrivals, until the last one has left or given up.
#[must_use]
pub fn simulate(arrivals: &[Arrival], policy: &Policy) -> Outcome {
    let names = arrivals.iter().map(|one| (one.region.as_str(), one.multi_az));
    let mut world = World::new(arrivals, policy, names.collect());
    let end = arrivals.iter().map(|one| one.at.saturating_add(one.stays)).max().unwrap_or(0);
    world.run(end);
    let mut outcome = world.outcome;
    outcome.waits.sort_unstable();
    outcome.cost = outcome.node_minutes.saturating_mul(policy.price_per_hour) / 60;
    outcome
}

impl<'a> World<'a> {
    fn new(
        arrivals: &'a [Arrival],
        policy: &'a Policy,
        regions: BTreeSet<(&'a str, bool)>,
    ) -> Self {
        let regions: Vec<_> = regions.into_iter().collect();
        let mut world = World {
            policy,
            arrivals,
            planes: Vec::new(),
            by_region: vec![Vec::new(); regions.len()],
            waiting: vec![Vec::new(); regions.len()],
            given: BTreeMap::new(),
            regions,
            events: BTreeMap::new(),
            outcome: Outcome::default(),
            log: None,
            planes_max: u64::MAX,
            dice: 0,
            now: 0,
        };
        for (kafka, one) in arrivals.iter().enumerate() {
            world.at(one.at, Event::Arrives { kafka });
        }
        world
    }

    /// Lets everything happen until then.
    fn run(&mut self, end: u64) {
        while let Some((time, events)) = self.events.pop_first() {
            if time > end {
                break;
            }
            self.pass_time(time);
            let mut touched = BTreeSet::new();
            for event in events {
                touched.insert(self.happen(event));
            }
            for region in touched {
                self.look(region);
            }
            self.count();
        }
    }

    fn note(&mut self, change: Change) {
        let minute = self.now;
        if let Some(log) = &mut self.log {
            log.push(Happened { minute, change });
        }
    }

    fn at(&mut self, time: u64, event: Event) {
        self.events.entry(time).or_default().insert(event);
    }

    /// The nodes that are paid for.
    fn nodes(&self) -> u64 {
        let paid = |plane: &Plane| u64::from(plane.coming.unwrap_or(plane.nodes).max(plane.nodes));
        self.planes.iter().filter(|plane| !plane.state.is_going()).map(paid).sum()
    }

    fn pass_time(&mut self, time: u64) {
        self.outcome.node_minutes += self.nodes() * (time - self.now);
        self.now = time;
    }

    fn count(&mut self) {
        let nodes = self.nodes();
        if self.outcome.nodes.last().is_none_or(|(_, last)| *last != nodes) {
            self.outcome.nodes.push((self.now, nodes));
        }
    }

    /// A number below the limit.
    fn dice(&mut self, limit: u64) -> u64 {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.dice;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit.max(1)
    }

    /// The next failure on a data plane: the more nodes, the sooner; evenly up to twice the mean.
    fn plan_failure(&mut self, plane: usize) {
        let Some(failures) = self.policy.failures else { return };
        let nodes = u64::from(self.planes[plane].nodes.max(1));
        let after = 1 + self.dice(2 * failures.mean_minutes / nodes);
        self.at(self.now + after, Event::Fails { plane });
    }

    fn fail(&mut self, plane: usize) {
        let zone = usize::try_from(self.dice(u64::from(ZONE_COUNT))).unwrap_or(0);
        let here = self.nodes_of_zone(plane);
        let Some(failures) = self.policy.failures else { return };
        if self.planes[plane].state.is_going() {
            return;
        }
        if self.planes[plane].down[zone] < here {
            self.planes[plane].down[zone] += 1;
            self.outcome.failures += 1;
            let failure = self.outcome.failures;
            self.at(self.now + failures.repair_minutes, Event::Repaired { plane, zone, failure });
        }
        self.plan_failure(plane);
    }

    fn is_multi_az(&self, plane: usize) -> bool {
        self.regions[self.planes[plane].region].1
    }

    fn nodes_of_zone(&self, plane: usize) -> u32 {
        self.planes[plane].nodes / ZONE_COUNT
    }

    /// The room of so many nodes, less those that have failed. In three zones a Kafka takes of each as much, so the zone
    /// with the fewest counts.
    fn room(&self, index: usize, nodes: u32) -> Capacity {
        let plane = &self.planes[index];
        let usable = if self.is_multi_az(index) {
            let worst = plane.down.iter().max().copied().unwrap_or(0);
            (nodes / ZONE_COUNT).saturating_sub(worst) * ZONE_COUNT
        } else {
            nodes.saturating_sub(plane.down.iter().sum())
        };
        self.policy.per_node.times(u64::from(usable))
    }

    /// The region that it happened in.
    fn happen(&mut self, event: Event) -> usize {
        match event {
            Event::Arrives { kafka } => {
                let one = &self.arrivals[kafka];
                let name = (one.region.as_str(), one.multi_az);
                let region = self.regions.binary_search(&name).unwrap_or(0);
                self.waiting[region].push(kafka);
                let patience = self.policy.patience_minutes;
                self.at(self.now + patience, Event::Look { region });
                region
            }
            Event::Leaves { plane, kafka } => {
                let need = self.arrivals[kafka].need;
                let one = &mut self.planes[plane];
                one.used = one.used.less(need);
                one.kafkas -= 1;
                one.region
            }
            Event::NodesCame { plane } => {
                let one = &mut self.planes[plane];
                one.nodes = one.coming.take().unwrap_or(one.nodes);
                one.region
            }
            Event::PlaneCame { plane } => {
                self.planes[plane].state = PlaneState::WaitingForAgent;
                self.plan_failure(plane);
                self.planes[plane].region
            }
            Event::Fails { plane } => {
                self.fail(plane);
                self.planes[plane].region
            }
            Event::Repaired { plane, zone, .. } => {
                let down = &mut self.planes[plane].down[zone];
                *down = down.saturating_sub(1);
                self.planes[plane].region
            }
            Event::Look { region } => region,
        }
    }

    /// Reports, places, and asks for data planes, until nothing changes in this minute.
    fn look(&mut self, region: usize) {
        self.report(region);
        self.place(region);
        self.report(region);
        self.change_planes(region);
    }

    fn report(&mut self, region: usize) {
        self.give(region);
        for index in self.by_region[region].clone() {
            let facts = self.facts(index);
            let report = self.numbers(index);
            let judged = judge_report(&facts, &report);
            let mut step = judged.step;
            if self.policy.by_the_letter && facts.progress == StepProgress::Done {
                step = by_the_letter(&facts, &report).unwrap_or(step);
            }
            self.planes[index].state = judged.state;
            let before = self.planes[index].nodes;
            self.step(index, step);
            if let (Some(to), false) = (self.planes[index].coming, step == NodeStep::Stay) {
                let plane = self.planes[index].name.clone();
                self.note(Change::Nodes { plane, from: before, to, reason: judged.step_reason });
            }
        }
    }

    /// Chooses the data planes that grow for those who wait.
    fn give(&mut self, region: usize) {
        let candidates: Vec<_> =
            self.by_region[region].iter().map(|index| self.candidate(*index)).collect();
        let waiting = self.waiting[region].iter().map(|kafka| Waiting {
            id: kafka.to_string(),
            request: self.request(*kafka),
            given: self.given.get(kafka).map(usize::to_string),
        });
        let given = give(&waiting.collect::<Vec<_>>(), &candidates);
        for kafka in &self.waiting[region] {
            let on = given.get(&kafka.to_string()).and_then(|id| id.parse().ok());
            match on {
                Some(on) => self.given.insert(*kafka, on),
                None => self.given.remove(kafka),
            };
        }
    }

    fn request(&self, kafka: usize) -> Request {
        Request {
            provider: String::new(),
            region: String::new(),
            multi_az: self.arrivals[kafka].multi_az,
            need: self.arrivals[kafka].need,
        }
    }

    fn facts(&self, index: usize) -> PlaneFacts {
        let plane = &self.planes[index];
        let waiting = &self.waiting[plane.region];
        let given = waiting.iter().filter(|kafka| self.given.get(kafka) == Some(&index));
        let queued = given.map(|kafka| self.arrivals[*kafka].need).reduce(Capacity::plus);
        let coming = plane.coming.unwrap_or(plane.nodes);
        PlaneFacts {
            state: plane.state,
            multi_az: self.is_multi_az(index),
            mode: Mode::Auto,
            bounds: NodeBounds {
                nodes_min: self.policy.nodes_min,
                nodes_max: self.policy.nodes_max,
                node_delta_max: self.policy.node_delta,
            },
            model_t: self.policy.headroom,
            reserved: Capacity::default(),
            queued,
            others_wait: !waiting.is_empty(),
            progress: match plane.coming {
                None => StepProgress::Done,
                Some(coming) => StepProgress::Going { growing: coming > plane.nodes },
            },
            desired: Some(coming),
            nodes_fixed: false,
            kafkas: Some(plane.kafkas),
            since_step_up_ms: plane.last_up.map(|at| (self.now - at) * 60_000),
            cool_down_ms: self.policy.cool_down_minutes * 60_000,
        }
    }

    fn numbers(&self, index: usize) -> Report {
        let plane = &self.planes[index];
        let policy = self.policy;
        let total = self.room(index, plane.nodes);
        let shares = [
            plane.used.connections.div_ceil(policy.per_node.connections.max(1)),
            plane.used.partitions.div_ceil(policy.per_node.partitions.max(1)),
        ];
        let minimum = u32::try_from(shares.into_iter().max().unwrap_or(0)).unwrap_or(u32::MAX);
        Report {
            ready: AgentReady::Yes,
            unsuitable: None,
            total,
            remaining: total.less(plane.used),
            nodes: NodeInfo {
                ceiling: policy.nodes_max,
                floor: policy.nodes_min,
                current: plane.nodes,
                current_work_load_minimum: minimum.max(policy.nodes_min),
            },
            resize: ResizeInfo {
                node_delta: policy.node_delta,
                delta: policy.per_node.times(u64::from(policy.node_delta)),
            },
        }
    }

    fn step(&mut self, index: usize, step: NodeStep) {
        let now = self.now;
        let plane = &mut self.planes[index];
        match step {
            NodeStep::Stay => return,
            NodeStep::Up { target } => {
                plane.coming = Some(target);
                plane.last_up = Some(now);
                self.outcome.steps_up += 1;
                if plane.last_down.is_some_and(|at| now - at <= DAY) {
                    self.outcome.flaps += 1;
                }
                // Nobody may come or go for longer than the cool-down; then it is looked at again.
                let region = plane.region;
                self.at(now + self.policy.cool_down_minutes, Event::Look { region });
            }
            NodeStep::Down { target } => {
                plane.coming = Some(target);
                plane.last_down = Some(now);
                self.outcome.steps_down += 1;
            }
        }
        self.at(now + self.policy.node_minutes, Event::NodesCame { plane: index });
    }

    fn place(&mut self, region: usize) {
        let queue = std::mem::take(&mut self.waiting[region]);
        for kafka in queue {
            let one = &self.arrivals[kafka];
            let request = self.request(kafka);
            let candidates: Vec<_> =
                self.by_region[region].iter().map(|index| self.candidate(*index)).collect();
            let on = place(&request, &candidates).on.and_then(|id| id.parse::<usize>().ok());
            let waited = self.now - one.at;
            match on {
                Some(index) => {
                    self.note(Change::Placed { kafka, plane: self.planes[index].name.clone() });
                    let plane = &mut self.planes[index];
                    plane.used = plane.used.plus(one.need);
                    plane.kafkas += 1;
                    self.given.remove(&kafka);
                    self.outcome.placed += 1;
                    self.outcome.waits.push(waited);
                    self.at(self.now + one.stays, Event::Leaves { plane: index, kafka });
                }
                None if waited >= self.policy.patience_minutes => {
                    self.outcome.refused += 1;
                    self.note(Change::Refused { kafka });
                }
                None => self.waiting[region].push(kafka),
            }
        }
    }

    fn candidate(&self, index: usize) -> Candidate {
        let plane = &self.planes[index];
        // Nodes that are about to go give no capacity.
        let nodes = plane.coming.map_or(plane.nodes, |coming| coming.min(plane.nodes));
        Candidate {
            id: index.to_string(),
            provider: String::new(),
            region: String::new(),
            multi_az: self.is_multi_az(index),
            state: plane.state,
            draining: false,
            free: self.room(index, nodes).less(plane.used),
            growth: growth(&self.facts(index), &self.numbers(index)),
        }
    }

    fn change_planes(&mut self, region: usize) {
        let planes = self.by_region[region].iter().map(|index| {
            let plane = &self.planes[*index];
            PlaneInRegion {
                id: index.to_string(),
                state: plane.state,
                multi_az: self.regions[region].1,
                kafkas: plane.kafkas,
                draining: false,
                growing: plane.coming.is_some_and(|coming| coming > plane.nodes),
                unsuitable: false,
            }
        });
        let waiting = self.waiting[region].len() as u64;
        let alone = self.waiting[region].iter().filter(|kafka| !self.given.contains_key(kafka));
        let unplaced = alone.count() as u64;
        let planes = planes.collect();
        let facts = RegionFacts { planes, unplaced, waiting, planes_max: self.planes_max };
        let creation = plan_creation(&facts);
        if creation.create {
            let plane = self.create(region);
            self.note(Change::Create { plane, reason: creation.reason });
        }
        for removal in plan_removals(&facts).into_iter().filter(|removal| removal.remove) {
            let Ok(index) = removal.id.parse::<usize>() else { continue };
            self.planes[index].state = PlaneState::Cleanup;
            self.by_region[region].retain(|one| *one != index);
            self.outcome.planes_removed += 1;
            let plane = self.planes[index].name.clone();
            self.note(Change::Remove { plane, reason: removal.reason });
        }
    }

    /// The name of the new data plane.
    fn create(&mut self, region: usize) -> String {
        let plane = self.planes.len();
        let name = format!("new-{}", self.outcome.planes_created + 1);
        self.planes.push(Plane {
            name: name.clone(),
            region,
            state: PlaneState::Provisioning,
            nodes: self.policy.nodes_min,
            coming: None,
            used: Capacity::default(),
            kafkas: 0,
            down: [0; ZONES],
            last_up: None,
            last_down: None,
        });
        self.by_region[region].push(plane);
        self.outcome.planes_created += 1;
        let there: usize = self.by_region.iter().map(Vec::len).sum();
        self.outcome.planes_peak = self.outcome.planes_peak.max(there as u64);
        self.at(self.now + self.policy.plane_minutes, Event::PlaneCame { plane });
        name
    }
}

/// A step down as the text has it, without a look at what the next report would say.
fn by_the_letter(facts: &PlaneFacts, report: &Report) -> Option<NodeStep> {
    let nodes = report.nodes;
    let target = nodes.current.checked_sub(step_nodes(report.resize.node_delta, facts.multi_az))?;
    let goes = report.remaining.exceeds(report.resize.delta)
        && nodes.current > nodes.current_work_load_minimum
        && target >= nodes.current_work_load_minimum.max(nodes.floor).max(3);
    goes.then_some(NodeStep::Down { target })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn room(connections: u64) -> Capacity {
        Capacity { connections, partitions: connections, ..Capacity::default() }
    }

    pub(super) fn policy() -> Policy {
        Policy {
            headroom: room(100),
            per_node: room(100),
            nodes_min: 3,
            nodes_max: 9,
            node_delta: 3,
            node_minutes: 5,
            plane_minutes: 40,
            patience_minutes: 60,
            cool_down_minutes: 10,
            price_per_hour: 500,
            failures: None,
            by_the_letter: false,
        }
    }

    fn arrivals(count: u64, every: u64, stays: u64) -> Vec<Arrival> {
        let one = |index| Arrival {
            at: index * every,
            stays,
            region: "r".to_owned(),
            multi_az: true,
            need: room(100),
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn a_fleet_grows_with_demand_and_shrinks_after_it() {
        let outcome = simulate(&arrivals(30, 20, 5000), &policy());
        assert_eq!((outcome.placed, outcome.refused), (30, 0));
        // Eight fit on a data plane that has nine nodes and keeps room for one more; so four are needed.
        assert!(outcome.planes_created >= 4, "{outcome:?}");
        assert!(outcome.planes_removed > 0 && outcome.steps_down > 0, "{outcome:?}");
        assert_eq!(outcome.flaps, 0, "{outcome:?}");
    }

    #[test]
    fn a_constant_workload_costs_a_constant_number_of_nodes() {
        // Three Kafkas for 10,000 minutes: a data plane of six nodes, after it has come.
        let outcome = simulate(&arrivals(3, 0, 10_000), &policy());
        assert_eq!((outcome.planes_created, outcome.steps_up, outcome.steps_down), (1, 1, 0));
        assert!(outcome.node_minutes <= 6 * 10_100, "{outcome:?}");
        assert_eq!(outcome.cost, outcome.node_minutes * 500 / 60);
        // All three wait for the data plane.
        assert_eq!(outcome.wait(0), Some(40));
        assert!(outcome.wait(100) >= outcome.wait(50), "{outcome:?}");
        assert_eq!(outcome.nodes.iter().map(|(_, nodes)| *nodes).max(), Some(6));
    }

    #[test]
    fn kafkas_in_one_zone_and_in_three_have_data_planes_of_their_own() {
        let mut all = arrivals(2, 0, 5000);
        all[1].multi_az = false;
        let outcome = simulate(&all, &policy());
        assert_eq!((outcome.planes_created, outcome.placed), (2, 2), "{outcome:?}");
    }

    #[test]
    fn machines_that_fail_take_room_of_their_zone_until_they_are_repaired() {
        let failing = |mean_minutes: u64| Policy {
            failures: Some(Failures { mean_minutes, repair_minutes: 600 }),
            ..policy()
        };
        // Eight Kafkas fill a data plane of nine nodes but for the reserve, so that each failure is missed.
        let all = arrivals(40, 200, 1600);
        let calm = simulate(&all, &policy());
        let often = simulate(&all, &failing(3000));
        let seldom = simulate(&all, &failing(300_000));
        assert_eq!((calm.failures, calm.refused), (0, 0), "{calm:?}");
        assert!(often.failures > seldom.failures && often.failures > 10, "{often:?}");
        assert!(
            often.node_minutes > calm.node_minutes,
            "{} {}",
            often.node_minutes,
            calm.node_minutes
        );
        assert_eq!(often, simulate(&all, &failing(3000)), "the same each time");
    }

    #[test]
    fn a_longer_cool_down_costs_more_and_flaps_less() {
        // Six Kafkas at once, ten times, with a pause in which nobody needs the nodes.
        let bursts = (0..60).map(|index| Arrival {
            at: index / 6 * 600,
            stays: 200,
            region: "r".to_owned(),
            multi_az: true,
            need: room(100),
        });
        let bursts: Vec<_> = bursts.collect();
        let with =
            |cool_down_minutes: u64| simulate(&bursts, &Policy { cool_down_minutes, ..policy() });
        let (short, long) = (with(10), with(1440));
        assert!(long.flaps <= short.flaps && long.steps_down < short.steps_down, "{long:?}");
        assert!(long.cost > short.cost, "{} {}", long.cost, short.cost);
    }

    #[test]
    fn by_the_letter_nodes_go_and_come_back() {
        // Six nodes with 301 free: the three that go are missed at once.
        let need = Capacity { connections: 299, partitions: 299, ..Capacity::default() };
        let mut all =
            vec![Arrival { at: 0, stays: 20_000, region: "r".to_owned(), multi_az: true, need }];
        all.extend((1..50).map(|index| Arrival {
            at: 100 * index,
            stays: 10,
            region: "r".to_owned(),
            multi_az: true,
            need: room(1),
        }));
        let letter = Policy { by_the_letter: true, ..policy() };
        assert!(simulate(&all, &letter).flaps > 10, "{:?}", simulate(&all, &letter));
        assert_eq!(simulate(&all, &policy()).flaps, 0);
    }

    #[test]
    fn ten_thousand_data_planes_are_simulated() {
        // 1000 regions with more Kafkas than nine data planes have room for.
        let mut all = Vec::new();
        for region in 0..1000u64 {
            for index in 0..10u64 {
                all.push(Arrival {
                    at: index * 100 + region % 7,
                    stays: 3000,
                    region: format!("r{region}"),
                    multi_az: true,
                    need: room(800),
                });
            }
        }
        let outcome = simulate(&all, &policy());
        assert!(outcome.planes_peak >= 10_000, "{outcome:?}");
        assert_eq!(outcome, simulate(&all, &policy()));
    }
}
