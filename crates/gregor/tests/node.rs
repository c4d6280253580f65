//! `gregor node` as a parent: signals, exit codes, orphans, words. With a script in the place of Java, as
//! none of this needs Kafka.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use testkit::Network;

const GREGOR: &str = env!("CARGO_BIN_EXE_gregor");
const TIMEOUT: Duration = Duration::from_secs(60);

/// A node whose disks are formatted and whose Java is this script.
struct Node {
    dir: TempDir,
    http: String,
    /// Held as long as the node may listen.
    network: Network,
}

impl Node {
    fn new(java: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        };
        let data = dir.path().join("data");
        let server = format!(
            "node.id=0\nprocess.roles=broker\nlog.dirs={}\nssl.key.password=hunter2\n",
            data.display()
        );
        write("config/server.config", &server);
        write("config/cluster.id", "ours");
        write("config/metadata.version", "4.3-IV0");
        write("data/meta.properties", "version=1\ncluster.id=ours\nnode.id=0\n");
        write("kafka/libs/kafka_2.13-4.3.1.jar", "");
        write("kafka/agents/jmx_prometheus_javaagent-1.0.1.jar", "");
        let script = format!("#!/bin/sh\ncd {}\n{java}\n", dir.path().display());
        let java = write("java/bin/java", &script);
        fs::set_permissions(java, fs::Permissions::from_mode(0o755)).unwrap();
        let network = Network::take().unwrap();
        let http = format!("{}:8080", network.host(1));
        Self { dir, http, network }
    }

    fn command(&self, program: &[&str]) -> Command {
        let path = |name: &str| self.dir.path().join(name);
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).arg("node").arg("--config").arg(path("config"));
        command.arg("--kafka-home").arg(path("kafka")).arg("--java-home").arg(path("java"));
        command.args(["--http", &self.http]).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn start(&self) -> Child {
        self.command(&[GREGOR]).spawn().unwrap()
    }

    /// Runs to the end; gives the exit code and everything that was said.
    fn run(&self) -> (i32, String) {
        words(self.start().wait_with_output().unwrap())
    }

    /// Waits until the script has written a file.
    fn wait_for(&self, name: &str) -> String {
        let until = Instant::now() + TIMEOUT;
        loop {
            match fs::read_to_string(self.dir.path().join(name)) {
                Ok(text) if text.ends_with('\n') => return text,
                _ => assert!(Instant::now() < until, "there is no {name}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn words(output: Output) -> (i32, String) {
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    assert!(!text.contains("panicked"), "{text}");
    (output.status.code().unwrap(), text)
}

fn kill(signal: &str, process: u32) {
    let status = Command::new("kill").args([signal, &process.to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn the_exit_code_of_kafka_is_passed_on() {
    for code in [0, 1, 3, 143] {
        let (found, said) = Node::new(&format!("exit {code}")).run();
        assert_eq!(found, code, "{said}");
        assert!(said.contains(&format!("Kafka exited code={code}")), "{said}");
    }
    assert_eq!(Node::new("kill -KILL $$").run().0, 137);
    assert_eq!(Node::new("kill -ABRT $$").run().0, 134);
}

#[test]
fn a_node_that_is_asked_to_stop_asks_kafka_and_waits_for_it() {
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let node = Node::new(&format!(
            "trap 'sleep 0.3; echo done > stopped; exit {code}' {signal}\n\
             echo up > up\nwhile :; do sleep 0.05; done"
        ));
        let child = node.start();
        node.wait_for("up");
        kill(&format!("-{signal}"), child.id());
        let (found, said) = words(child.wait_with_output().unwrap());
        assert_eq!(found, 0, "{said}");
        assert_eq!(node.wait_for("stopped"), "done\n");
        assert!(said.contains("Kafka stopped"), "{said}");
    }
}

#[test]
fn kafka_that_fails_while_it_stops_is_told() {
    let node = Node::new("trap 'exit 1' TERM\necho up > up\nwhile :; do sleep 0.05; done");
    let child = node.start();
    node.wait_for("up");
    kill("-TERM", child.id());
    assert_eq!(words(child.wait_with_output().unwrap()).0, 1);
}

#[test]
fn java_gets_the_heap_the_agent_and_the_configuration() {
    let node =
        Node::new("printf '%s\\n' \"$@\" > arguments.new\nmv arguments.new arguments\nexit 0");
    let output = node.command(&[GREGOR]).args(["--memory", "4294967296"]).output().unwrap();
    let (_, said) = words(output);
    let arguments = node.wait_for("arguments");
    let has = |word: &str| assert!(arguments.contains(word), "no {word} in:\n{arguments}");
    has("-Xms2147483648\n-Xmx2147483648\n");
    has("\n-javaagent:");
    has(&format!("jmx_prometheus_javaagent-1.0.1.jar={}:9405:", node.network.host(1)));
    has("\n-Dlog4j2.configurationFile=");
    has("/libs/kafka_2.13-4.3.1.jar\nkafka.Kafka\n");
    has("/config/server.config\n");
    assert!(!said.contains("hunter2") && !arguments.contains("hunter2"), "{said}");
}

#[test]
fn what_is_missing_is_told_in_one_sentence() {
    let node = Node::new("exit 0");
    let remove = |name: &str| fs::remove_file(node.dir.path().join(name)).unwrap();
    remove("java/bin/java");
    let (code, said) = node.run();
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("cannot start Kafka: cannot start Java"), "{said}");
    remove("kafka/agents/jmx_prometheus_javaagent-1.0.1.jar");
    assert_eq!(node.run().0, 1);
    remove("config/cluster.id");
    let (code, said) = node.run();
    assert_eq!((code, said.lines().count()), (78, 1), "{said}");
    assert!(said.contains("cannot read") && said.contains("config/cluster.id"), "{said}");
    let taken = TcpListener::bind(&node.http).unwrap();
    fs::write(node.dir.path().join("config/cluster.id"), "ours").unwrap();
    fs::write(node.dir.path().join("kafka/agents/jmx_prometheus_javaagent-1.jar"), "").unwrap();
    let (code, said) = node.run();
    assert_eq!(code, 1);
    assert!(said.contains(&format!("cannot listen on {}", node.http)), "{said}");
    drop(taken);
}

#[test]
fn why_it_did_not_start_is_left_for_kubernetes() {
    let node = Node::new("exit 0");
    let message: &Path = &node.dir.path().join("message");
    fs::write(message, "").unwrap();
    fs::write(node.dir.path().join("config/cluster.id"), "theirs").unwrap();
    let mut command = node.command(&[GREGOR]);
    let (code, _) = words(command.arg("--termination-log").arg(message).output().unwrap());
    assert_eq!(code, 65);
    let text = fs::read_to_string(message).unwrap();
    assert!(text.contains("belongs to the cluster ours and not to theirs"), "{text}");
}

#[test]
fn the_first_process_of_a_container_collects_orphans_and_takes_signals() {
    let unshare = ["unshare", "--user", "--map-root-user", "--fork", "--pid", "--mount-proc"];
    if !Command::new(unshare[0]).args(&unshare[1..]).arg("true").status().is_ok_and(|s| s.success())
    {
        let why = "unshare --user is not permitted";
        return testkit::skip("first-process-of-a-container", why);
    }
    // The inner shell ends before what it started, which then belongs to the first process.
    let node = Node::new(
        "for i in 1 2 3 4 5; do sh -c 'sleep 0.1 &'; done\nsleep 1\n\
         grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l > zombies\n\
         trap 'exit 143' TERM\necho up > up\nwhile :; do sleep 0.05; done",
    );
    let child = node.command(&[&unshare[..], &[GREGOR]].concat()).spawn().unwrap();
    node.wait_for("up");
    assert_eq!(node.wait_for("zombies").trim(), "0");
    let first = children(child.id());
    assert_eq!(first.len(), 1);
    kill("-TERM", first[0]);
    let (code, said) = words(child.wait_with_output().unwrap());
    assert_eq!(code, 0, "{said}");
}

fn children(parent: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    text.split_whitespace().map(|id| id.parse().unwrap()).collect()
}
