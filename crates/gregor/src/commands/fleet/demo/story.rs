//! What happens in the demonstration, turn by turn, and the timeline of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::tenants;
use super::view::{Decision, Fleet, Kafka, ORGANISATIONS, Plane, View};
use crate::output::Out;

/// The least and the most nodes of a data plane.
pub(super) const NODES_MIN: u32 = 3;
pub(super) const NODES_MAX: u32 = 4;

/// The connections that a Kafka takes, and that a node gives room for.
pub(super) const ROOM: u64 = 100;

/// No more Kafkas than a small machine can run.
const KAFKAS_MAX: usize = 8;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(400);

/// The turns, in the order in which they are to be seen.
const TURNS: [&str; 7] = [
    "a first data plane was created and became ready",
    "a node was added when there was no capacity for one more Kafka",
    "each of two organisations reached its own Kafka, and was refused by the other's",
    "the data plane became full and another one was created",
    "the next Kafka went to the new data plane and runs there",
    "the empty data plane was removed",
    "the node that was no longer needed was removed",
];

/// The story, as far as it was told.
pub(super) struct Story<'a> {
    fleet: Fleet,
    timeline: Timeline<'a>,
    patience: Duration,
    view: View,
    created: usize,
    seen: Vec<&'static str>,
}

impl<'a> Story<'a> {
    pub(super) fn new(fleet: Fleet, out: &'a mut Out, patience: Duration) -> Self {
        let timeline = Timeline::new(out);
        Self { fleet, timeline, patience, view: View::default(), created: 0, seen: Vec::new() }
    }

    /// Tells all of it, and then which turns were seen.
    ///
    /// # Errors
    /// If one was not seen in time.
    pub(super) async fn tell(mut self) -> anyhow::Result<()> {
        let told = self.turns().await;
        let mut text = String::from("\n");
        for turn in TURNS {
            let mark = if self.seen.contains(&turn) { "seen  " } else { "MISSED" };
            // Writing to a string does not fail.
            let _ = writeln!(text, "  {mark}  {turn}");
        }
        self.timeline.out.text(&text)?;
        told
    }

    async fn turns(&mut self) -> anyhow::Result<()> {
        self.timeline.say("a region without data planes is a region that gets one")?;
        self.until("a data plane", |view| view.planes.iter().any(is_ready)).await?;
        let first = self.view.planes[0].id.clone();
        self.turn(0)?;

        self.timeline.say("Kafkas are created until there is no capacity for one more")?;
        let nodes = |view: &View| view.plane(&first).and_then(|plane| plane.nodes);
        while self.room(&first) >= ROOM && nodes(&self.view) == Some(NODES_MIN) {
            self.one_more_kafka().await?;
            self.until_counted(&first).await?;
        }
        let grown = |plane: &Plane| plane.nodes == Some(NODES_MAX) && is_ready(plane);
        self.until("one more node", |view| view.plane(&first).is_some_and(grown)).await?;
        self.turn(1)?;

        self.timeline.say("two organisations with a Kafka each try to reach the other's")?;
        for line in tenants::check(&self.fleet, &self.view, &first, self.patience).await? {
            self.timeline.say(&format!("  {line}"))?;
        }
        self.turn(2)?;

        self.timeline.say("and more, until nodes may not be added any more")?;
        while self.room(&first) >= ROOM {
            self.one_more_kafka().await?;
            self.until_counted(&first).await?;
        }
        let is_full = |plane: &Plane| plane.status == "full";
        self.until("a full data plane", |view| view.plane(&first).is_some_and(is_full)).await?;
        let other = |view: &View| {
            view.planes.iter().find(|plane| plane.id != first && is_ready(plane)).cloned()
        };
        self.until("another data plane", |view| other(view).is_some()).await?;
        let second = other(&self.view).map(|plane| plane.id).unwrap_or_default();
        self.turn(3)?;

        self.one_more_kafka().await?;
        let name = kafka_name(self.created);
        let on_second = |view: &View| {
            let kafka = view.kafka(&name);
            kafka.is_some_and(|kafka| view.place_of(kafka) == Some(second.as_str()))
        };
        anyhow::ensure!(on_second(&self.view), "{name} is not on the new data plane");
        self.turn(4)?;

        self.shrink(&first, &second).await
    }

    /// Kafkas are deleted, the last one first, until one node is empty besides the one that is kept free.
    async fn shrink(&mut self, first: &str, second: &str) -> anyhow::Result<()> {
        self.timeline.say("Kafkas are deleted, the last one first")?;
        let kept = usize::try_from(NODES_MIN).unwrap_or(usize::MAX) - 1;
        while self.view.kafkas.len() > kept {
            let Some(kafka) = self.view.kafkas.last().cloned() else { break };
            self.fleet.delete(&kafka).await?;
            let gone = |view: &View| view.kafka(&kafka.name).is_none();
            self.until(&format!("the end of {}", kafka.name), gone).await?;
        }
        self.until("the end of the empty data plane", |view| view.plane(second).is_none()).await?;
        self.turn(5)?;
        let shrunk = |plane: &Plane| plane.nodes == Some(NODES_MIN) && is_ready(plane);
        self.until("one node less", |view| view.plane(first).is_some_and(shrunk)).await?;
        self.turn(6)
    }

    fn turn(&mut self, number: usize) -> anyhow::Result<()> {
        self.seen.push(TURNS[number]);
        self.timeline.say(&format!("** {}", TURNS[number]))
    }

    /// The room that is left, as the last report says.
    fn room(&self, plane: &str) -> u64 {
        self.view.plane(plane).and_then(|plane| plane.remaining_connections).unwrap_or(0)
    }

    async fn one_more_kafka(&mut self) -> anyhow::Result<()> {
        anyhow::ensure!(self.created < KAFKAS_MAX, "{KAFKAS_MAX} Kafkas were not enough");
        self.created += 1;
        let name = kafka_name(self.created);
        self.fleet.create(&name, self.created % ORGANISATIONS.len()).await?;
        let ready = |view: &View| view.kafka(&name).is_some_and(|kafka| kafka.status == "ready");
        self.until(&format!("{name} to run"), ready).await
    }

    /// Waits for a report that counts all nodes and all Kafkas of a data plane.
    async fn until_counted(&mut self, id: &str) -> anyhow::Result<()> {
        let counted = |view: &View| {
            let on = |kafka: &&Kafka| view.place_of(kafka) == Some(id);
            let kafkas = view.kafkas.iter().filter(on).count() as u64;
            let Some(plane) = view.plane(id) else { return false };
            let left = |nodes: u32| (u64::from(nodes) * ROOM).saturating_sub(kafkas * ROOM);
            plane.nodes.is_some() && plane.nodes.map(left) == plane.remaining_connections
        };
        self.until("a report that counts it", counted).await
    }

    /// Looks, and shows what is new, until it holds.
    async fn until(&mut self, what: &str, holds: impl Fn(&View) -> bool) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            self.view = self.fleet.look().await?;
            self.timeline.show(&self.view)?;
            if holds(&self.view) {
                return Ok(());
            }
            let seconds = self.patience.as_secs();
            anyhow::ensure!(begun.elapsed() < self.patience, "{what} not seen within {seconds} s");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn is_ready(plane: &Plane) -> bool {
    plane.status == "ready"
}

fn kafka_name(number: usize) -> String {
    format!("kafka-{number}")
}

/// Prints what is new, with the time since the start.
struct Timeline<'a> {
    out: &'a mut Out,
    begun: Instant,
    /// Ids and what people call them.
    names: BTreeMap<String, String>,
    planes: usize,
    told: BTreeSet<String>,
    state: String,
}

impl<'a> Timeline<'a> {
    fn new(out: &'a mut Out) -> Self {
        Self {
            out,
            begun: Instant::now(),
            names: BTreeMap::new(),
            planes: 0,
            told: BTreeSet::new(),
            state: String::new(),
        }
    }

    fn say(&mut self, sentence: &str) -> anyhow::Result<()> {
        let seconds = self.begun.elapsed().as_secs();
        self.out.text(&format!("{:>2}:{:02}  {sentence}\n", seconds / 60, seconds % 60))
    }

    fn show(&mut self, view: &View) -> anyhow::Result<()> {
        self.name(view);
        for decision in &view.decisions {
            if self.told.insert(decision.id.clone()) {
                let sentence = sentence(decision, &self.names);
                self.say(&format!("  {sentence}"))?;
            }
        }
        let state = state(view, &self.names);
        if state != self.state {
            self.say(&format!("      {state}"))?;
            self.state = state;
        }
        Ok(())
    }

    /// Data planes are counted in the order in which they were created, also those that are gone.
    fn name(&mut self, view: &View) {
        let created = view.decisions.iter().filter(|one| one.kind == "create");
        for id in created.filter_map(|one| one.data_plane_id.as_deref()) {
            if !self.names.contains_key(id) {
                self.planes += 1;
                self.names.insert(id.to_owned(), format!("plane-{}", self.planes));
            }
        }
        for kafka in &view.kafkas {
            self.names.entry(kafka.id.clone()).or_insert_with(|| kafka.name.clone());
        }
    }
}

/// What was decided, and why.
fn sentence(decision: &Decision, names: &BTreeMap<String, String>) -> String {
    let Decision { kind, was, becomes, reason, .. } = decision;
    let plane = decision.data_plane_id.as_deref().unwrap_or("the region");
    let text = match kind.as_str() {
        "create" => format!("{plane} is created: {reason}"),
        "nodes" => format!("{plane} goes from {was} to {becomes} nodes: {reason}"),
        "place" => format!("{becomes} is placed on {plane}: {reason}"),
        _ => format!("{plane} goes from {was} to {becomes}: {reason}"),
    };
    names.iter().fold(text, |text, (id, name)| text.replace(id, name))
}

/// Everything that there is, in one line.
fn state(view: &View, names: &BTreeMap<String, String>) -> String {
    let name = |id: &str| names.get(id).cloned().unwrap_or_else(|| id.to_owned());
    let mut parts = Vec::new();
    for plane in &view.planes {
        let nodes = plane.nodes.map_or_else(|| "no nodes yet".to_owned(), |n| format!("{n} nodes"));
        let mut part = format!("{} {}, {nodes}", name(&plane.id), plane.status);
        let here = |kafka: &&Kafka| view.place_of(kafka) == Some(plane.id.as_str());
        for kafka in view.kafkas.iter().filter(here) {
            let _ = write!(part, ", {} {}", kafka.name, kafka.status);
        }
        parts.push(part);
    }
    let waiting = view.kafkas.iter().filter(|kafka| view.place_of(kafka).is_none());
    parts.extend(waiting.map(|kafka| format!("{} {}", kafka.name, kafka.status)));
    format!("[{}]", parts.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_names_in_place_of_ids() {
        let plane = Plane {
            id: "0a".to_owned(),
            status: "ready".to_owned(),
            remaining_connections: None,
            nodes: Some(3),
        };
        let kafka = |number: usize| Kafka {
            id: format!("k{number}"),
            name: kafka_name(number),
            status: "accepted".to_owned(),
            organisation: 0,
        };
        let decision = Decision {
            id: "1".to_owned(),
            data_plane_id: Some("0a".to_owned()),
            kind: "place".to_owned(),
            was: String::new(),
            becomes: "k1".to_owned(),
            reason: "the tightest of 1".to_owned(),
        };
        let names = BTreeMap::from([("0a", "plane-1"), ("k1", "kafka-1")]);
        let names = names.into_iter().map(|(id, name)| (id.to_owned(), name.to_owned())).collect();
        let told = sentence(&decision, &names);
        assert_eq!(told, "kafka-1 is placed on plane-1: the tightest of 1");
        let view = View {
            planes: vec![plane],
            kafkas: vec![kafka(1), kafka(2)],
            decisions: vec![decision],
        };
        let expected = "[plane-1 ready, 3 nodes, kafka-1 accepted | kafka-2 accepted]";
        assert_eq!(state(&view, &names), expected);
    }
}
