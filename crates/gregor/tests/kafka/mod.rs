//! Kafka clusters in a local Kubernetes with the operator in it, for the tests that look at them from
//! outside: with kubectl, with Kafka's own tools, and with our client.

#![allow(dead_code, reason = "each program of tests uses a part of it")]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use artifacts::kafka::{self, KafkaHome};
use artifacts::{Environment, Silent};
use kafka_admin::{Admin, Bootstrap, ClientOptions, Resolve, Resolving};
use rustix::process::Signal;
use serde_json::Value;

use crate::up::{Process, Run, World, signal};

/// A busy machine with two cores starts six nodes in a fraction of it.
pub(crate) const READY: Duration = Duration::from_secs(300);

/// Waits until it holds; what it said last is told if it never does.
pub(crate) fn wait_for(holds: impl Fn() -> Result<(), String>) {
    wait_for_mut(holds);
}

/// The same for what keeps what it found.
pub(crate) fn wait_for_mut(holds: impl FnMut() -> Result<(), String>) {
    wait_within(READY, holds);
}

/// The same for what takes its time.
pub(crate) fn wait_within(limit: Duration, mut holds: impl FnMut() -> Result<(), String>) {
    let begun = Instant::now();
    while let Err(why) = holds() {
        assert!(begun.elapsed() < limit, "not in time: {why}");
        // A look costs a process or two; more of them would slow down what is awaited.
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// With this in the environment the operator of some tests dies after everything it does.
const LIVES: &str = "GREGOR_TEST_LIVES";
/// The file with which the operator lives for one act.
const MORTAL: &str = "one-act-per-life";

/// Starts the operator again, at once, whenever it was killed. Where there is a file, it ends itself after
/// everything it does. It carries the name of the state directory, by which its process is found.
const AGAIN: &str = "#!/bin/sh
export GREGOR_TEST_WORLD=STATE
while :; do
  unset GREGOR_ONE_ACT_PER_LIFE
  [ -e FILE ] && export GREGOR_ONE_ACT_PER_LIFE=true
  GREGOR operator \"$@\"
  [ $? -eq 137 ] || exit 1
done
";

/// A local Kubernetes with the operator in it.
pub(crate) struct Ground {
    pub(crate) world: World,
    pub(crate) up: Run,
    pub(crate) home: KafkaHome,
}

impl Ground {
    /// Starts it with `gregor up` and these words besides.
    pub(crate) fn start(words: &[&str]) -> Self {
        Self::start_in(World::with_operator(), words)
    }

    /// The same with an operator that lives for one act, if the environment says so: `make soak`.
    pub(crate) fn start_as_asked(words: &[&str]) -> Self {
        match std::env::var_os(LIVES) {
            None => Self::start(words),
            Some(_) => Self::one_act_per_life(words),
        }
    }

    /// The same with an operator that lives for one act.
    pub(crate) fn one_act_per_life(words: &[&str]) -> Self {
        let world = World::with_operator();
        world.file(MORTAL, "");
        Self::start_again_and_again(world, words)
    }

    /// The same with an operator that will live for one act from [`Self::begin_one_act_per_life`] on.
    pub(crate) fn mortal(words: &[&str]) -> Self {
        Self::start_again_and_again(World::with_operator(), words)
    }

    /// Every life of the operator from now on has one act.
    pub(crate) fn begin_one_act_per_life(&self) {
        self.world.file(MORTAL, "");
        self.kill_operator();
    }

    /// Lives are long again.
    pub(crate) fn end_one_act_per_life(&self) {
        fs::remove_file(self.world.temp().join(MORTAL)).unwrap();
        self.kill_operator();
    }

    /// The process of the operator.
    pub(crate) fn operator_pid(&self) -> u32 {
        let is_operator = |process: &Process| {
            process.is("gregor") && process.words.get(1).is_some_and(|word| word == "operator")
        };
        let found: Vec<_> = self.world.processes().into_iter().filter(is_operator).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].pid
    }

    /// Kills the operator, unless it is between two lives.
    pub(crate) fn kill_operator(&self) {
        let is_it = |process: &Process| {
            process.is("gregor") && process.words.get(1).is_some_and(|word| word == "operator")
        };
        let found: Vec<_> = self.world.processes().into_iter().filter(is_it).collect();
        assert!(found.len() <= 1, "{found:?}");
        found.iter().for_each(|operator| signal(operator.pid, Signal::KILL));
    }

    fn start_again_and_again(world: World, words: &[&str]) -> Self {
        let script = AGAIN
            .replace("STATE", world.state().to_str().unwrap())
            .replace("FILE", world.temp().join(MORTAL).to_str().unwrap())
            .replace("GREGOR operator", &format!("{} operator", env!("CARGO_BIN_EXE_gregor")));
        let script = world.file("operator", &script);
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let image = format!("gregor-operator:{}={script}", env!("CARGO_PKG_VERSION"));
        Self::start_in(world, &[words, &["--image", &image]].concat())
    }

    /// The same, in a world that is there already.
    pub(crate) fn start_in(world: World, words: &[&str]) -> Self {
        let up = world.gregor(&[&["up", "--detach"], words].concat()).ok();
        let home = kafka::ensure(&Environment::from_process(), None, &Silent).unwrap();
        Self { world, up, home }
    }

    pub(crate) fn kubectl(&self, words: &[&str]) -> String {
        self.world.kubectl(&self.up, words)
    }

    /// What kubectl says when it fails.
    pub(crate) fn kubectl_refused(&self, words: &[&str]) -> String {
        let output = self.world.kubectl_command(&self.up, words).output().unwrap();
        assert!(!output.status.success(), "kubectl {words:?} was expected to fail");
        String::from_utf8(output.stderr).unwrap()
    }

    /// A namespace for one scenario.
    pub(crate) fn namespace(&self, name: &str) -> Place<'_> {
        self.kubectl(&["create", "namespace", name]);
        self.place(name)
    }

    /// A namespace in which the API server enforces the Pod Security profile `restricted`, which it shows by
    /// refusing an ordinary pod.
    pub(crate) fn restricted_namespace(&self, name: &str) -> Place<'_> {
        let place = self.namespace(name);
        let label = "pod-security.kubernetes.io/enforce=restricted";
        self.kubectl(&["label", "namespace", name, label]);
        let ordinary = ["-n", name, "run", "ordinary", "--image=pause", "--restart=Never"];
        let why = self.kubectl_refused(&ordinary);
        assert!(why.contains("violates PodSecurity \"restricted:latest\""), "{why}");
        place
    }

    /// One that is there.
    pub(crate) fn place(&self, name: &str) -> Place<'_> {
        Place { ground: self, namespace: name.to_owned() }
    }

    /// What the operator has written to its log.
    pub(crate) fn operator_log(&self) -> String {
        self.kubectl(&["-n", "gregor", "logs", "deployment/gregor-operator", "--tail=-1"])
    }

    /// Fails if the operator had a fault to tell of, such as a right that it lacks.
    pub(crate) fn assert_operator_is_content(&self) {
        let log = self.operator_log();
        let bad = |line: &&str| line.contains(" ERROR ") || line.contains(" WARN ");
        let lines: Vec<_> = log.lines().filter(bad).collect();
        assert!(lines.is_empty(), "{}", lines.join("\n"));
    }

    /// The file with the names of all that can be reached.
    pub(crate) fn hosts(&self) -> PathBuf {
        self.world.state().join("hosts")
    }

    /// Runs one of Kafka's own tools, as a client on this machine.
    pub(crate) fn tool(&self, class: &str, words: &[&str]) -> Result<String, String> {
        let output = Command::new("java")
            .arg(format!("-Djdk.net.hosts.file={}", self.hosts().display()))
            .args(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp"])
            .arg(self.home.root.join("libs/*"))
            .arg(class)
            .args(words)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(out) } else { Err(format!("{out}{err}")) }
    }
}

/// The names of a local Kubernetes, read anew each time: pods come and go.
#[derive(Debug)]
pub(crate) struct Hosts(PathBuf);

impl Hosts {
    pub(crate) fn find(&self, host: &str) -> io::Result<IpAddr> {
        let text = fs::read_to_string(&self.0)?;
        let mut lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let found = lines.find_map(|line| {
            let mut words = line.split_whitespace();
            let address = words.next()?.parse::<IpAddr>().ok()?;
            words.any(|word| word == host).then_some(address)
        });
        found.ok_or_else(|| io::Error::other(format!("{host} is not known")))
    }
}

impl Resolve for Hosts {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        Box::pin(async move { Ok(vec![SocketAddr::new(self.find(host)?, port)]) })
    }
}

/// A namespace with clusters.
pub(crate) struct Place<'a> {
    pub(crate) ground: &'a Ground,
    pub(crate) namespace: String,
}

impl Place<'_> {
    pub(crate) fn kubectl(&self, words: &[&str]) -> String {
        self.ground.kubectl(&[&["-n", &self.namespace], words].concat())
    }

    /// The program as a user runs it for this namespace.
    pub(crate) fn gregor(&self, words: &[&str]) -> Run {
        let kubeconfig = self.ground.world.state().join("kubeconfig");
        let here = ["-n", &self.namespace, "--kubeconfig", kubeconfig.to_str().unwrap()];
        self.ground.world.gregor(&[words, &here].concat())
    }

    /// Applies a manifest. Nodes get little memory and no time of the optimizing compiler, as several clusters
    /// share the machine, and little time to end: where all are deleted at once, brokers wait for controllers
    /// that are gone.
    pub(crate) fn apply(&self, manifest: &str) {
        let small = manifest.replace(
            "spec:\n  kafka:\n",
            "spec:\n  kafka:\n    jvmOptions: {\"-Xmx\": \"256m\", \"-XX\": {\"UseSerialGC\": \"true\", \
             \"TieredStopAtLevel\": \"1\"}}\n    template: {pod: {terminationGracePeriodSeconds: 10}}\n",
        );
        let file = self.ground.world.file(&format!("{}.yaml", self.namespace), &small);
        self.kubectl(&["apply", "-f", &file]);
    }

    pub(crate) fn get(&self, kind: &str, name: &str) -> Value {
        serde_json::from_str(&self.kubectl(&["get", kind, name, "-o", "json"])).unwrap()
    }

    /// All objects of a kind.
    pub(crate) fn list(&self, kind: &str) -> Vec<Value> {
        let list: Value =
            serde_json::from_str(&self.kubectl(&["get", kind, "-o", "json"])).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    pub(crate) fn names(&self, kind: &str) -> Vec<String> {
        let names = self.list(kind);
        names.iter().map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// A condition of a cluster, with its reason and message.
    pub(crate) fn condition(&self, cluster: &str, kind: &str) -> Option<(String, String)> {
        let kafka = self.get("kafka", cluster);
        let conditions = kafka["status"]["conditions"].as_array()?.clone();
        let found = conditions.into_iter().find(|one| one["type"] == kind)?;
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        Some((text("reason"), text("message")))
    }

    /// The message of a warning of a cluster, which is there once at most.
    pub(crate) fn warning(&self, cluster: &str, reason: &str) -> Option<String> {
        let kafka = self.get("kafka", cluster);
        let all = kafka["status"]["conditions"].as_array().unwrap().clone();
        let is_it = |one: &&Value| one["type"] == "Warning" && one["reason"] == reason;
        let found: Vec<_> = all.iter().filter(is_it).collect();
        assert!(found.len() < 2, "told twice: {found:?}");
        Some(found.first()?["message"].as_str().unwrap().to_owned())
    }

    /// Waits until the cluster matches its spec in its present generation.
    pub(crate) fn ready(&self, cluster: &str) -> Value {
        let is_ready = || {
            let kafka = self.get("kafka", cluster);
            let done = kafka["status"]["observedGeneration"] == kafka["metadata"]["generation"];
            let conditions = kafka["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let ready = conditions.iter().any(|one| one["type"] == "Ready");
            let busy = conditions.iter().any(|one| one["type"] == "Progressing");
            if done && ready && !busy { Ok(()) } else { Err(kafka["status"].to_string()) }
        };
        wait_for(is_ready);
        self.get("kafka", cluster)
    }

    /// Waits until the cluster says that something holds it up, and why.
    pub(crate) fn held(&self, cluster: &str) -> (String, String) {
        let held =
            || self.condition(cluster, "NotReady").map(|_| ()).ok_or("not held up".to_owned());
        wait_for(held);
        self.condition(cluster, "NotReady").unwrap()
    }

    /// Where clients of a listener begin.
    pub(crate) fn bootstrap(&self, cluster: &str, listener: &str) -> String {
        let kafka = self.get("kafka", cluster);
        let listeners = kafka["status"]["listeners"].as_array().unwrap();
        let found = listeners.iter().find(|one| one["name"] == listener).unwrap();
        found["bootstrapServers"].as_str().unwrap().to_owned()
    }

    /// The names of all that can be reached.
    pub(crate) fn names_of_hosts(&self) -> Hosts {
        Hosts(self.ground.hosts())
    }

    /// A client of a cluster, through its listener `plain`, that is as patient as these options say.
    pub(crate) fn admin(&self, cluster: &str, options: ClientOptions) -> Admin {
        let servers = self.bootstrap(cluster, "plain");
        let servers = servers.split(',').map(|server| server.parse().unwrap()).collect();
        let names = Arc::new(self.names_of_hosts());
        Admin::new(Bootstrap::Brokers(servers), ClientOptions { names, ..options }).unwrap()
    }

    /// The pods of a cluster with their uids.
    pub(crate) fn pods(&self) -> Vec<(String, String)> {
        let pods = self.list("pods");
        let text = |pod: &Value, field: &str| pod["metadata"][field].as_str().unwrap().to_owned();
        pods.iter().map(|pod| (text(pod, "name"), text(pod, "uid"))).collect()
    }

    /// The pods of one pool with their uids.
    pub(crate) fn pods_of_pool(&self, cluster: &str, pool: &str) -> BTreeMap<String, String> {
        let prefix = format!("{cluster}-{pool}-");
        self.pods().into_iter().filter(|(pod, _)| pod.starts_with(&prefix)).collect()
    }

    /// The Kafka processes of the pods whose names begin so.
    pub(crate) fn javas(&self, prefix: &str) -> Vec<u32> {
        let pods = self.pods().into_iter().filter(|(pod, _)| pod.starts_with(prefix));
        let marks: Vec<String> =
            pods.map(|(_, uid)| format!("GREGOR_CONTAINER_ID=gregor://{uid}/")).collect();
        let all = fs::read_dir("/proc").unwrap().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let read = |pid: u32, file: &str| {
            let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let is_of = |pid: &u32| {
            let environment = read(*pid, "environ");
            read(*pid, "comm").trim() == "java"
                && marks.iter().any(|mark| environment.contains(mark))
        };
        pids.filter(is_of).collect()
    }

    /// The Kafka process of a pod that runs.
    pub(crate) fn java(&self, pod: &str) -> u32 {
        let found = self.javas(pod);
        assert_eq!(found.len(), 1, "{pod}: {found:?}");
        found[0]
    }

    /// An entry of a Secret.
    pub(crate) fn secret(&self, name: &str, entry: &str) -> Vec<u8> {
        use base64::Engine as _;
        let secret = self.get("secret", name);
        let text = secret["data"][entry].as_str().unwrap_or_else(|| panic!("no {entry} in {name}"));
        base64::engine::general_purpose::STANDARD.decode(text).unwrap()
    }

    /// Writes so many records with acks=all and reads them back, as a client on this machine.
    pub(crate) fn produce_and_consume(
        &self,
        bootstrap: &str,
        topic: &str,
        properties: &str,
        count: u32,
    ) {
        self.produce(bootstrap, topic, properties, count);
        self.consume(bootstrap, topic, properties, count);
    }

    fn client(&self, topic: &str, properties: &str) -> String {
        self.ground.world.file(&format!("{}-{topic}.properties", self.namespace), properties)
    }

    /// Writes so many records with acks=all.
    pub(crate) fn produce(&self, bootstrap: &str, topic: &str, properties: &str, count: u32) {
        let (client, count) = (self.client(topic, properties), count.to_string());
        let words = [
            ["--topic", topic],
            ["--num-records", &count],
            ["--record-size", "100"],
            ["--throughput", "-1"],
            ["--bootstrap-server", bootstrap],
            ["--command-config", &client],
            ["--command-property", "acks=all"],
        ];
        let class = "org.apache.kafka.tools.ProducerPerformance";
        let wrote = self.ground.tool(class, words.as_flattened());
        let wrote = wrote.unwrap_or_else(|error| panic!("cannot write: {error}"));
        assert!(wrote.contains(&format!("{count} records sent")), "{wrote}");
    }

    /// Reads so many records.
    pub(crate) fn consume(&self, bootstrap: &str, topic: &str, properties: &str, count: u32) {
        let (client, wanted) = (self.client(topic, properties), count.to_string());
        let words = [
            ["--topic", topic],
            ["--num-records", &wanted],
            ["--timeout", "60000"],
            ["--bootstrap-server", bootstrap],
            ["--command-config", &client],
        ];
        let class = "org.apache.kafka.tools.ConsumerPerformance";
        let read = self.ground.tool(class, words.as_flattened());
        let read = read.unwrap_or_else(|error| panic!("cannot read: {error}"));
        let line = read.lines().rfind(|line| line.contains(", ")).unwrap_or_default();
        let records: u32 = line.split(", ").nth(4).and_then(|n| n.parse().ok()).unwrap_or_default();
        assert!(records >= count, "{read}");
    }

    /// Waits until the kubelets find all pods ready.
    pub(crate) fn all_pods_ready(&self) {
        wait_for(|| {
            let pods = self.list("pods");
            let is_ready = |pod: &&Value| {
                let all = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
                all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
            };
            let ready = pods.iter().filter(is_ready).count();
            if ready == pods.len() { Ok(()) } else { Err(format!("{ready} of {}", pods.len())) }
        });
    }
}
