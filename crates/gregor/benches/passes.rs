//! Calls of one reconciliation pass over a settled cluster of three controllers and three brokers, with real
//! Kafka nodes: requests to the API server by verb and resource, calls to Kafka by kind. Then the calls per minute
//! of the same operator while nothing changes.
//!
//! `GREGOR_BENCH_BINARY` names the `gregor` binary of another build. It is measured in the same way, with its own
//! operator and nodes, and its figures are printed in a second column. Only metrics are read, so any build works
//! that exposes them.
//!
//! It fails if this build makes more calls per pass than [`BARS`] allow.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking, in its helpers too")]

#[path = "../tests/kafka/mod.rs"]
mod kafka;
#[path = "../tests/up/mod.rs"]
mod up;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kafka::{Ground, Place, wait_for_mut};
use up::World;

const OTHER_BINARY: &str = "GREGOR_BENCH_BINARY";
const CLUSTER: &str = "my-cluster";
/// Enough to notice calls that only some passes make.
const PASSES: u64 = 20;
/// The operator reconciles an idle cluster every two minutes, so this takes four.
const IDLE_PASSES: u64 = 2;
/// The calls that one pass may make on average. It made as many when the bars were set; a pass that needs more is
/// a change to argue for, as every cluster makes them every two minutes and on each event.
/// A pass that has nothing to write reads no objects. The process makes some requests on its own clock, such as a list of
/// Deployments every 20 s; they are counted too. They are far less than one call per pass, so a bar is exceeded by half a
/// call; a single write exceeds its bar.
const BARS: [(&str, Family, f64); 3] = [
    ("API calls", Family::Api, 0.5),
    ("Kafka calls", Family::Kafka, 3.5),
    ("writes", Family::Write, 0.0),
];
/// Longer than any requeue of a cluster that is still waiting for something.
const QUIET: Duration = Duration::from_secs(20);

fn main() {
    let own = PathBuf::from(env!("CARGO_BIN_EXE_gregor"));
    // Cargo runs this program in the folder of its crate, so that a relative path would be misleading.
    let other = std::env::var_os(OTHER_BINARY).map(|path| {
        assert!(Path::new(&path).is_absolute(), "{OTHER_BINARY} must be an absolute path");
        PathBuf::from(path)
    });
    let mut columns = vec![("this build".to_owned(), Measured::of(own))];
    if let Some(other) = other {
        columns.push((other.display().to_string(), Measured::of(other)));
    }
    print(&columns);
    let (_, own) = &columns[0];
    let over = own.over_bars();
    assert!(over.is_empty(), "a settled pass makes more calls than it may: {}", over.join(", "));
    println!("\nno more calls per pass than the bars allow");
}

/// Counters of the operator by family and labels, or the growth of each.
#[derive(Debug, Clone, Default)]
struct Counters(BTreeMap<(Family, String), u64>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Family {
    /// Requests to the API server, without those of the process.
    Api,
    /// Requests that the process makes without any pass: watches, and renewals of its Lease.
    Process,
    Kafka,
    /// Writes that changed an object.
    Write,
    Begun,
    Successful,
    Failed,
    /// Passes over pod sets, which have a controller of their own.
    PodSet,
}

impl Counters {
    fn parse(page: &str) -> Self {
        let mut all = Self::default();
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let Some((metric, labels)) = name.split_once('{') else { continue };
            if let (Some(key), Ok(value)) = (key(metric, labels), value.parse::<u64>()) {
                *all.0.entry(key).or_default() += value;
            }
        }
        all
    }

    fn sum(&self, family: Family) -> u64 {
        self.of(family).map(|(_, count)| count).sum()
    }

    fn of(&self, family: Family) -> impl Iterator<Item = (&str, u64)> {
        let of_family = self.0.iter().filter(move |((one, _), _)| *one == family);
        of_family.map(|((_, name), count)| (name.as_str(), *count))
    }

    fn ended(&self) -> u64 {
        self.sum(Family::Successful) + self.sum(Family::Failed)
    }

    fn since(&self, before: &Self) -> Self {
        let grown = |(key, now): (&(Family, String), &u64)| {
            let then = before.0.get(key).copied().unwrap_or_default();
            (key.clone(), now.checked_sub(then).expect("the operator was restarted"))
        };
        Self(self.0.iter().map(grown).filter(|(_, count)| *count > 0).collect())
    }

    fn add(&mut self, other: Self) {
        for (key, count) in other.0 {
            *self.0.entry(key).or_default() += count;
        }
    }
}

/// The family of a metric, and the name under which its count is shown.
fn key(metric: &str, labels: &str) -> Option<(Family, String)> {
    let labels: BTreeMap<&str, &str> = labels
        .trim_end_matches('}')
        .split(',')
        .filter_map(|label| label.split_once('='))
        .map(|(name, value)| (name, value.trim_matches('"')))
        .collect();
    let label = |name: &str| labels.get(name).copied().unwrap_or_default();
    let pass = |family: Family| (label("kind") == "Kafka").then(|| (family, "Kafka".to_owned()));
    match metric {
        "gregor_api_calls_total" => {
            let (verb, resource) = (label("verb"), label("resource"));
            let of_process = verb == "watch" || resource == "leases";
            let family = if of_process { Family::Process } else { Family::Api };
            Some((family, format!("{verb} {resource}")))
        }
        "gregor_kafka_calls_total" => Some((Family::Kafka, label("call").to_owned())),
        "gregor_writes_total" if label("outcome") == "Changed" => {
            Some((Family::Write, format!("{} {}", label("verb"), label("kind"))))
        }
        "strimzi_reconciliations_total" if label("kind") == "StrimziPodSet" => {
            Some((Family::PodSet, "StrimziPodSet".to_owned()))
        }
        "strimzi_reconciliations_total" => pass(Family::Begun),
        "strimzi_reconciliations_successful_total" => pass(Family::Successful),
        "strimzi_reconciliations_failed_total" => pass(Family::Failed),
        _ => None,
    }
}

/// The operator of a local Kubernetes and its metrics endpoint.
struct Operator<'a> {
    place: &'a Place<'a>,
    address: String,
}

impl<'a> Operator<'a> {
    fn find(place: &'a Place<'a>) -> Self {
        let label = "app.kubernetes.io/name=gregor-operator";
        let path = "jsonpath={.items[0].status.podIP}";
        let words = ["-n", "gregor", "get", "pods", "-l", label, "-o", path];
        Self { place, address: place.ground.kubectl(&words) }
    }

    fn counters(&self) -> Counters {
        let mut stream = TcpStream::connect((self.address.as_str(), 8080)).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        Counters::parse(&page)
    }

    /// Waits until nothing was written for a while.
    fn settle(&self) {
        let writes = || self.counters().sum(Family::Write);
        let (mut last, mut since) = (writes(), Instant::now());
        wait_for_mut(|| {
            let now = writes();
            if now != last {
                (last, since) = (now, Instant::now());
            }
            if since.elapsed() > QUIET { Ok(()) } else { Err(format!("{now} writes")) }
        });
    }

    /// Waits until another pass has ended and none is running, and reads the counters then.
    fn next_pass(&self, before: &Counters) -> Counters {
        let mut after = self.counters();
        wait_for_mut(|| {
            after = self.counters();
            let (begun, ended) = (after.sum(Family::Begun), after.ended());
            let done = ended > before.ended() && begun == ended;
            if done { Ok(()) } else { Err(format!("{begun} passes begun, {ended} ended")) }
        });
        let failed = after.since(before).sum(Family::Failed);
        assert_eq!(failed, 0, "a pass failed:\n{}", self.place.ground.operator_log());
        after
    }

    /// The growth of the counters in passes that a change to an annotation triggers.
    fn measure_passes(&self) -> Counters {
        let mut sum = Counters::default();
        let mut round = 0;
        while sum.ended() < PASSES {
            round += 1;
            let before = self.counters();
            let annotation = format!("bench-pass={round}");
            self.place.kubectl(&["annotate", "--overwrite", "kafka", CLUSTER, &annotation]);
            let grown = self.next_pass(&before).since(&before);
            // Requests of a pass over a pod set cannot be told apart from those of the cluster.
            if grown.sum(Family::PodSet) == 0 {
                sum.add(grown);
            }
        }
        sum
    }

    /// The growth of the counters over whole intervals between passes that nothing but time triggers.
    fn measure_idle(&self) -> (Counters, Duration) {
        let (before, begun) = (self.counters(), Instant::now());
        let mut now = before.clone();
        while now.ended() < before.ended() + IDLE_PASSES {
            now = self.next_pass(&now);
        }
        (now.since(&before), begun.elapsed())
    }
}

/// The figures of one build.
struct Measured {
    passes: Counters,
    idle: Counters,
    idle_time: Duration,
}

impl Measured {
    fn of(program: PathBuf) -> Self {
        let ground = Ground::start_in(World::with_operator_of(program), &["--nodes", "3"]);
        let place = ground.namespace("bench");
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        place.apply(&fs::read_to_string(examples.join("kafka-persistent.yaml")).unwrap());
        place.ready(CLUSTER);
        place.all_pods_ready();
        assert_eq!(place.names("pods").len(), 6);
        let operator = Operator::find(&place);
        operator.settle();
        let passes = operator.measure_passes();
        let (idle, idle_time) = operator.measure_idle();
        Self { passes, idle, idle_time }
    }

    fn per_pass(&self, count: u64) -> f64 {
        count as f64 / self.passes.ended() as f64
    }

    /// What a pass makes more of than it may.
    fn over_bars(&self) -> Vec<String> {
        let over = |(name, family, bar): (&str, Family, f64)| {
            let found = self.per_pass(self.passes.sum(family));
            (found > bar).then(|| format!("{found:.2} {name}, the bar is {bar}"))
        };
        BARS.into_iter().filter_map(over).collect()
    }

    fn per_minute(&self, count: u64) -> f64 {
        count as f64 * 60.0 / self.idle_time.as_secs_f64()
    }
}

type Columns = [(String, Measured)];
/// The counters of a measurement.
type Of = fn(&Measured) -> &Counters;
/// The rate that a count of a measurement is shown as.
type Rate = fn(&Measured, u64) -> f64;

fn print(columns: &Columns) {
    for (number, (name, _)) in columns.iter().enumerate() {
        println!("column {}: {name}", number + 1);
    }
    println!("\nSettled cluster of 3 controllers and 3 brokers, passes triggered by an annotation");
    let (of, rate): (Of, Rate) = (|one| &one.passes, Measured::per_pass);
    row("passes", columns, |one| one.passes.ended() as f64);
    rows("API calls per pass", columns, Family::Api, (of, rate));
    rows("Kafka calls per pass", columns, Family::Kafka, (of, rate));
    rows("writes per pass (goal: none)", columns, Family::Write, (of, rate));

    println!("\nThe same cluster while nothing changes, passes triggered by time");
    let (of, rate): (Of, Rate) = (|one| &one.idle, Measured::per_minute);
    row("minutes", columns, |one| one.idle_time.as_secs_f64() / 60.0);
    row("passes", columns, |one| one.idle.ended() as f64);
    row("passes over pod sets", columns, |one| one.idle.sum(Family::PodSet) as f64);
    rows("API calls per minute", columns, Family::Api, (of, rate));
    rows("watches and Lease renewals per minute", columns, Family::Process, (of, rate));
    rows("Kafka calls per minute", columns, Family::Kafka, (of, rate));
    rows("writes per minute (goal: none)", columns, Family::Write, (of, rate));
}

/// A family: a row for its sum, and one for each of its counters.
fn rows(title: &str, columns: &Columns, family: Family, (of, rate): (Of, Rate)) {
    row(title, columns, |one| rate(one, of(one).sum(family)));
    let names: BTreeSet<&str> =
        columns.iter().flat_map(|(_, one)| of(one).of(family)).map(|(name, _)| name).collect();
    for name in names {
        row(&format!("  {name}"), columns, |one| {
            let found = of(one).of(family).find(|(other, _)| *other == name);
            rate(one, found.map_or(0, |(_, count)| count))
        });
    }
}

fn row(title: &str, columns: &Columns, value: impl Fn(&Measured) -> f64) {
    let values: String = columns.iter().map(|(_, one)| format!(" {:>10.2}", value(one))).collect();
    println!("{title:<40}{values}");
}
