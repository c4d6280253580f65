//! A cluster and its builder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, ensure};
use artifacts::java::{self, Java};
use artifacts::kafka::{self, KafkaHome};
use artifacts::{Environment, Event, KafkaVersion, Progress};
use tempfile::TempDir;

use crate::address::Network;
use crate::archive::{self, ClassArchive};
use crate::config::{
    BROKER_PORT, CONTROLLER_PORT, NodeSpec, Quorum, Role, SASL_PORT, Security, Settings, TLS_NODE,
    server_properties,
};
use crate::ground::Ground;
use crate::load::LoadOptions;
use crate::node::Node;
use crate::storage;
use crate::tls::Authority;
use host::reaper::Reaper;

const ROLES: [Role; 3] = [Role::Controller, Role::Broker, Role::Combined];

/// Describes a cluster. Without nodes it is refused.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Builder {
    counts: BTreeMap<Role, usize>,
    version: Option<String>,
    initial_voters: Option<usize>,
    log_dirs: Option<usize>,
    settings: Settings,
}

impl Builder {
    /// Number of dedicated controllers: ids 0, 1, ….
    pub fn controllers(mut self, count: usize) -> Self {
        self.counts.insert(Role::Controller, count);
        self
    }

    /// Number of dedicated brokers: ids 100, 101, ….
    pub fn brokers(mut self, count: usize) -> Self {
        self.counts.insert(Role::Broker, count);
        self
    }

    /// Number of combined nodes: ids 200, 201, ….
    pub fn combined(mut self, count: usize) -> Self {
        self.counts.insert(Role::Combined, count);
        self
    }

    /// Whether the quorum is static or dynamic. Default: [`Quorum::Dynamic`].
    pub fn quorum(mut self, quorum: Quorum) -> Self {
        self.settings.quorum = quorum;
        self
    }

    /// Number of controllers that are initial voters of a dynamic quorum; the others start as observers.
    /// Default: all.
    pub fn initial_voters(mut self, count: usize) -> Self {
        self.initial_voters = Some(count);
        self
    }

    /// Kafka version. Default: that of `gregor fetch kafka`.
    pub fn version(mut self, version: &str) -> Self {
        self.version = Some(version.to_owned());
        self
    }

    /// Security protocol of the listeners. Default: [`Security::Plaintext`].
    pub fn security(mut self, security: Security) -> Self {
        self.settings.security = security;
        self
    }

    /// Adds a broker listener on [`SASL_PORT`] for PLAIN (with [`PLAIN_USERS`](crate::PLAIN_USERS)) and
    /// SCRAM-SHA-512 (with users that a test creates).
    pub fn sasl_listeners(mut self, wanted: bool) -> Self {
        self.settings.sasl_listeners = wanted;
        self
    }

    /// Enables the authorizer. Super users: the anonymous user, `admin`, and the certificate
    /// [`TLS_SUPER_USER`](crate::TLS_SUPER_USER).
    pub fn authorizer(mut self, wanted: bool) -> Self {
        self.settings.authorizer = wanted;
        self
    }

    /// Log directories per node. Default: one.
    pub fn log_dirs(mut self, count: usize) -> Self {
        self.log_dirs = Some(count);
        self
    }

    /// Sets a server property of all brokers.
    pub fn broker_config(mut self, key: &str, value: &str) -> Self {
        self.settings.broker.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Sets a server property of all controllers.
    pub fn controller_config(mut self, key: &str, value: &str) -> Self {
        self.settings.controller.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Sets a server property of one node; takes precedence over the others.
    pub fn node_config(mut self, id: i32, key: &str, value: &str) -> Self {
        self.settings.node.entry(id).or_default().push((key.to_owned(), value.to_owned()));
        self
    }

    /// Downloads Kafka if necessary, formats and starts all nodes, and waits until they are ready.
    pub async fn start(self) -> anyhow::Result<Cluster> {
        let cluster = self.prepare().await?;
        for node in cluster.nodes() {
            node.start().await?;
        }
        cluster.wait_ready().await?;
        Ok(cluster)
    }

    /// Like [`start`](Self::start), without starting the nodes.
    pub async fn prepare(self) -> anyhow::Result<Cluster> {
        self.check()?;
        let (kafka, java) = get_programs(self.version.clone()).await?;
        let class_archive = archive::find_or_make(&kafka, &java).await?;
        self.prepare_with(kafka, java, class_archive).await
    }

    fn check(&self) -> anyhow::Result<()> {
        let count = |role| self.count(role);
        ensure!(
            ROLES.iter().any(|r| r.is_controller() && count(*r) > 0),
            "no controller is configured"
        );
        ensure!(ROLES.iter().all(|r| count(*r) <= r.count_max()), "too many nodes of one role");
        ensure!(self.log_dirs != Some(0), "a node needs a log directory");
        ensure!(self.initial_voters != Some(0), "a quorum needs a voter");
        Ok(())
    }

    fn count(&self, role: Role) -> usize {
        self.counts.get(&role).copied().unwrap_or(0)
    }

    /// [`prepare`](Self::prepare) with programs that are known already.
    pub(crate) async fn prepare_with(
        self,
        kafka: KafkaHome,
        java: Java,
        class_archive: ClassArchive,
    ) -> anyhow::Result<Cluster> {
        let temp = TempDir::with_prefix("gregor-testkit-").context("cannot make a directory")?;
        let network = Network::take()?;
        let reaper = Arc::new(Reaper::start(Some(network.share_lock()?))?);
        let authority = match self.settings.security {
            Security::Plaintext => None,
            Security::Tls => Some(Authority::new("gregor-testkit")?),
        };
        let ground = Arc::new(Ground {
            dir: temp.path().to_owned(),
            kafka,
            java,
            class_archive,
            cluster_id: storage::random_id()?,
            settings: self.settings.clone(),
            log_dirs: self.log_dirs.unwrap_or(1),
            network,
            reaper,
            authority,
        });
        let ids = |role: Role| (role.first_id()..).take(self.count(role)).map(move |id| (id, role));
        let specs = ROLES.into_iter().flat_map(ids).map(|(id, role)| spec(&ground, id, role));
        let specs: Vec<_> = specs.collect();
        let quorum: Vec<_> = specs.iter().filter(|p| p.role.is_controller()).cloned().collect();
        let brokers = specs.iter().filter(|spec| spec.role.is_broker()).count();
        let voters = self.initial_voters.unwrap_or(quorum.len());
        // From here on the cluster is cleaned up, even if this function fails.
        let cluster =
            Cluster { ground, quorum, brokers, nodes: Mutex::default(), temp: Some(temp) };
        for spec in &specs {
            cluster.settle(spec)?;
        }
        storage::format_cluster(&cluster.ground, &specs, voters).await?;
        Ok(cluster)
    }
}

/// A cluster of running processes, all killed on drop.
#[derive(Debug)]
pub struct Cluster {
    ground: Arc<Ground>,
    /// The initial controllers.
    quorum: Vec<NodeSpec>,
    /// The initial number of brokers.
    brokers: usize,
    nodes: Mutex<BTreeMap<i32, Node>>,
    temp: Option<TempDir>,
}

impl Cluster {
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Bootstrap addresses of the brokers.
    #[must_use]
    pub fn bootstrap_brokers(&self) -> Vec<(String, u16)> {
        self.addresses(Role::is_broker, BROKER_PORT)
    }

    /// Bootstrap addresses of the controllers.
    #[must_use]
    pub fn bootstrap_controllers(&self) -> Vec<(String, u16)> {
        self.addresses(Role::is_controller, CONTROLLER_PORT)
    }

    /// Bootstrap addresses of the SASL listener; empty if the cluster has none.
    #[must_use]
    pub fn bootstrap_sasl(&self) -> Vec<(String, u16)> {
        match self.ground.settings.sasl_listeners {
            true => self.addresses(Role::is_broker, SASL_PORT),
            false => Vec::new(),
        }
    }

    #[must_use]
    pub fn cluster_id(&self) -> &str {
        &self.ground.cluster_id
    }

    #[must_use]
    pub fn version(&self) -> KafkaVersion {
        self.ground.kafka.version
    }

    /// The directory with all files of the cluster.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.ground.dir
    }

    /// The certificate authority of the nodes; `None` without TLS.
    #[must_use]
    pub fn tls(&self) -> Option<&Authority> {
        self.ground.authority.as_ref()
    }

    /// The node with this id.
    ///
    /// # Panics
    ///
    /// If there is no such node: a mistake in the test.
    #[must_use]
    pub fn node(&self, id: i32) -> Node {
        match self.lock_nodes().get(&id) {
            Some(node) => node.clone(),
            None => panic!("the cluster has no node {id}"),
        }
    }

    /// All nodes, sorted by id, running or not.
    #[must_use]
    pub fn nodes(&self) -> Vec<Node> {
        self.lock_nodes().values().cloned().collect()
    }

    /// Adds a node with the next free id of its role, starts it and waits until it is ready. A controller
    /// stays an observer until a test makes it a voter.
    pub async fn add_node(&self, role: Role) -> anyhow::Result<i32> {
        ensure!(
            self.ground.settings.quorum == Quorum::Dynamic || !role.is_controller(),
            "a static quorum cannot get another controller"
        );
        let taken = self.nodes().into_iter().filter(|node| node.role() == role).map(|n| n.id());
        let id = taken.max().map_or(role.first_id(), |id| id + 1);
        let count = usize::try_from(id - role.first_id()).context("ids rise")?;
        ensure!(count < role.count_max(), "too many nodes of one role");
        let node = self.settle(&spec(&self.ground, id, role))?;
        node.start().await?;
        node.wait_ready().await?;
        Ok(id)
    }

    /// Waits until every started node is ready. Fails if one of them exits.
    pub async fn wait_ready(&self) -> anyhow::Result<()> {
        for node in self.nodes().into_iter().filter(Node::is_started) {
            node.wait_ready().await?;
        }
        Ok(())
    }

    /// Runs one of Kafka's command line tools and returns its output.
    pub async fn run_tool(&self, class: &str, arguments: &[&str]) -> anyhow::Result<String> {
        let arguments: Vec<_> = arguments.iter().map(|one| (*one).to_owned()).collect();
        self.ground.run_tool(class, &arguments).await
    }

    /// Options for load on a topic of this cluster, with the clients of its Kafka version. Without TLS.
    #[must_use]
    pub fn load_options(&self, topic: &str) -> LoadOptions {
        let brokers = self.bootstrap_brokers();
        let addresses: Vec<_> =
            brokers.iter().map(|(host, port)| format!("{host}:{port}")).collect();
        LoadOptions::new(self.ground.kafka.clone(), &addresses.join(","), topic)
    }

    /// Writes the files that a node needs before it is formatted, and adds it to the cluster.
    fn settle(&self, spec: &NodeSpec) -> anyhow::Result<Node> {
        let write = |path: PathBuf, text: String| {
            fs::write(&path, text).with_context(|| format!("cannot write {path:?}"))
        };
        fs::create_dir_all(&spec.dir).with_context(|| format!("cannot create {:?}", spec.dir))?;
        if let Some(authority) = &self.ground.authority {
            let identity = authority.node_certificate(TLS_NODE, &spec.host)?;
            write(spec.key_store(), identity.key_pem + &identity.certificate_pem)?;
            write(spec.trust_store(), authority.ca_pem())?;
        }
        let properties = server_properties(&self.ground.settings, spec, &self.quorum, self.brokers);
        write(spec.properties_file(), properties)?;
        let node = Node::new(Arc::clone(&self.ground), spec.clone());
        self.lock_nodes().insert(spec.id, node.clone());
        Ok(node)
    }

    fn addresses(&self, wanted: fn(Role) -> bool, port: u16) -> Vec<(String, u16)> {
        let nodes = self.nodes().into_iter().filter(|node| wanted(node.role()));
        nodes.map(|node| (node.host().to_owned(), port)).collect()
    }

    fn lock_nodes(&self) -> MutexGuard<'_, BTreeMap<i32, Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let nodes = self.nodes();
        nodes.iter().for_each(Node::send_kill);
        nodes.iter().for_each(Node::collect);
        self.ground.reaper.close();
        let Some(temp) = self.temp.take() else { return };
        if std::thread::panicking() || std::env::var_os("GREGOR_KEEP_LOGS").is_some() {
            eprintln!("testkit: the cluster's files and logs are kept in {:?}", temp.keep());
        }
    }
}

/// Explains on stderr why the first test of a machine takes so long.
struct Announce;

impl Progress for Announce {
    fn report(&self, event: Event<'_>) {
        match event {
            Event::Resolving { version } => eprintln!("testkit: fetching Kafka {version}, once"),
            Event::Waiting { what } => {
                eprintln!("testkit: another test fetches {what}")
            }
            _ => {}
        }
    }
}

/// Gets Kafka and Java, on a blocking thread.
async fn get_programs(version: Option<String>) -> anyhow::Result<(KafkaHome, Java)> {
    let get = move || {
        let environment = Environment::from_process();
        let version = version.map(|text| text.parse::<KafkaVersion>()).transpose()?;
        let kafka = kafka::ensure(&environment, version, &Announce)?;
        Ok((kafka, java::find(&environment)?))
    };
    tokio::task::spawn_blocking(get).await.context("getting Kafka panicked")?
}

fn spec(ground: &Ground, id: i32, role: Role) -> NodeSpec {
    let dir = ground.dir.join(format!("node-{id}"));
    let log_dirs = (0..ground.log_dirs).map(|index| dir.join(format!("data-{index}"))).collect();
    NodeSpec { id, role, host: ground.network.host(role.octet(id)), dir, log_dirs }
}
