//! `gregor balance`: where replicas should be, for a cluster that runs or that files describe.
//!
//! It only plans; nothing is moved.

mod disks;
mod files;
mod live;
mod show;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use control::rebalance::load::Unknown;
use model::{NodeId, TopicName};
use placement::{BrokerState, Goal, Goals, Rate, View};

use self::disks::Volume;
use super::kafka::connection::Connection;
use crate::failure::Usage;
use crate::output::{Format, Out, note};

pub(super) const HELP: &str = "\
DIR holds brokers.csv and partitions.csv or partitions.csv.gz:
  id,rack,cpu_capacity_pct,nw_in_capacity_kbps,nw_out_capacity_kbps,disk_capacity_mb,state
  topic,partition,replicas,cpu_pct,nw_in_kbps,nw_out_kbps,disk_mb
where state is alive, new, remove or dead, replicas are ids separated by ; with the leader first, and
the numbers of a partition are the load of its leader.

Of a cluster that runs, sizes come from the brokers' disks, and what comes in from how far partitions grow
while they are watched (--sample). What goes out and processor time are not known, nor what brokers can take of
the network, so that no goal about these counts.

Examples:
  gregor balance --from cluster/
  gregor balance --bootstrap kafka:9092 --remove 4
  gregor balance --bootstrap kafka:9092 --sample 60 --save cluster/
  gregor balance --bootstrap kafka:9092 --mode remove-disks --volumes 2:/var/lib/kafka/data-1/kafka-log2
  gregor balance --from cluster/ --remove 4,5 -o json > reassignment.json
  gregor balance --from cluster/ --goals RackAware,DiskUsageDistribution --skip-hard-goal-check

Exit codes:
  0  there is a plan, and every hard goal holds with it (perhaps nothing needs to move)
  1  there is none: the reason is on stderr
  2  invalid command line";

/// Output format of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlanFormat {
    /// Goals and brokers before and after, as tables
    Table,
    /// The changes as JSON, readable by Kafka's reassignment tool
    Json,
    /// The complete assignment: topic,partition,replicas
    Csv,
}

/// Purpose of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Balance all brokers equally, including those that are marked as removed
    Full,
    /// Fill new brokers, and balance what remains uneven
    AddBrokers,
    /// Drain brokers, and move nothing else
    RemoveBrokers,
    /// Drain disks (--volumes) to other disks of the same broker
    RemoveDisks,
}

/// Options of the optimizer.
#[derive(Debug, Args)]
pub(crate) struct Balance {
    /// Directory that describes the cluster, instead of a running one
    #[arg(long, value_name = "DIR", conflicts_with_all = ["bootstrap", "sample", "save"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    connection: Connection,
    /// How long to observe a running cluster to measure inbound traffic; 0 for not at all
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u64).range(..=SAMPLE_SECONDS_MAX))]
    sample: u64,
    /// Write the measured load of a running cluster to this directory, for --from
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Purpose of the plan [default: derived from --add, --remove and the states of brokers]
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Disks to drain, for --mode remove-disks
    #[arg(long, value_name = "BROKER:DIR,…", value_delimiter = ',')]
    volumes: Vec<Volume>,
    /// Goals, most important first, instead of the default list
    #[arg(long, value_name = "GOAL,…", value_delimiter = ',')]
    goals: Vec<Goal>,
    /// Accept a list of goals without all hard ones
    #[arg(long)]
    skip_hard_goal_check: bool,
    /// New brokers to fill, overriding the file
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    add: Vec<NodeId>,
    /// Brokers to drain, overriding the file
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    remove: Vec<NodeId>,
    /// Topics whose replicas stay unless their broker is removed
    #[arg(long, value_name = "TOPIC,…", value_delimiter = ',')]
    exclude_topics: Vec<TopicName>,
    /// Output format of the plan
    #[arg(short, long, value_enum, default_value_t = PlanFormat::Table)]
    output: PlanFormat,
}

/// A longer observation is most likely a mistake.
const SAMPLE_SECONDS_MAX: u64 = 3_600;

/// A cluster to plan for.
struct Cluster {
    view: View,
    /// Description of its source.
    named: String,
    /// What is unknown.
    unknown: Vec<Unknown>,
}

impl Balance {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        self.check()?;
        let goals = self.goal_list()?;
        if self.mode == Some(Mode::RemoveDisks) {
            return disks::run(&self);
        }
        let cluster = match &self.from {
            Some(dir) => self.read_files(dir)?,
            None => live::read(&self)?,
        };
        let Cluster { view, named, unknown } = cluster;
        for id in self.add.iter().chain(&self.remove) {
            if !view.brokers().iter().any(|broker| broker.id == *id) {
                bail!("broker {id} is not in {named}");
            }
        }
        let needed = match self.mode {
            Some(Mode::AddBrokers) => Some((BrokerState::New, "new: name some with --add")),
            Some(Mode::RemoveBrokers) => {
                Some((BrokerState::Removed, "to be removed: name some with --remove"))
            }
            _ => None,
        };
        if let Some((state, words)) = needed
            && !view.brokers().iter().any(|broker| broker.state == state)
        {
            bail!("no broker of {named} is {words}");
        }
        if let Some(dir) = &self.save {
            files::write(dir, &view)?;
        }
        // A goal about something that is not known would rest on nothing.
        let rates: Vec<Rate> = unknown.iter().flat_map(Unknown::rates).copied().collect();
        let goals = goals.without(&rates);
        let begun = Instant::now();
        let (plan, report) = placement::plan(&view, &goals);
        let took = begun.elapsed();
        let mut out = Out::new(Format::Table);
        match self.output {
            PlanFormat::Table => out.text(&show::table(&view, &plan, &report, took))?,
            PlanFormat::Json => out.text(&show::json(&plan, &report, &unknown)?)?,
            PlanFormat::Csv => out.text(&show::csv(&view, &plan))?,
        }
        for unknown in &unknown {
            note(&format!("The plan rests on part of what there is to know: {unknown}."));
        }
        if !report.after.is_acceptable() {
            bail!("{}", show::infeasible(&view, &report));
        }
        for sentence in show::remarks(&report) {
            note(&sentence);
        }
        Ok(())
    }

    /// Rejects options that exclude each other.
    fn check(&self) -> anyhow::Result<()> {
        let with_volumes = self.mode == Some(Mode::RemoveDisks);
        let wrong = match self.mode {
            Some(Mode::Full) if !self.add.is_empty() || !self.remove.is_empty() => {
                "--mode full treats all brokers alike: omit --add and --remove"
            }
            Some(Mode::AddBrokers) if !self.remove.is_empty() => {
                "--mode add-brokers does not drain brokers: omit --remove"
            }
            Some(Mode::RemoveBrokers) if !self.add.is_empty() => {
                "--mode remove-brokers does not fill brokers: omit --add"
            }
            Some(Mode::RemoveDisks) if self.from.is_some() => {
                "a folder does not say which disks brokers have: --mode remove-disks needs --bootstrap"
            }
            Some(Mode::RemoveDisks) if self.output == PlanFormat::Csv => {
                "no replica leaves its broker with --mode remove-disks: -o table or json shows the disks"
            }
            _ if with_volumes == self.volumes.is_empty() => {
                "--mode remove-disks and --volumes go together"
            }
            _ => return Ok(()),
        };
        Err(Usage::error(wrong))
    }

    /// The state of a broker in the plan, given its state in the file.
    fn state(&self, id: NodeId, given: BrokerState) -> BrokerState {
        let named = if self.remove.contains(&id) {
            BrokerState::Removed
        } else if self.add.contains(&id) {
            BrokerState::New
        } else {
            given
        };
        match (self.mode, named) {
            (Some(Mode::Full), _)
            | (Some(Mode::AddBrokers), BrokerState::Removed)
            | (Some(Mode::RemoveBrokers), BrokerState::New) => BrokerState::Alive,
            _ => named,
        }
    }

    fn read_files(&self, dir: &Path) -> anyhow::Result<Cluster> {
        let state = |id: NodeId, given: BrokerState| self.state(id, given);
        let mut builder = files::read(dir, &state)?;
        for topic in &self.exclude_topics {
            builder.pin(topic);
        }
        let named = dir.display().to_string();
        let view = builder.build().with_context(|| format!("in {named}"))?;
        Ok(Cluster { view, named, unknown: Vec::new() })
    }

    fn goal_list(&self) -> anyhow::Result<Goals> {
        if self.goals.is_empty() {
            return Ok(Goals::default());
        }
        let list = Goals::new(self.goals.clone(), self.skip_hard_goal_check);
        list.context("the list of goals cannot be used (--skip-hard-goal-check allows it)")
    }
}
