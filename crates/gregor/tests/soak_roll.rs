//! Rolling restarts of three controllers and six brokers in three racks, under load: in the right order,
//! alone and in batches, with a broker that freezes in the middle, and with one that is down before.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod kafka;
mod roll;
mod up;

use kafka::{Ground, Place, wait_for, wait_for_mut};
use kafka_admin::NewTopic;
use model::TopicName;
use roll::{Restart, Watch};
use rustix::process::Signal;
use testkit::{Load, LoadOptions};
use tokio::runtime::Runtime;
use up::{resume, signal};

const CLUSTER: &str = "my-cluster";
const BROKERS: [i32; 6] = [0, 1, 2, 3, 4, 5];
const CONTROLLERS: [i32; 3] = [6, 7, 8];

/// A slow machine is no fault: whoever is silent is believed to live for longer than usual.
const MANIFEST: &str = r#"
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {name: controller, labels: {strimzi.io/cluster: my-cluster}}
spec:
  replicas: 3
  roles: [controller]
  storage: {type: jbod, volumes: [{id: 0, type: persistent-claim, size: 1Gi}]}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {name: broker, labels: {strimzi.io/cluster: my-cluster}}
spec:
  replicas: 6
  roles: [broker]
  storage: {type: jbod, volumes: [{id: 0, type: persistent-claim, size: 1Gi}]}
  template:
    pod:
      terminationGracePeriodSeconds: 120
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: topology.kubernetes.io/zone
        whenUnsatisfiable: DoNotSchedule
        labelSelector: {matchLabels: {strimzi.io/pool-name: broker}}
---
apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata: {name: my-cluster}
spec:
  kafka:
    version: 4.3.1
    rack: {topologyKey: topology.kubernetes.io/zone}
    jvmOptions: {"-Xmx": "256m", "-XX": {"UseSerialGC": "true", "TieredStopAtLevel": "1"}}
    template: {pod: {terminationGracePeriodSeconds: 120}}
    listeners: [{name: plain, port: 9092, type: internal, tls: false}]
    config:
      default.replication.factor: 3
      min.insync.replicas: 2
      offsets.topic.replication.factor: 3
      offsets.topic.num.partitions: 6
      group.initial.rebalance.delay.ms: 0
      broker.session.timeout.ms: 20000
      controller.quorum.fetch.timeout.ms: 8000
      controller.quorum.election.timeout.ms: 4000
"#;

struct Roll<'a> {
    place: Place<'a>,
    runtime: &'a Runtime,
    watch: Watch,
    load: Load,
}

#[test]
fn nodes_are_restarted_without_breaking_anything() {
    let ground = Ground::start(&["--nodes", "3"]);
    let runtime = Runtime::new().unwrap();
    let place = ground.namespace("roll");
    let file = ground.world.file("roll.yaml", MANIFEST);
    place.kubectl(&["apply", "-f", &file]);
    place.ready(CLUSTER);
    let roll = Roll::begin(place, &runtime);
    println!("with a broker that is down");
    one_is_down(&roll);
    println!("with a broker that freezes");
    one_freezes(&roll);
    println!("one by one");
    one_by_one(&roll);
    println!("in batches");
    in_batches(&roll);
    let Roll { watch, load, .. } = roll;
    let report = runtime.block_on(load.stop()).unwrap();
    println!("{} looks at the partitions; {report:?}", watch.samples());
    report.check().unwrap();
    ground.assert_operator_is_content();
    // Brokers that wait for controllers that are gone need not be waited for.
    let all = ground.world.processes();
    all.iter().filter(|one| one.has("kafka.Kafka")).for_each(|one| signal(one.pid, Signal::KILL));
}

impl<'a> Roll<'a> {
    fn begin(place: Place<'a>, runtime: &'a Runtime) -> Self {
        let world = &place.ground.world;
        let (hosts, bootstrap) = (place.ground.hosts(), place.bootstrap(CLUSTER, "plain"));
        let (watch, load) = runtime.block_on(async {
            let admin = place.admin(CLUSTER, roll::patience());
            let topic = |name: &str, partitions| {
                NewTopic::new(TopicName::new(name).unwrap(), partitions, 3)
            };
            let topics = [topic("load", 12), topic("orders", 12), topic("events", 6)];
            for made in admin.create_topics(&topics, false).await.unwrap().into_values() {
                made.unwrap();
            }
            let home = place.ground.home.clone();
            let options = LoadOptions::new(home, &bootstrap, "load").hosts(&hosts).rate(50);
            let load = Load::start(options).await.unwrap();
            let client = world.client().await;
            (Watch::start(client, &place.namespace, admin).await, load)
        });
        Self { place, runtime, watch, load }
    }

    /// Asks for restarts in the way that people do, and returns how many there were before.
    fn ask(&self, words: &[&str]) -> usize {
        let before = self.watch.restarts(0).len();
        self.place.gregor(&[&["roll", CLUSTER], words].concat()).ok();
        before
    }

    /// Asks for restarts of these nodes.
    fn ask_nodes(&self, nodes: &[i32]) -> usize {
        let texts: Vec<_> = nodes.iter().map(|node| format!("--node={node}")).collect();
        self.ask(&texts.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Waits until these nodes have been restarted, each once, and nothing else is to be done.
    fn ended(&self, since: usize, nodes: &[i32]) -> Vec<Restart> {
        for count in 1..=nodes.len() {
            wait_for(|| match self.watch.restarts(since).len() {
                now if now >= count => Ok(()),
                now => Err(format!("{now} of {} restarts: {}", nodes.len(), self.told())),
            });
        }
        wait_for(|| match nodes.iter().all(|node| self.watch.is_well(*node)) {
            true => Ok(()),
            false => Err(self.told()),
        });
        self.place.ready(CLUSTER);
        let restarts = self.watch.restarts(since);
        let mut who: Vec<_> = restarts.iter().map(|restart| restart.node).collect();
        who.sort_unstable();
        assert_eq!(who, nodes, "each once");
        let record =
            self.place.get("configmap", "my-cluster-gregor")["data"]["record.json"].clone();
        assert!(!record.as_str().unwrap().contains("rollAccount"), "{record}");
        restarts
    }

    /// What the operator says that it does.
    fn told(&self) -> String {
        self.place.get("kafka", CLUSTER)["status"]["conditions"].to_string()
    }

    /// What `gregor why` says, in one line.
    fn why(&self) -> String {
        let run = self.place.gregor(&["why", CLUSTER]).ok();
        run.out.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Waits until the load has gone on for a while.
    fn load_goes_on(&self) {
        self.runtime.block_on(self.load.wait_acknowledged(150)).unwrap();
    }

    /// Brokers that have partitions with this one, the first of them first.
    fn neighbours(&self, node: i32) -> Vec<i32> {
        let last = self.watch.last();
        BROKERS.into_iter().filter(|one| *one != node && last.share(node, *one)).collect()
    }
}

fn one_by_one(roll: &Roll<'_>) {
    let since = roll.ask(&[]);
    let restarts = roll.ended(since, &[&BROKERS[..], &CONTROLLERS].concat());
    let order: Vec<_> = restarts.iter().map(|restart| restart.node).collect();
    println!("  in this order: {order:?}");
    let (controllers, brokers) = restarts.split_at(CONTROLLERS.len());
    assert!(controllers.iter().all(|one| CONTROLLERS.contains(&one.node)), "{order:?}");
    // The active one comes last, unless the quorum has chosen another meanwhile, which is restarted by then.
    let (last, others) = controllers.split_last().unwrap();
    let actives: Vec<_> = controllers.iter().map(|one| one.before.active.unwrap()).collect();
    assert!(others.iter().all(|one| one.before.active != Some(one.node)), "{order:?} {actives:?}");
    assert_eq!(
        actives.iter().all(|one| *one == actives[0]),
        last.node == actives[0],
        "{actives:?}"
    );
    brokers.iter().for_each(Restart::check);
    let downs: Vec<_> = restarts.iter().map(|one| &one.down).collect();
    assert!(downs.iter().all(|down| down.len() == 1), "{order:?} {downs:?}");
}

fn in_batches(roll: &Roll<'_>) {
    roll.place.kubectl(&["annotate", "kafka", CLUSTER, "gregor.io/max-parallel=2"]);
    let since = roll.ask(&["--pool", "broker"]);
    let restarts = roll.ended(since, &BROKERS);
    restarts.iter().for_each(Restart::check);
    let waves = restarts.iter().filter(|one| one.down.len() == 1).count();
    let largest = restarts.iter().map(|one| one.down.len()).max().unwrap();
    println!("  {waves} batches");
    assert!(largest == 2 && waves < BROKERS.len(), "{waves} batches of up to {largest}");
    roll.place.kubectl(&["annotate", "kafka", CLUSTER, "gregor.io/max-parallel-"]);
}

/// A broker freezes while another one is being restarted. No other node is restarted until it is back, which is when its
/// container has been restarted because its JVM hangs.
fn one_freezes(roll: &Roll<'_>) {
    let frozen = 5;
    let neighbours = roll.neighbours(frozen);
    let (first, second) = (neighbours[0], neighbours[1]);
    let nodes = [first, second, frozen];
    let since = roll.ask_nodes(&nodes);
    wait_for(|| match roll.watch.restarts(since).is_empty() {
        true => Err(roll.told()),
        false => Ok(()),
    });
    assert_eq!(roll.watch.restarts(since)[0].node, first);
    let jvm = roll.place.java(&format!("{CLUSTER}-broker-{frozen}"));
    signal(jvm, Signal::STOP);
    wait_for(|| match roll.watch.is_well(frozen) {
        true => Err(roll.told()),
        false => Ok(()),
    });
    roll.load_goes_on();
    let restarts = roll.ended(since, &nodes);
    let order: Vec<_> = restarts.iter().map(|one| (one.node, &one.down)).collect();
    println!("  in this order, with these down: {order:?}");
    for restart in restarts.iter().filter(|one| ![first, frozen].contains(&one.node)) {
        assert!(!restart.down.contains(&frozen), "while node {frozen} was frozen: {order:?}");
    }
    restarts.iter().for_each(Restart::check);
}

/// A broker does not come up. Whoever has partitions with it stays, and is told why.
fn one_is_down(roll: &Roll<'_>) {
    let down = 0;
    let neighbours = roll.neighbours(down);
    let nodes = [neighbours[0], neighbours[1]];
    let pod = format!("{CLUSTER}-broker-{down}");
    let before = roll.place.java(&pod);
    roll.place.kubectl(&["delete", "pod", &pod, "--wait=false"]);
    let mut jvm = before;
    wait_for_mut(|| {
        let found = roll.place.javas(&pod);
        jvm = *found.iter().find(|one| **one != before).ok_or("no new JVM")?;
        Ok(())
    });
    signal(jvm, Signal::STOP);
    let since = roll.ask_nodes(&nodes);
    says(roll, nodes[0]);
    roll.load_goes_on();
    let begun = roll.watch.restarts(since).len();
    assert_eq!(begun, 0, "nobody goes while node {down} is down");
    resume(jvm);
    roll.ended(since, &nodes).iter().for_each(Restart::check);
}

/// Waits until people are told which partition keeps a node from being restarted, and by which rule.
fn says(roll: &Roll<'_>, node: i32) {
    wait_for(|| {
        let why = roll.why();
        let expected = "has 2 replicas in sync, without it 1, and needs 2";
        let named = why.contains(&format!("node {node}")) && why.contains(expected);
        if named { Ok(()) } else { Err(why) }
    });
}
