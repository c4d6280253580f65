//! `gregor kafka topics`: topics or partitions, a page at a time, so that a large cluster streams.

use anyhow::{Context as _, bail};
use clap::Args;
use kafka_admin::{Partition, Topic, TopicPage};
use model::TopicName;
use serde::Serialize;

use super::connection::Session;
use super::health::{Health, read_min_isr, settled_replicas, under_min_isr, under_replicated};
use crate::output::{Format, Grid, Out, list, note, optional, terminal_width};

pub(super) const EXAMPLE: &str = "\
Examples:
  gregor kafka topics                           all topics but Kafka's own
  gregor kafka topics --unhealthy --partitions  every partition that is in trouble";

/// Topics to show, and the level of detail.
#[derive(Debug, Args)]
pub(super) struct Topics {
    /// Names of topics [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<TopicName>,
    /// Include internal topics
    #[arg(long)]
    internal: bool,
    /// Only partitions that are under-replicated, under min-ISR, or without a leader
    #[arg(long)]
    unhealthy: bool,
    /// One line per partition instead of per topic
    #[arg(long)]
    partitions: bool,
}

/// A topic, as printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct TopicView {
    name: String,
    internal: bool,
    /// Minimum and maximum number of replicas of a partition; usually equal.
    replication_factor_min: usize,
    replication_factor_max: usize,
    min_insync_replicas: Option<usize>,
    health: Health,
    /// Only if partitions were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<Vec<PartitionView>>,
}

/// A partition, as printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct PartitionView {
    partition: i32,
    leader: Option<i32>,
    leader_epoch: i32,
    replicas: Vec<i32>,
    isr: Vec<i32>,
    offline: Vec<i32>,
    eligible_leaders: Vec<i32>,
    adding: Vec<i32>,
    removing: Vec<i32>,
    under_replicated: bool,
    under_min_isr: Option<bool>,
}

impl Topics {
    pub(super) async fn run(self, session: &Session, out: &mut Out) -> anyhow::Result<()> {
        session.require_brokers("topics")?;
        let mut pages = session.admin.topic_pages(&self.names);
        let mut printer = Printer::new(out.format, self.partitions);
        let mut refused = 0;
        while let Some(page) = pages.next().await? {
            let min_isr = read_min_isr(&session.admin, &page).await?;
            let shown = page.topics.iter().filter(|topic| self.wants(topic));
            let views = shown.map(|topic| self.view(topic, min_isr.get(&topic.name).copied()));
            let views: Vec<_> = views.filter(|view| self.shows(view)).collect();
            out.text(&printer.page(&views, terminal_width())?)?;
            refused += tell_refused(&page);
            if out.reader_gone() {
                return Ok(());
            }
        }
        out.text(&printer.end())?;
        if !printer.anything && refused == 0 {
            note(if self.unhealthy { "no topic is in trouble" } else { "there are no topics" });
        }
        if refused > 0 {
            bail!("Kafka did not show {refused} of the topics");
        }
        Ok(())
    }

    /// A topic that is selected by name is shown even if it is internal.
    fn wants(&self, topic: &Topic) -> bool {
        self.internal || !topic.internal || !self.names.is_empty()
    }

    fn view(&self, topic: &Topic, min_isr: Option<usize>) -> TopicView {
        let factors = topic.partitions.iter().map(settled_replicas);
        let views = topic.partitions.iter().map(|p| PartitionView::new(p, min_isr));
        let wanted = |view: &PartitionView| !self.unhealthy || view.is_bad();
        TopicView {
            name: topic.name.to_string(),
            internal: topic.internal,
            replication_factor_min: factors.clone().min().unwrap_or(0),
            replication_factor_max: factors.max().unwrap_or(0),
            min_insync_replicas: min_isr,
            health: Health::of(topic, min_isr),
            partitions: self.partitions.then(|| views.filter(wanted).collect()),
        }
    }

    fn shows(&self, view: &TopicView) -> bool {
        !self.unhealthy || view.health.is_bad()
    }
}

/// Reports topics that Kafka did not return, and counts them.
fn tell_refused(page: &TopicPage) -> usize {
    for (name, refusal) in &page.refused {
        note(&format!("topic {name}: {refusal}"));
    }
    page.refused.len()
}

impl PartitionView {
    fn new(partition: &Partition, min_isr: Option<usize>) -> Self {
        let numbers = |ids: &[model::NodeId]| ids.iter().map(|id| id.get()).collect::<Vec<_>>();
        Self {
            partition: partition.id.0,
            leader: partition.leader.map(|id| id.get()),
            leader_epoch: partition.leader_epoch,
            replicas: numbers(&partition.replicas),
            isr: numbers(&partition.isr),
            offline: numbers(&partition.offline),
            eligible_leaders: numbers(&partition.eligible_leaders),
            adding: numbers(&partition.adding),
            removing: numbers(&partition.removing),
            under_replicated: under_replicated(partition),
            under_min_isr: min_isr.map(|min_isr| under_min_isr(partition, min_isr)),
        }
    }

    fn is_bad(&self) -> bool {
        self.under_replicated || self.under_min_isr == Some(true) || self.leader.is_none()
    }
}

/// Prints pages as one table, or as one JSON array with a topic per line.
struct Printer {
    format: Format,
    grid: Grid,
    partitions: bool,
    /// Whether any topic was printed.
    anything: bool,
}

impl Printer {
    fn new(format: Format, partitions: bool) -> Self {
        let topic =
            ["TOPIC", "PARTITIONS", "RF", "UNDER-REPLICATED", "UNDER-MIN-ISR", "OFFLINE", "MOVING"];
        let partition =
            ["TOPIC", "PARTITION", "LEADER", "REPLICAS", "ISR", "OFFLINE", "ADDING", "REMOVING"];
        let grid = if partitions { Grid::new(&partition) } else { Grid::new(&topic) };
        Self { format, grid, partitions, anything: false }
    }

    fn page(&mut self, views: &[TopicView], width: Option<u16>) -> anyhow::Result<String> {
        if self.format == Format::Json {
            return self.json_page(views);
        }
        if views.is_empty() {
            return Ok(String::new());
        }
        self.anything = true;
        for view in views {
            match &view.partitions {
                Some(partitions) if self.partitions => {
                    partitions.iter().for_each(|p| self.partition_row(&view.name, p));
                }
                _ => self.topic_row(view),
            }
        }
        Ok(self.grid.take(width))
    }

    fn json_page(&mut self, views: &[TopicView]) -> anyhow::Result<String> {
        let mut text = String::new();
        for view in views {
            text.push_str(if self.anything { ",\n" } else { "[\n" });
            text.push_str(&serde_json::to_string(view).context("cannot write JSON")?);
            self.anything = true;
        }
        Ok(text)
    }

    fn end(&self) -> String {
        let end = match (self.format, self.anything) {
            (Format::Table, _) => "",
            (Format::Json, true) => "\n]\n",
            (Format::Json, false) => "[]\n",
        };
        end.to_owned()
    }

    fn topic_row(&mut self, view: &TopicView) {
        let (min, max) = (view.replication_factor_min, view.replication_factor_max);
        let factor = if min == max { min.to_string() } else { format!("{min} to {max}") };
        let health = &view.health;
        self.grid.row([
            view.name.clone(),
            health.partitions.to_string(),
            factor,
            health.under_replicated.to_string(),
            optional(health.under_min_isr),
            health.offline.to_string(),
            health.reassigning.to_string(),
        ]);
    }

    fn partition_row(&mut self, topic: &str, view: &PartitionView) {
        self.grid.row([
            topic.to_owned(),
            view.partition.to_string(),
            view.leader.map_or("none".to_owned(), |id| id.to_string()),
            list(&view.replicas),
            list(&view.isr),
            list(&view.offline),
            list(&view.adding),
            list(&view.removing),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::health::tests::{ids, partition, topic};
    use super::*;

    fn asked(unhealthy: bool, partitions: bool) -> Topics {
        Topics { names: vec![], internal: false, unhealthy, partitions }
    }

    fn topics() -> Vec<Topic> {
        let mut moving = partition(1, &[1, 2, 3], &[1, 2]);
        moving.adding = ids(&[3]);
        moving.removing = ids(&[1]);
        let mut offline = partition(0, &[1], &[]);
        offline.offline = ids(&[1]);
        let good = topic("good", vec![partition(0, &[1, 2], &[1, 2]), moving]);
        vec![good, topic("bad", vec![offline, partition(1, &[2, 1], &[2, 1])])]
    }

    fn print(asked: &Topics, format: Format) -> String {
        let mut printer = Printer::new(format, asked.partitions);
        let mut text = String::new();
        // A page for each, as with small pages.
        for topic in topics().iter().filter(|topic| asked.wants(topic)) {
            let view = asked.view(topic, Some(1));
            let views: Vec<_> = [view].into_iter().filter(|view| asked.shows(view)).collect();
            text += &printer.page(&views, None).unwrap();
        }
        text + &printer.end()
    }

    #[test]
    fn a_line_for_each_topic() {
        let expected = "\
TOPIC  PARTITIONS  RF      UNDER-REPLICATED  UNDER-MIN-ISR  OFFLINE  MOVING
good   2           2       0                 0              0        1
bad    2           1 to 2  1                 1              1        0
";
        // Widths come from what was printed so far, so the title is as wide as the first page.
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeezed(&print(&asked(false, false), Format::Table)), squeezed(expected));
    }

    #[test]
    fn a_line_for_each_partition_in_trouble() {
        let expected = "\
TOPIC  PARTITION  LEADER  REPLICAS  ISR  OFFLINE  ADDING  REMOVING
bad    0          none    1         -    1        -       -
";
        assert_eq!(print(&asked(true, true), Format::Table), expected);
        let all = print(&asked(false, true), Format::Table);
        assert!(
            all.contains("\ngood   1          1       1,2,3     1,2  -        3       1\n"),
            "{all}"
        );
    }

    #[test]
    fn json_is_one_array_however_many_pages() {
        let json: serde_json::Value =
            serde_json::from_str(&print(&asked(false, true), Format::Json)).unwrap();
        assert_eq!(json.as_array().unwrap().len(), 2);
        assert_eq!(json[0]["partitions"][1]["adding"], serde_json::json!([3]));
        assert_eq!(json[1]["health"]["offline"], 1);
        assert_eq!(json[1]["replicationFactorMin"], 1);
        let none = Printer::new(Format::Json, false).end();
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&none).unwrap(),
            serde_json::json!([])
        );
    }
}
