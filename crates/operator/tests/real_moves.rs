//! Plans are carried out on a real cluster under load: a broker is filled in lives of one act each, emptied,
//! stopped in the middle, and lost in the middle. Nothing is lost, and every throttle is what it was.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use control::rebalance::execution::{
    Act, Job, Limits, Outcome, Phase, Progress, Recorded, Subject,
};
use control::rebalance::load::{Given, LoadOptions, Loaded, Unknown, load};
use kafka_admin::{
    Admin, Bootstrap, ClientOptions, Endpoint, Layout, NewTopic, Partition, ThrottleValues,
};
use model::{NodeId, TopicName, TopicPartition};
use operator::crash::CrashSwitch;
use operator::fence::Fence;
use operator::metrics::Metrics;
use operator::rebalance::execute::{Instructions, Reach, Store, act, consider, pass};
use operator::rebalance::load::{Source, sample};
use operator::write::{KAFKA_DEADLINE, Writer};
use placement::{DiskGoals, Goals, plan, plan_disks};
use testkit::{Cluster, Load};
use tokio::time::{Instant, sleep};

const PATIENCE: Duration = Duration::from_secs(240);
/// Longer than a broker may be away before moves do without it.
const LONG_MS: u64 = 6 * 60_000;
/// The broker that comes, goes and dies.
const LAST: i32 = 203;
/// Topics with data of their own.
const FULL_TOPICS: usize = 5;
/// So slow that a move is seen on its way; and so fast that it is done at once.
const SLOW_BYTES: u64 = 100_000;
const FAST_BYTES: u64 = 50 << 20;

fn broker(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

fn topic(number: usize) -> TopicName {
    TopicName::new(format!("t{number}")).unwrap()
}

/// What would be a ConfigMap.
struct Stored(String);

impl Stored {
    fn begin(job: &Job, now_ms: u64) -> Self {
        Self(serde_json::to_string(&Recorded::begin(&job.limits, now_ms)).unwrap())
    }

    fn read(&self) -> Recorded {
        serde_json::from_str(&self.0).unwrap()
    }
}

impl Store for Stored {
    type Error = Infallible;
    async fn save(&mut self, recorded: &Recorded) -> Result<(), Infallible> {
        self.0 = serde_json::to_string(recorded).unwrap();
        Ok(())
    }
}

type Throttles = BTreeMap<Subject, ThrottleValues>;

struct World {
    cluster: Cluster,
    brokers: Admin,
    controllers: Admin,
    writer: Writer,
    /// By how much the clock of the passes is ahead.
    ahead_ms: AtomicU64,
}

impl World {
    async fn start() -> anyhow::Result<Self> {
        let cluster = Cluster::builder()
            .combined(4)
            .log_dirs(2)
            // A machine that is busy with other tests is no broker that is down.
            .broker_config("broker.session.timeout.ms", "15000")
            .controller_config("controller.quorum.fetch.timeout.ms", "10000")
            .start()
            .await?;
        let options = ClientOptions {
            call_timeout: KAFKA_DEADLINE,
            attempt_timeout: KAFKA_DEADLINE,
            // As the operator's: what cannot be reached now is looked for in the next pass.
            wait_for_nodes: false,
            ..ClientOptions::default()
        };
        let endpoints = |all: Vec<(String, u16)>| {
            all.into_iter().map(|(host, port)| Endpoint::new(host, port)).collect::<Vec<_>>()
        };
        let at_brokers = Bootstrap::Brokers(endpoints(cluster.bootstrap_brokers()));
        let at_controllers = Bootstrap::Controllers(endpoints(cluster.bootstrap_controllers()));
        // Nothing here is written to Kubernetes.
        let client = kube::Client::try_from(kube::Config::new("http://127.0.0.1:1".parse()?))?;
        Ok(Self {
            brokers: Admin::new(at_brokers, options.clone())?,
            controllers: Admin::new(at_controllers, options)?,
            writer: Writer::new(client, Fence::open(), CrashSwitch::Off, Metrics::new()),
            cluster,
            ahead_ms: AtomicU64::new(0),
        })
    }

    /// Ten topics on three of the four brokers.
    async fn fill(&self) -> anyhow::Result<()> {
        let layout = |first: i32| {
            let replicas = (0..3).map(|at| broker(200 + (first + at) % 3)).collect::<Vec<_>>();
            Layout::Assigned(vec![replicas.clone(), replicas])
        };
        let mut topics: Vec<NewTopic> = (0..9)
            .map(|number| NewTopic { layout: layout(0), ..NewTopic::new(topic(number), 0, 0) })
            .collect();
        let load = TopicName::new("load")?;
        topics.push(NewTopic { layout: layout(1), ..NewTopic::new(load, 0, 0) });
        for (name, result) in self.brokers.create_topics(&topics, false).await? {
            result.with_context(|| name.to_string())?;
        }
        let addresses = self.cluster.load_options("load").bootstrap;
        let produce = async |number: usize| {
            let topic = topic(number).to_string();
            let what = ["--topic", &topic, "--num-records", "4000", "--record-size", "1000"];
            let how = ["--throughput", "-1", "--bootstrap-server", &addresses];
            let class = "org.apache.kafka.tools.ProducerPerformance";
            self.cluster.run_tool(class, &[&what[..], &how[..]].concat()).await
        };
        let all = futures::future::join_all((0..FULL_TOPICS).map(produce)).await;
        all.into_iter().try_for_each(|result| result.map(drop))
    }

    fn reach(&self) -> Reach<'_> {
        Reach { brokers: &self.brokers, controllers: &self.controllers, writer: &self.writer }
    }

    fn now_ms(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        u64::try_from(now).unwrap() + self.ahead_ms.load(Ordering::Relaxed)
    }

    /// What the cluster carries, with rates over some seconds if `rates`.
    async fn load(&self, rates: bool, mut options: LoadOptions<'_>) -> anyhow::Result<Loaded> {
        let some = Some(1e6);
        let given =
            Given { cpu_cores: some, network_in_kb: some, network_out_kb: some, disk_mb: None };
        options.capacities = (200..=LAST).map(|id| (broker(id), given)).collect();
        let source = Source { admin: &self.brokers, nodes: None };
        let first = sample(&source).await?;
        if !rates {
            return Ok(load(&first, None, &options)?);
        }
        sleep(Duration::from_secs(2)).await;
        Ok(load(&sample(&source).await?, Some(&first.mark()), &options)?)
    }

    /// A plan with what is known, as a job at this rate.
    async fn job(&self, rates: bool, options: LoadOptions<'_>, rate: u64) -> anyhow::Result<Job> {
        let loaded = self.load(rates, options).await?;
        let (plan, report) = plan(&loaded.view, &Goals::default().without(&loaded.unknown_rates()));
        ensure!(report.after.is_acceptable(), "{report:?}");
        Ok(Job::of(&plan, Limits { rate_bytes_max: Some(rate), ..Limits::default() }))
    }

    /// Makes passes until the end, or until it is enough.
    async fn passes(
        &self,
        job: &Job,
        stored: &mut Stored,
        stop: bool,
        enough: impl Fn(&Recorded, &Progress) -> bool,
    ) -> anyhow::Result<Recorded> {
        let until = Instant::now() + PATIENCE;
        loop {
            let instructions = Instructions { stop, ..Instructions::go_on(self.now_ms()) };
            let passed = pass(&self.reach(), job, &stored.read(), &instructions, stored).await;
            let last = match passed {
                Ok(passed) => {
                    ensure!(passed.refused.is_empty(), "{:?}", passed.refused);
                    let over = passed.recorded.phase == Phase::Ended;
                    if over || enough(&passed.recorded, &passed.progress) {
                        return Ok(passed.recorded);
                    }
                    format!("{passed:?}")
                }
                // A broker that dies takes a call with it.
                Err(error) => format!("{error:?}"),
            };
            ensure!(Instant::now() < until, "it takes too long: {last}");
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Lives of one act each. Every third ends between its record and its act.
    async fn lives(&self, job: &Job, stored: &mut Stored) -> anyhow::Result<usize> {
        let until = Instant::now() + PATIENCE;
        let mut acts = 0;
        for life in 0.. {
            let recorded = stored.read();
            if recorded.phase == Phase::Ended {
                break;
            }
            ensure!(Instant::now() < until, "it takes too long: {recorded:?}");
            let instructions = Instructions::go_on(self.now_ms());
            let (decision, observed) = consider(&self.reach(), job, &recorded, &instructions).await;
            stored.save(&decision.recorded).await?;
            let first: &[Act] = &decision.acts[..decision.acts.len().min(1)];
            if life % 3 != 2 {
                let done = act(&self.reach(), job, first, &observed.facts).await;
                acts += done.acts;
                ensure!(done.refused.is_empty(), "{:?}", done.refused);
            }
            self.check_recorded(job, stored).await?;
            if first.is_empty() {
                sleep(Duration::from_millis(100)).await;
            }
        }
        Ok(acts)
    }

    /// Nothing is in flight or throttled that the record does not know.
    async fn check_recorded(&self, job: &Job, stored: &Stored) -> anyhow::Result<()> {
        let recorded = stored.read();
        for (partition, _) in self.brokers.list_reassignments().await? {
            let ours = job.tasks.iter().any(|task| task.partition == partition);
            let known = recorded.in_flight.contains(&partition);
            ensure!(!ours || known, "{partition} is in flight: {recorded:?}");
        }
        Ok(())
    }

    async fn partitions(&self) -> anyhow::Result<BTreeMap<TopicPartition, Partition>> {
        let page = self.brokers.describe_topics(&[]).await?;
        ensure!(page.refused.is_empty(), "{:?}", page.refused);
        let named = |topic: kafka_admin::Topic| {
            let name = topic.name;
            topic.partitions.into_iter().map(move |partition| {
                (TopicPartition { topic: name.clone(), partition: partition.id }, partition)
            })
        };
        Ok(page.topics.into_iter().flat_map(named).collect())
    }

    async fn replicas_on(&self, id: i32) -> anyhow::Result<usize> {
        let all = self.partitions().await?;
        Ok(all.values().filter(|partition| partition.replicas.contains(&broker(id))).count())
    }

    /// Every throttle that is set on these brokers and on any topic.
    async fn throttles(&self, brokers: &[i32]) -> anyhow::Result<Throttles> {
        let mut all = Throttles::new();
        for id in brokers {
            let values = self.brokers.broker_throttle(broker(*id)).await?;
            all.insert(Subject::Broker(broker(*id)), values);
        }
        let topics: BTreeSet<TopicName> =
            self.partitions().await?.into_keys().map(|partition| partition.topic).collect();
        for (topic, values) in self.controllers.topic_throttles(&topics).await? {
            all.insert(Subject::Topic(topic), values?);
        }
        all.retain(|_, values| *values != ThrottleValues::default());
        Ok(all)
    }

    /// All replicas are in sync, each partition is led by its first, and nothing is on its way.
    async fn whole(&self) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            let all = self.partitions().await?;
            let in_sync = |partition: &&Partition| partition.isr.len() == partition.replicas.len();
            let short = all.values().filter(|partition| !in_sync(partition)).count();
            let moving = self.brokers.list_reassignments().await?;
            if short == 0 && moving.is_empty() {
                return Ok(());
            }
            ensure!(Instant::now() < until, "{short} are behind, in flight are {moving:?}");
            sleep(Duration::from_millis(200)).await;
        }
    }
}

fn removes(id: i32) -> LoadOptions<'static> {
    LoadOptions { removed: BTreeSet::from([broker(id)]), ..LoadOptions::default() }
}

fn adds(id: i32) -> LoadOptions<'static> {
    LoadOptions { added: BTreeSet::from([broker(id)]), ..LoadOptions::default() }
}

fn never(_: &Recorded, _: &Progress) -> bool {
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_are_carried_out_whatever_happens() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.fill().await?;
    let load = Load::start(world.cluster.load_options("load").rate(200)).await?;
    // A user has set something before us.
    let theirs = ThrottleValues { leader: None, follower: Some("77777777".to_owned()) };
    world.brokers.set_broker_throttle(broker(201), &theirs).await?;
    let theirs = ThrottleValues { leader: Some("0:200".to_owned()), follower: None };
    world.brokers.set_topic_throttles(&BTreeMap::from([(topic(0), theirs)])).await?;
    let before = loop {
        let found = world.throttles(&[200, 201, 202, LAST]).await?;
        if found.len() == 2 {
            break found;
        }
        sleep(Duration::from_millis(100)).await;
    };

    rates_are_known(&world).await.context("load")?;
    fill_in_lives_of_one_act(&world, &before).await.context("fill")?;
    stop_in_the_middle(&world, &before).await.context("stop")?;
    drain(&world, &before).await.context("drain")?;
    empty_a_disk(&world).await.context("disk")?;
    lose_the_destination(&world, &before).await.context("loss")?;

    let report = load.stop().await?;
    report.check()
}

async fn rates_are_known(world: &World) -> anyhow::Result<()> {
    let loaded = world.load(true, LoadOptions::default()).await?;
    let nodes = (200..=LAST).map(broker).collect();
    assert_eq!(loaded.unknown, [Unknown::Metrics { brokers: nodes }]);
    let view = &loaded.view;
    let mut rates = BTreeMap::<String, f64>::new();
    let mut sizes = BTreeMap::<String, f64>::new();
    for at in 0..view.partitions() {
        let name = view.partition_name(at).0.to_string();
        *rates.entry(name.clone()).or_default() += view.leader_load(at).network_in_kb;
        *sizes.entry(name).or_default() += view.leader_load(at).disk_mb;
    }
    ensure!(rates["load"] > 0.0 && rates["t0"] < 1e-9, "{rates:?}");
    ensure!(sizes["t0"] > 3.0 && sizes["t8"] < 1e-9, "{sizes:?}");
    Ok(())
}

async fn fill_in_lives_of_one_act(world: &World, before: &Throttles) -> anyhow::Result<()> {
    let job = world.job(true, adds(LAST), FAST_BYTES).await?;
    let others = |task: &&control::rebalance::execution::Task| task.target.contains(&broker(LAST));
    ensure!(job.tasks.iter().filter(others).count() > 3, "{job:?}");
    let mut stored = Stored::begin(&job, world.now_ms());
    let acts = world.lives(&job, &mut stored).await?;
    ensure!(acts > job.tasks.len() + 8, "{acts} acts for {} moves", job.tasks.len());
    assert_eq!(stored.read().outcome, Some(Outcome::Finished));
    world.whole().await?;
    let all = world.partitions().await?;
    for task in &job.tasks {
        let now = &all[&task.partition];
        assert_eq!((&now.replicas, now.leader), (&task.target, task.target.first().copied()));
    }
    assert_eq!(&world.throttles(&[200, 201, 202, LAST]).await?, before);
    Ok(())
}

async fn stop_in_the_middle(world: &World, before: &Throttles) -> anyhow::Result<()> {
    let job = world.job(false, removes(LAST), SLOW_BYTES).await?;
    let was = world.partitions().await?;
    let mut stored = Stored::begin(&job, world.now_ms());
    let some = |_: &Recorded, progress: &Progress| progress.moves_in_flight > 1;
    let recorded = world.passes(&job, &mut stored, false, some).await?;
    ensure!(recorded.phase == Phase::Moving, "{recorded:?}");
    ensure!(world.throttles(&[200, LAST]).await? != *before, "it is not throttled");
    let recorded = world.passes(&job, &mut stored, true, never).await?;
    assert_eq!(recorded.outcome, Some(Outcome::Stopped));
    world.whole().await?;
    assert_eq!(&world.throttles(&[200, 201, 202, LAST]).await?, before);
    // Each is where it was or where it was to go, and some are where they were.
    let set = |all: &[NodeId]| all.iter().copied().collect::<BTreeSet<_>>();
    let (mut back, now) = (0, world.partitions().await?);
    for task in &job.tasks {
        let (then, now) = (set(&was[&task.partition].replicas), &now[&task.partition].replicas);
        ensure!(set(now) == then || *now == task.target, "{task:?} is on {now:?}");
        back += usize::from(set(now) == then);
    }
    ensure!(back > 1, "only {back} were stopped");
    Ok(())
}

async fn drain(world: &World, before: &Throttles) -> anyhow::Result<()> {
    let job = world.job(false, removes(LAST), FAST_BYTES).await?;
    ensure!(world.replicas_on(LAST).await? > 0, "there is nothing to drain");
    let mut stored = Stored::begin(&job, world.now_ms());
    let recorded = world.passes(&job, &mut stored, false, never).await?;
    assert_eq!(recorded.outcome, Some(Outcome::Finished));
    assert_eq!(world.replicas_on(LAST).await?, 0);
    world.whole().await?;
    assert_eq!(&world.throttles(&[200, 201, 202, LAST]).await?, before);
    Ok(())
}

async fn empty_a_disk(world: &World) -> anyhow::Result<()> {
    let first = broker(200);
    let dirs = world.brokers.describe_log_dirs(first).await?;
    let full = dirs.iter().find(|dir| dir.replicas.len() > 1).context("no disk is in use")?;
    let removed_disks = BTreeSet::from([(first, full.path.clone())]);
    let loaded = world.load(false, LoadOptions { removed_disks, ..LoadOptions::default() }).await?;
    let disks = loaded.disks.iter().find(|disks| disks.broker == first).context("no disks")?;
    let (changes, found) = plan_disks(disks, DiskGoals::Empty);
    ensure!(changes.len() == full.replicas.len() && found.is_empty(), "{changes:?} {found:?}");
    let job = Job::of_disks(&changes, Limits::default());
    let mut stored = Stored::begin(&job, world.now_ms());
    let recorded = world.passes(&job, &mut stored, false, never).await?;
    assert_eq!(recorded.outcome, Some(Outcome::Finished));
    let dirs = world.brokers.describe_log_dirs(first).await?;
    let left = dirs.iter().find(|dir| dir.path == full.path).context("it is gone")?;
    assert_eq!(left.replicas, []);
    Ok(())
}

async fn lose_the_destination(world: &World, before: &Throttles) -> anyhow::Result<()> {
    let job = world.job(false, adds(LAST), SLOW_BYTES).await?;
    let mut stored = Stored::begin(&job, world.now_ms());
    let some = |_: &Recorded, progress: &Progress| progress.moves_in_flight > 1;
    world.passes(&job, &mut stored, false, some).await?;
    world.cluster.node(LAST).kill().await?;
    let away = |recorded: &Recorded, _: &Progress| recorded.away.contains_key(&broker(LAST));
    let recorded = world.passes(&job, &mut stored, false, away).await?;
    ensure!(recorded.former.contains_key(&Subject::Broker(broker(LAST))), "{recorded:?}");
    // It stays away.
    world.ahead_ms.fetch_add(LONG_MS, Ordering::Relaxed);
    let recorded = world.passes(&job, &mut stored, false, never).await?;
    assert_eq!(recorded.outcome, Some(Outcome::Outdated));
    assert_eq!(world.brokers.list_reassignments().await?, BTreeMap::new());
    // Another plan, for those that are left.
    let job = world.job(false, removes(LAST), FAST_BYTES).await?;
    let mut stored = Stored::begin(&job, world.now_ms());
    let recorded = world.passes(&job, &mut stored, false, never).await?;
    assert_eq!(recorded.outcome, Some(Outcome::Finished));
    assert_eq!(world.replicas_on(LAST).await?, 0);
    world.whole().await?;
    assert_eq!(&world.throttles(&[200, 201, 202]).await?, before);
    // The throttle of the one that died was taken back behind its back.
    world.cluster.node(LAST).restart().await?;
    let until = Instant::now() + PATIENCE;
    loop {
        match world.throttles(&[200, 201, 202, LAST]).await {
            Ok(found) if found == *before => return Ok(()),
            found => ensure!(Instant::now() < until, "{found:?}"),
        }
        sleep(Duration::from_millis(200)).await;
    }
}
