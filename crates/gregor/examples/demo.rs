//! The demonstration that `make demo` runs: a real cluster on this machine, looked at and changed with
//! `gregor` itself.
//!
//! `--keep` leaves the cluster running at the end, until Ctrl-C.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use kafka_admin::{Admin, Bootstrap, ClientOptions, Endpoint, NewTopic, OffsetAt};
use model::{NodeId, TopicName, TopicPartition};
use testkit::{CONTROLLER_PORT, Cluster, Role};

const TOPIC: &str = "orders";
const PARTITIONS: i32 = 6;
const RECORDS: u32 = 10_000;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let keep = std::env::args().any(|argument| argument == "--keep");
    let demo = Demo::start().await?;
    let story = async {
        demo.look().await?;
        demo.lose_a_broker().await?;
        demo.grow_the_quorum().await?;
        demo.report().await
    };
    tokio::select! {
        told = story => told?,
        _ = tokio::signal::ctrl_c() => bail!("interrupted; everything that was started is stopped"),
    }
    demo.farewell(keep).await
}

struct Demo {
    cluster: Cluster,
    admin: Admin,
    gregor: PathBuf,
    bootstrap: String,
    begun: Instant,
}

impl Demo {
    async fn start() -> anyhow::Result<Self> {
        let begun = Instant::now();
        let gregor = gregor()?;
        title("Apache Kafka, assembled from Maven Central into the cache");
        run(&gregor, &["fetch", "kafka"])?;
        title("Three controllers and three brokers, each a process with an address of its own");
        let cluster = Cluster::builder().controllers(3).brokers(3).start().await?;
        println!("all six serve after {:.1} s", begun.elapsed().as_secs_f32());
        let addresses = cluster.bootstrap_brokers();
        let bootstrap: Vec<_> =
            addresses.iter().map(|(host, port)| Endpoint::new(host, *port)).collect();
        let listed: Vec<_> = bootstrap.iter().map(ToString::to_string).collect();
        let admin = Admin::new(Bootstrap::Brokers(bootstrap), ClientOptions::default())?;
        Ok(Self { cluster, admin, gregor, bootstrap: listed.join(","), begun })
    }

    async fn look(&self) -> anyhow::Result<()> {
        self.kafka("describe", &[])?;
        self.kafka("quorum", &[])?;
        title(&format!("A topic with {PARTITIONS} partitions, and {RECORDS} records in it"));
        let topic = NewTopic::new(TopicName::new(TOPIC)?, PARTITIONS, 3)
            .with_config("min.insync.replicas", "2");
        for (name, result) in self.admin.create_topics(&[topic], false).await? {
            result.with_context(|| format!("could not create {name}"))?;
        }
        self.produce().await?;
        self.kafka("offsets", &[TOPIC])
    }

    async fn lose_a_broker(&self) -> anyhow::Result<()> {
        let broker = self.cluster.node(102);
        title("Broker 102 is killed, as by kill -9");
        broker.kill().await?;
        self.until("its replicas are out of sync", async || {
            let page = self.admin.describe_topics(&[TopicName::new(TOPIC)?]).await?;
            let mut partitions = page.topics.iter().flat_map(|topic| &topic.partitions);
            Ok(partitions.all(|partition| partition.isr.len() == 2))
        })
        .await?;
        self.kafka("topics", &["--unhealthy"])?;
        title("With two of three replicas it still takes records; then 102 comes back");
        self.produce().await?;
        broker.start().await?;
        broker.wait_ready().await?;
        self.until("all replicas are in sync", async || {
            let page = self.admin.describe_topics(&[TopicName::new(TOPIC)?]).await?;
            let mut partitions = page.topics.iter().flat_map(|topic| &topic.partitions);
            Ok(partitions.all(|partition| partition.isr.len() == 3))
        })
        .await?;
        self.kafka("topics", &["--partitions", TOPIC])
    }

    async fn grow_the_quorum(&self) -> anyhow::Result<()> {
        title("A fourth controller follows, and becomes a voter");
        let id = self.cluster.add_node(Role::Controller).await?;
        let node = self.cluster.node(id);
        let (id, directory) = (id.to_string(), node.directory_id()?);
        let new = NodeId::new(node.id()).context("ids are not negative")?;
        self.until("it has caught up", async || {
            let quorum = self.admin.describe_quorum().await?;
            let it = quorum.observers.iter().find(|observer| observer.id == new);
            Ok(it.and_then(|observer| quorum.lag(observer)).is_some_and(|lag| lag < 10))
        })
        .await?;
        let listener = format!("CONTROLLER://{}:{CONTROLLER_PORT}", node.host());
        let add = [id.as_str(), "--directory-id", &directory, "--listener", &listener];
        self.kafka("add-controller", &add)?;
        title("And goes again: four voters tolerate no more failures than three");
        self.kafka("remove-controller", &[id.as_str(), "--directory-id", &directory])
    }

    async fn report(&self) -> anyhow::Result<()> {
        let partitions = (0..PARTITIONS)
            .map(|number| Ok(TopicPartition::new(TopicName::new(TOPIC)?, number)))
            .collect::<anyhow::Result<_>>()?;
        let mut stored = 0;
        for offset in self.admin.list_offsets(&partitions, OffsetAt::Latest).await?.into_values() {
            stored += offset?.unwrap_or(0);
        }
        let sent = u64::from(2 * RECORDS);
        title("The report");
        println!("records acknowledged {sent}, records stored {stored}");
        ensure!(sent == stored, "records are missing");
        println!("the whole took {:.0} s", self.begun.elapsed().as_secs_f32());
        Ok(())
    }

    async fn farewell(self, keep: bool) -> anyhow::Result<()> {
        if !keep {
            println!("\nEverything is stopped. To try it yourself: cargo xtask demo --keep");
            return Ok(());
        }
        println!("\nThe cluster runs until Ctrl-C. In another terminal:");
        println!("  export GREGOR_BOOTSTRAP={}", self.bootstrap);
        for command in ["describe", "quorum", "topics --partitions", "log-dirs", "--help"] {
            println!("  {} kafka {command}", self.gregor.display());
        }
        tokio::signal::ctrl_c().await.context("cannot wait for Ctrl-C")
    }

    /// Runs `gregor kafka …` on the cluster.
    fn kafka(&self, command: &str, arguments: &[&str]) -> anyhow::Result<()> {
        let mut all = vec!["kafka", command, "--bootstrap", &self.bootstrap];
        all.extend(arguments);
        let shown = ["kafka", command].into_iter().chain(arguments.iter().copied());
        title(&format!("gregor {}", shown.collect::<Vec<_>>().join(" ")));
        run(&self.gregor, &all)
    }

    async fn produce(&self) -> anyhow::Result<()> {
        let records = RECORDS.to_string();
        #[rustfmt::skip]
        let arguments = [
            "--topic", TOPIC, "--num-records", &records, "--record-size", "100", "--throughput", "-1",
            "--bootstrap-server", &self.bootstrap, "--command-property", "acks=all",
        ];
        let class = "org.apache.kafka.tools.ProducerPerformance";
        let printed = self.cluster.run_tool(class, &arguments).await?;
        println!("{}", printed.lines().last().unwrap_or_default().trim());
        Ok(())
    }

    async fn until(
        &self,
        what: &str,
        mut holds: impl AsyncFnMut() -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(120);
        while !holds().await? {
            ensure!(Instant::now() < deadline, "gave up waiting until {what}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        println!("now {what}");
        Ok(())
    }
}

fn title(text: &str) {
    println!("\n=== {text}");
}

fn run(program: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let status = Command::new(program).args(arguments).status();
    let status = status.with_context(|| format!("cannot run {}", program.display()))?;
    ensure!(status.success(), "gregor {} failed", arguments.join(" "));
    Ok(())
}

/// The program, which is built beside this example.
fn gregor() -> anyhow::Result<PathBuf> {
    let here = std::env::current_exe().context("cannot find this program's own path")?;
    let profile = here.ancestors().nth(2).context("an example is two folders below its profile")?;
    let gregor = profile.join("gregor");
    ensure!(gregor.is_file(), "gregor is not built; run `make demo`");
    Ok(gregor)
}
