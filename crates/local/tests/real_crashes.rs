//! A real control plane whose parts are killed, and one whose owner is.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use local::control_plane::{Component, ControlPlane, Event, Options};
use rustix::process::{Pid, Signal, kill_process};
use support::{cluster_uid, config_map, config_maps, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_killed_comes_back_and_nothing_acknowledged_is_lost() {
    let temp = tempfile::tempdir().unwrap();
    let plane = support::start(&temp.path().join("state")).await;
    let load = Arc::new(Load::default());
    let writers: Vec<_> = (0..4)
        .map(|writer| tokio::spawn(write(plane.client(), writer, Arc::clone(&load))))
        .collect();
    for round in 0..2 {
        for component in Component::ALL {
            let pid = plane.pid(component).unwrap();
            kill(pid);
            let back = async || plane.pid(component).is_some_and(|now| now != pid);
            eventually(&format!("{component} runs again, round {round}"), back).await;
            load.goes_on().await;
        }
        // Both that hold something, in the same moment.
        let (etcd, api) = (plane.pid(Component::Etcd), plane.pid(Component::ApiServer));
        [etcd, api].into_iter().flatten().for_each(kill);
        load.goes_on().await;
    }
    load.done.store(true, Ordering::Relaxed);
    let mut acknowledged = BTreeMap::new();
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }
    assert!(acknowledged.len() > 50, "only {} writes", acknowledged.len());
    let found = config_maps(&plane.client()).list(&Default::default()).await.unwrap();
    let found: BTreeMap<_, _> = found
        .items
        .into_iter()
        .map(|one| (one.metadata.name.unwrap(), one.metadata.uid.unwrap()))
        .collect();
    for (name, uid) in &acknowledged {
        assert_eq!(found.get(name), Some(uid), "{name} was acknowledged");
    }
    eprintln!("{} writes were acknowledged", acknowledged.len());
}

/// What the writers tell and are told.
#[derive(Default)]
struct Load {
    acknowledged: AtomicUsize,
    done: AtomicBool,
}

impl Load {
    /// Some more writes were acknowledged.
    async fn goes_on(&self) {
        let before = self.acknowledged.load(Ordering::Relaxed);
        let more = async || self.acknowledged.load(Ordering::Relaxed) > before + 20;
        eventually("writes are acknowledged", more).await;
    }
}

/// Writes one object after the other until it is told that all is done; those that were acknowledged.
async fn write(client: kube::Client, writer: usize, load: Arc<Load>) -> BTreeMap<String, String> {
    let api = config_maps(&client);
    let mut acknowledged = BTreeMap::new();
    for number in 0.. {
        if load.done.load(Ordering::Relaxed) {
            break;
        }
        let name = format!("w{writer}-{number}");
        let object = config_map(&name);
        let create = async { api.create(&Default::default(), &object).await };
        if let Ok(Ok(created)) = tokio::time::timeout(Duration::from_secs(5), create).await {
            acknowledged.insert(name, created.metadata.uid.unwrap());
            load.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_left_running_is_taken_over_and_what_is_outdated_is_replaced() {
    let temp = tempfile::tempdir().unwrap();
    let state = temp.path().join("state");
    let plane = support::start(&state).await;
    let uid = cluster_uid(&plane.client()).await;
    let pids = |plane: &ControlPlane| Component::ALL.map(|one| plane.pid(one).unwrap());
    let before = pids(&plane);
    plane.detach().await;

    let plane = support::start(&state).await;
    assert_eq!(pids(&plane), before, "taken over");
    assert_eq!(cluster_uid(&plane.client()).await, uid);
    // Adopted processes are supervised.
    kill(before[0]);
    let back = async || plane.pid(Component::Etcd).is_some_and(|now| now != before[0]);
    eventually("etcd runs again", back).await;
    let before = pids(&plane);
    plane.detach().await;

    // Other flags for etcd only: the others are still what they should be.
    let options = Options::for_test(&state, support::binaries());
    let options = Options { durability: local::control_plane::Durability::Full, ..options };
    let (sender, events) = std::sync::mpsc::channel();
    let plane = ControlPlane::start(options, move |event| drop(sender.send(event))).await.unwrap();
    let replaced = Event::Replacing { component: Component::Etcd, pid: before[0] };
    assert!(events.try_iter().any(|event| event == replaced));
    assert_ne!(pids(&plane)[0], before[0]);
    assert_eq!(pids(&plane)[1..], before[1..]);
    assert_eq!(cluster_uid(&plane.client()).await, uid);
    plane.stop().await.unwrap();
    for pid in before {
        assert!(!is_alive(pid), "{pid} still runs");
    }
}

/// Names the directory for the process that is to be killed; without it the test is the killer.
const VICTIM: &str = "GREGOR_TEST_VICTIM";

#[tokio::test(flavor = "multi_thread")]
async fn components_die_with_the_test_that_started_them() {
    if let Some(state) = std::env::var_os(VICTIM) {
        let plane = support::start(Path::new(&state)).await;
        let pids: Vec<_> = Component::ALL.map(|one| plane.pid(one).unwrap().to_string()).into();
        std::fs::write(Path::new(&state).join("pids"), pids.join(" ")).unwrap();
        std::future::pending::<()>().await;
    }
    let temp = tempfile::tempdir().unwrap();
    let state = temp.path().join("state");
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "components_die_with_the_test_that_started_them"])
        .env(VICTIM, &state)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let file = state.join("pids");
    let started = async || std::fs::read_to_string(&file).is_ok_and(|text| !text.is_empty());
    eventually("the other test has started", started).await;
    let pids = std::fs::read_to_string(&file).unwrap();
    victim.kill().unwrap();
    victim.wait().unwrap();
    for pid in pids.split(' ') {
        let pid = pid.parse().unwrap();
        eventually("a component is gone", async || !is_alive(pid)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_dies_again_and_again_is_started_with_growing_pauses() {
    let temp = tempfile::tempdir().unwrap();
    let (sender, events) = std::sync::mpsc::channel();
    let options = Options::for_test(temp.path().join("state"), support::binaries());
    let plane = ControlPlane::start(options, move |event| drop(sender.send(event))).await.unwrap();
    let begun = Instant::now();
    let mut deaths = 0;
    while deaths < 3 && begun.elapsed() < Duration::from_secs(30) {
        if let Some(pid) = plane.pid(Component::Scheduler) {
            kill(pid);
            let gone = async || plane.pid(Component::Scheduler) != Some(pid);
            eventually("it is gone", gone).await;
            deaths += 1;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    eventually("it runs", async || plane.pid(Component::Scheduler).is_some()).await;
    let pauses: Vec<_> = events
        .try_iter()
        .filter_map(|event| match event {
            Event::Died { component: Component::Scheduler, pause } => Some(pause.as_millis()),
            _ => None,
        })
        .collect();
    assert_eq!(pauses, [100, 200, 400]);
}

fn kill(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    // It may have ended in the same moment.
    let _ = kill_process(pid, Signal::KILL);
}

/// A process that has ended and was not collected does not count.
fn is_alive(pid: u32) -> bool {
    local::control_plane::ProcessIdentity::of(pid).is_ok_and(|process| process.is_alive())
}
