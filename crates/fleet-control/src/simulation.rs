//! A fleet over months, decided by the same functions that decide for a real one.
//!
//! Time is in minutes. Only data planes that something happened to are looked at, so that many that are
//! quiet cost nothing. There is no chance in it: the same arrivals give the same outcome.

use std::collections::{BTreeMap, BTreeSet};

use super::demand::{Waiting, give};
use super::nodes::{
    COOL_DOWN_MS, Mode, NodeBounds, NodeStep, PlaneFacts, growth, judge_report, step_nodes,
};
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
    /// What it takes.
    pub need: Capacity,
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
    /// Whether data planes are in three zones.
    pub multi_az: bool,
    /// How long nodes take to come, in minutes.
    pub node_minutes: u64,
    /// How long a data plane takes to come, in minutes.
    pub plane_minutes: u64,
    /// How long a Kafka waits for a place before it is refused, in minutes.
    pub patience_minutes: u64,
    /// Nodes go by the letter of the text, also if they come back with the next report.
    pub by_the_letter: bool,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Nodes times minutes.
    pub node_minutes: u64,
    /// Kafkas that found a place.
    pub placed: u64,
    /// Kafkas that waited in vain.
    pub refused: u64,
    /// All minutes that placed Kafkas waited.
    pub waited_minutes: u64,
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
}

const DAY: u64 = 24 * 60;

#[derive(Debug)]
struct Plane {
    region: usize,
    state: PlaneState,
    nodes: u32,
    coming: Option<u32>,
    used: Capacity,
    kafkas: u64,
    last_up: Option<u64>,
    last_down: Option<u64>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Leaves { plane: usize, kafka: usize },
    NodesCame { plane: usize },
    PlaneCame { plane: usize },
    Look { region: usize },
    Arrives { kafka: usize },
}

struct World<'a> {
    policy: &'a Policy,
    arrivals: &'a [Arrival],
    regions: Vec<&'a str>,
    planes: Vec<Plane>,
    by_region: Vec<Vec<usize>>,
    waiting: Vec<Vec<usize>>,
    /// By Kafka that waits: the data plane that grows for it.
    given: BTreeMap<usize, usize>,
    events: BTreeMap<u64, BTreeSet<Event>>,
    outcome: Outcome,
    now: u64,
}

/// Lets a fleet live through the arrivals, until the last one has left or given up.
#[must_use]
pub fn simulate(arrivals: &[Arrival], policy: &Policy) -> Outcome {
    let names: BTreeSet<&str> = arrivals.iter().map(|one| one.region.as_str()).collect();
    let regions: Vec<&str> = names.into_iter().collect();
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
        now: 0,
    };
    for (kafka, one) in arrivals.iter().enumerate() {
        world.at(one.at, Event::Arrives { kafka });
    }
    let end = arrivals.iter().map(|one| one.at.saturating_add(one.stays)).max().unwrap_or(0);
    while let Some((time, events)) = world.events.pop_first() {
        if time > end {
            break;
        }
        world.pass_time(time);
        let mut touched = BTreeSet::new();
        for event in events {
            touched.insert(world.happen(event));
        }
        for region in touched {
            world.look(region);
        }
    }
    world.outcome
}

impl World<'_> {
    fn at(&mut self, time: u64, event: Event) {
        self.events.entry(time).or_default().insert(event);
    }

    fn pass_time(&mut self, time: u64) {
        let nodes: u64 = self
            .planes
            .iter()
            .filter(|plane| !plane.state.is_going())
            .map(|plane| u64::from(plane.coming.unwrap_or(plane.nodes).max(plane.nodes)))
            .sum();
        self.outcome.node_minutes += nodes * (time - self.now);
        self.now = time;
    }

    /// The region that it happened in.
    fn happen(&mut self, event: Event) -> usize {
        match event {
            Event::Arrives { kafka } => {
                let name = self.arrivals[kafka].region.as_str();
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
            self.step(index, step);
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
            multi_az: self.policy.multi_az,
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
            multi_az: self.policy.multi_az,
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
            cool_down_ms: COOL_DOWN_MS,
        }
    }

    fn numbers(&self, index: usize) -> Report {
        let plane = &self.planes[index];
        let policy = self.policy;
        let total = policy.per_node.times(u64::from(plane.nodes));
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
                self.at(now + 10, Event::Look { region });
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
                    let plane = &mut self.planes[index];
                    plane.used = plane.used.plus(one.need);
                    plane.kafkas += 1;
                    self.given.remove(&kafka);
                    self.outcome.placed += 1;
                    self.outcome.waited_minutes += waited;
                    self.at(self.now + one.stays, Event::Leaves { plane: index, kafka });
                }
                None if waited >= self.policy.patience_minutes => self.outcome.refused += 1,
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
            multi_az: self.policy.multi_az,
            state: plane.state,
            draining: false,
            free: self.policy.per_node.times(u64::from(nodes)).less(plane.used),
            growth: growth(&self.facts(index), &self.numbers(index)),
        }
    }

    fn change_planes(&mut self, region: usize) {
        let planes = self.by_region[region].iter().map(|index| {
            let plane = &self.planes[*index];
            PlaneInRegion {
                id: index.to_string(),
                state: plane.state,
                multi_az: self.policy.multi_az,
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
        let facts = RegionFacts { planes, unplaced, waiting, planes_max: u64::MAX };
        if plan_creation(&facts).create {
            self.create(region);
        }
        for removal in plan_removals(&facts).into_iter().filter(|removal| removal.remove) {
            let Ok(index) = removal.id.parse::<usize>() else { continue };
            self.planes[index].state = PlaneState::Cleanup;
            self.by_region[region].retain(|one| *one != index);
            self.outcome.planes_removed += 1;
        }
    }

    fn create(&mut self, region: usize) {
        let plane = self.planes.len();
        self.planes.push(Plane {
            region,
            state: PlaneState::Provisioning,
            nodes: self.policy.nodes_min,
            coming: None,
            used: Capacity::default(),
            kafkas: 0,
            last_up: None,
            last_down: None,
        });
        self.by_region[region].push(plane);
        self.outcome.planes_created += 1;
        let there: usize = self.by_region.iter().map(Vec::len).sum();
        self.outcome.planes_peak = self.outcome.planes_peak.max(there as u64);
        self.at(self.now + self.policy.plane_minutes, Event::PlaneCame { plane });
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

    fn room(connections: u64) -> Capacity {
        Capacity { connections, partitions: connections, ..Capacity::default() }
    }

    fn policy() -> Policy {
        Policy {
            headroom: room(100),
            per_node: room(100),
            nodes_min: 3,
            nodes_max: 9,
            node_delta: 3,
            multi_az: true,
            node_minutes: 5,
            plane_minutes: 40,
            patience_minutes: 60,
            by_the_letter: false,
        }
    }

    fn arrivals(count: u64, every: u64, stays: u64) -> Vec<Arrival> {
        let one =
            |index| Arrival { at: index * every, stays, region: "r".to_owned(), need: room(100) };
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
    }

    #[test]
    fn by_the_letter_nodes_go_and_come_back() {
        // Six nodes with 301 free: the three that go are missed at once.
        let need = Capacity { connections: 299, partitions: 299, ..Capacity::default() };
        let mut all = vec![Arrival { at: 0, stays: 20_000, region: "r".to_owned(), need }];
        all.extend((1..50).map(|index| Arrival {
            at: 100 * index,
            stays: 10,
            region: "r".to_owned(),
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
                    need: room(800),
                });
            }
        }
        let outcome = simulate(&all, &policy());
        assert!(outcome.planes_peak >= 10_000, "{outcome:?}");
        assert_eq!(outcome, simulate(&all, &policy()));
    }
}
