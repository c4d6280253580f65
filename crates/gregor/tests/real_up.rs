//! `gregor up`, `down` and `kubeconfig` as a person at a terminal has them: the program itself, with a
//! real control plane.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use local::control_plane::{Component, ProcessIdentity};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Ends a control plane when its input does, which is when the test does, however it does.
const UNDERTAKER: &str = r#"trap '' INT TERM; read -r line; "$0" down --purge --state "$1""#;

/// A state directory, and what is in it ends with the test.
struct World {
    temp: tempfile::TempDir,
    undertaker: Child,
}

/// What a run of the program left.
struct Run {
    code: i32,
    out: String,
    err: String,
}

impl World {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let undertaker = Command::new("sh")
            .args(["-c", UNDERTAKER, env!("CARGO_BIN_EXE_gregor")])
            .arg(temp.path().join("state"))
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { temp, undertaker }
    }

    fn state(&self) -> PathBuf {
        self.temp.path().join("state")
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.temp.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gregor"));
        command.args(words).env("GREGOR_STATE_DIR", self.state()).stdin(Stdio::null());
        command
    }

    fn gregor(&self, words: &[&str]) -> Run {
        let output = self.command(words).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap();
        let run = Run { code, out: text(output.stdout), err: text(output.stderr) };
        println!("$ gregor {}\n{}{}[{code}]\n", words.join(" "), run.out, run.err);
        run
    }

    /// What kubectl prints, with the program and the kubeconfig that `up` has named.
    fn kubectl(&self, up: &Run, words: &[&str]) -> String {
        let named = |what: &str| {
            up.out.lines().find_map(|line| line.trim().strip_prefix(what)).unwrap().trim()
        };
        let output = Command::new(named("kubectl "))
            .args(words)
            .env("KUBECONFIG", named("kubeconfig "))
            .arg("--cache-dir")
            .arg(self.temp.path().join("cache"))
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "kubectl {words:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn uid(&self, up: &Run) -> String {
        self.kubectl(up, &["get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}"])
    }

    /// The processes of the components, as recorded.
    fn pids(&self) -> BTreeMap<&'static str, u32> {
        let pid = |component: Component| {
            let record = self.state().join(format!("run/{component}.json"));
            let record: Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
            (component.name(), u32::try_from(record["process"]["pid"].as_u64().unwrap()).unwrap())
        };
        Component::ALL.map(pid).into()
    }

    fn supervisor(&self) -> u32 {
        let record = fs::read(self.state().join("supervisor.json")).unwrap();
        let record: Value = serde_json::from_slice(&record).unwrap();
        u32::try_from(record["pid"].as_u64().unwrap()).unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.undertaker.stdin.take());
        let _ = self.undertaker.wait();
    }
}

impl Run {
    fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self
    }

    /// One sentence, and nothing was printed as a result.
    fn failed(self, words: &str) {
        assert_eq!((self.code, self.out.as_str()), (1, ""), "{}", self.err);
        assert!(self.err.contains(words), "\"{words}\" is not in: {}", self.err);
        assert_eq!(self.err.trim_end().lines().count(), 1, "{}", self.err);
    }
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

fn is_alive(pid: u32) -> bool {
    ProcessIdentity::of(pid).is_ok_and(|process| process.is_alive())
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: not after a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn detached_killed_taken_over_stopped_resumed_and_purged() {
    let world = World::new();
    let up = world.gregor(&["up", "--detach"]).ok();
    assert!(up.out.contains("export KUBECONFIG="), "{}", up.out);
    let (uid, pids) = (world.uid(&up), world.pids());
    let kubeconfig = world.gregor(&["kubeconfig"]).ok().out;
    assert_eq!(kubeconfig.trim_end(), world.state().join("kubeconfig").to_str().unwrap());
    world.gregor(&["up", "--detach"]).failed("is already run by process");
    world.gregor(&["up"]).failed("is already run by process");

    // A component that dies is started again by the process in the background.
    signal(pids["kube-scheduler"], Signal::KILL);
    eventually("the scheduler is back", || {
        let pid = world.pids()["kube-scheduler"];
        pid != pids["kube-scheduler"] && is_alive(pid)
    });
    let log = fs::read_to_string(world.state().join("logs/gregor.log")).unwrap();
    assert!(log.contains("kube-scheduler has ended and is started again"), "{log}");

    // The components outlive that process, and the next one takes them over.
    world.kubectl(&up, &["create", "configmap", "kept"]);
    let pids = world.pids();
    let first = world.supervisor();
    signal(first, Signal::KILL);
    eventually("the process is gone", || !is_alive(first));
    assert!(pids.values().all(|pid| is_alive(*pid)));
    let up = world.gregor(&["up", "--detach"]).ok();
    assert!(up.err.contains("is taken over"), "{}", up.err);
    assert_eq!((world.uid(&up), world.pids()), (uid.clone(), pids.clone()));
    assert_ne!(world.supervisor(), first);

    // All at once: what is gone is started, what is left is taken over.
    world.kubectl(&up, &["create", "configmap", "last"]);
    for pid in [world.supervisor(), pids["etcd"], pids["kube-apiserver"]] {
        signal(pid, Signal::KILL);
    }
    let up = world.gregor(&["up", "--detach"]).ok();
    assert_eq!(world.uid(&up), uid);
    world.kubectl(&up, &["get", "configmap", "kept", "last"]);
    for same in ["kube-scheduler", "kube-controller-manager"] {
        assert_eq!(world.pids()[same], pids[same], "{same}");
    }
    let pids = world.pids();

    world.gregor(&["down"]).ok();
    assert!(pids.values().all(|pid| !is_alive(*pid)));
    world.gregor(&["down"]).ok();

    // Killed, and nobody takes over: `down` ends what was left.
    let up = world.gregor(&["up", "--detach"]).ok();
    assert_eq!(world.uid(&up), uid);
    world.kubectl(&up, &["get", "configmap", "kept"]);
    let pids = world.pids();
    signal(world.supervisor(), Signal::KILL);
    world.gregor(&["down", "--purge"]).ok();
    assert!(pids.values().all(|pid| !is_alive(*pid)));
    assert!(!world.state().exists());
    world.gregor(&["down"]).failed("there is no state directory");
    world.gregor(&["kubeconfig"]).failed("there is no state directory");
}

const OBJECTS: &str = "
apiVersion: example.org/v1
kind: Thing
metadata: {name: first, namespace: demo}
---
apiVersion: v1
kind: Namespace
metadata: {name: demo}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: v1
kind: Pod
metadata: {name: waits, namespace: demo}
spec: {containers: [{name: a, image: none}]}
";

#[test]
fn in_the_foreground_files_are_applied_and_ctrl_c_stops_in_order() {
    let world = World::new();
    let file = world.file("objects.yaml", OBJECTS);
    let out = world.temp.path().join("out");
    let mut up = world
        .command(&["up", "-f", &file])
        .stdout(fs::File::create(&out).unwrap())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let printed = || fs::read_to_string(&out).unwrap();
    eventually("it is ready", || printed().contains("is ready after"));
    let run = Run { code: 0, out: printed(), err: String::new() };
    let things = world.kubectl(&run, &["get", "things,pods", "-n", "demo", "-o", "name"]);
    assert_eq!(things, "thing.example.org/first\npod/waits\n");
    let pids = world.pids();

    signal(up.id(), Signal::INT);
    let mut errors = String::new();
    std::io::Read::read_to_string(&mut up.stderr.take().unwrap(), &mut errors).unwrap();
    assert_eq!(up.wait().unwrap().code(), Some(0), "{errors}");
    assert!(pids.values().all(|pid| !is_alive(*pid)));
    let order: Vec<_> =
        errors.lines().filter_map(|line| line.strip_suffix(" is stopped")).collect();
    let expected = ["kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"];
    assert_eq!(order, expected.map(|name| format!("gregor: {name}")), "{errors}");

    // What the API server refuses is told with its place, and everything is stopped again.
    let file = world.file(
        "wrong.yaml",
        &format!("{OBJECTS}---\napiVersion: v1\nkind: Pod\nmetadata: {{name: x}}\n"),
    );
    for words in [["up", "-f", &file].as_slice(), &["up", "--detach", "-f", &file]] {
        let run = world.gregor(words);
        assert_eq!(run.code, 1);
        let last = run.err.lines().rfind(|line| !line.ends_with("is stopped")).unwrap();
        assert!(last.contains("wrong.yaml\", document 5: Pod x could not be applied: "), "{last}");
        assert!(world.pids().values().all(|pid| !is_alive(*pid)));
    }
}

#[test]
fn mistakes_are_told_in_a_sentence_and_nothing_is_made() {
    let world = World::new();
    let check = |words: &[&str], sentence: &str| {
        world.gregor(words).failed(sentence);
        assert!(!world.state().exists(), "{words:?}");
    };
    let broken = world.file("broken.yaml", "a: [\n");
    check(&["up", "-f", &broken], "broken.yaml\", document 1, is not YAML");
    let half = world.file("half.yaml", "apiVersion: v1\nkind: Pod\n");
    check(&["up", "-f", &half], "half.yaml\", document 1 is no object of Kubernetes: it has no");
    check(&["up", "-f", "/nowhere.yaml"], "could not read \"/nowhere.yaml\"");
    check(&["kubeconfig"], "there is no state directory");

    let programs = |dir: &Path| {
        let run = world.command(&["up"]).env("KUBEBUILDER_ASSETS", dir).output().unwrap();
        assert!(!run.status.success() && !world.state().exists());
        String::from_utf8(run.stderr).unwrap()
    };
    let sentence = programs(world.temp.path());
    assert!(sentence.contains("there is no program etcd in it"), "{sentence}");

    fs::create_dir(world.state()).unwrap();
    fs::write(world.state().join("version"), "gregor state directory, version 9\n").unwrap();
    world.gregor(&["up"]).failed("has version 9, and this gregor knows versions up to 1");
    world.gregor(&["up", "--detach"]).failed("has version 9");
    world.gregor(&["down", "--purge"]).failed("has version 9");
    fs::write(world.state().join("version"), "something else\n").unwrap();
    world.gregor(&["down", "--purge"]).failed("is no state directory of Gregor");
    assert!(world.state().exists());
    fs::remove_dir_all(world.state()).unwrap();
}
