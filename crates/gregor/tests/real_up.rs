//! `gregor up`, `down` and `kubeconfig` as a person at a terminal has them: the program itself, with a
//! real control plane.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod up;

use std::fs;
use std::path::Path;
use std::process::Stdio;

use rustix::process::Signal;
use up::{Run, World, eventually, is_alive, signal};

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

    // A component that dies is restarted by the process in the background.
    signal(pids["kube-scheduler"], Signal::KILL);
    eventually("the scheduler is back", || {
        let pid = world.pids()["kube-scheduler"];
        pid != pids["kube-scheduler"] && is_alive(pid)
    });
    let log = fs::read_to_string(world.state().join("logs/gregor.log")).unwrap();
    assert!(log.contains("kube-scheduler has exited and is restarted"), "{log}");

    // The components outlive that process, and the next one takes them over.
    world.kubectl(&up, &["create", "configmap", "kept"]);
    let pids = world.pids();
    let first = world.supervisor();
    signal(first, Signal::KILL);
    eventually("the process is gone", || !is_alive(first));
    assert!(pids.values().all(|pid| is_alive(*pid)));
    let up = world.gregor(&["up", "--detach"]).ok();
    assert!(up.err.contains("is adopted"), "{}", up.err);
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
    let out = world.temp().join("out");
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
        assert!(last.contains("wrong.yaml\", document 5: cannot apply Pod x: "), "{last}");
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
    check(&["up", "-f", &half], "half.yaml\", document 1 is not a Kubernetes object: it has no");
    check(&["up", "-f", "/nowhere.yaml"], "cannot read \"/nowhere.yaml\"");
    check(&["kubeconfig"], "there is no state directory");

    let programs = |dir: &Path| {
        let run = world.command(&["up"]).env("KUBEBUILDER_ASSETS", dir).output().unwrap();
        assert!(!run.status.success() && !world.state().exists());
        String::from_utf8(run.stderr).unwrap()
    };
    let sentence = programs(world.temp());
    assert!(sentence.contains("it has no program etcd"), "{sentence}");

    fs::create_dir(world.state()).unwrap();
    fs::write(world.state().join("version"), "gregor state directory, version 9\n").unwrap();
    world.gregor(&["up"]).failed("has version 9, and this gregor supports versions up to 1");
    world.gregor(&["up", "--detach"]).failed("has version 9");
    world.gregor(&["down", "--purge"]).failed("has version 9");
    fs::write(world.state().join("version"), "something else\n").unwrap();
    world.gregor(&["down", "--purge"]).failed("is no state directory of Gregor");
    assert!(world.state().exists());
    fs::remove_dir_all(world.state()).unwrap();
}
