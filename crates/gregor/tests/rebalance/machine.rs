//! A machine of its own that can be lost for good, with everything on it. Its node agent is a process of the test.

use std::fs::{self, File};
use std::sync::Arc;

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{Process, Reaper};

use crate::kafka::{Ground, Place, wait_for};
use crate::up::signal;

const NAME: &str = "lost";
/// Far above those of `gregor up`, which counts from 1.
const NUMBER: u8 = 150;
/// The first network has these nodes and pods, see `local::network`.
const PODS: u8 = 192;
/// The class of claims without a class.
const CLASS: &str = "gregor-local";

pub(crate) struct Machine<'a> {
    ground: &'a Ground,
    agent: Option<Process>,
}

impl<'a> Machine<'a> {
    /// Adds it to the cluster. It runs pods with this image.
    pub(crate) fn start(ground: &'a Ground, image: &str) -> Self {
        let state = ground.world.state();
        let network = fs::read_to_string(state.join("network")).unwrap();
        let network = PODS + network.trim().parse::<u8>().unwrap();
        let gregor = env!("CARGO_BIN_EXE_gregor");
        // With its directory among those of the other nodes, `gregor down` stops what a killed test leaves.
        let dir = state.join("nodes").join(NAME);
        let words = [
            gregor.to_owned(),
            "kubelet".to_owned(),
            format!("--name={NAME}"),
            format!("--kubeconfig={}", state.join("kubeconfig").display()),
            format!("--dir={}", dir.display()),
            format!("--hosts-file={}", ground.hosts().display()),
            format!("--node-ip=127.{network}.0.{NUMBER}"),
            format!("--pod-range=127.{network}.{NUMBER}.0/24"),
            format!("--image={image}={gregor} node --kafka-home {}", ground.home.root.display()),
        ];
        let log = File::create(ground.world.temp().join("lost.log")).unwrap();
        let reaper = Arc::new(Reaper::start(None).unwrap());
        let agent = Some(Process::spawn(&reaper, &words, log).unwrap());
        let machine = Self { ground, agent };
        machine.is("True");
        machine
    }

    /// Makes a volume on it for a claim that will be made, so that the pod with the claim runs nowhere else.
    pub(crate) fn keeps(&self, place: &Place<'_>, claim: &str) {
        let path = self.ground.world.temp().join(claim);
        fs::create_dir(&path).unwrap();
        let here = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": [NAME] });
        let volume = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": { "name": NAME },
            "spec": {
                "capacity": { "storage": "1Gi" },
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": CLASS,
                "local": { "path": path },
                "claimRef": { "namespace": place.namespace, "name": claim },
                "nodeAffinity": { "required": { "nodeSelectorTerms": [
                    { "matchExpressions": [here] },
                ] } },
            },
        });
        let file = self.ground.world.file("volume.yaml", &volume.to_string());
        self.ground.kubectl(&["apply", "-f", &file]);
    }

    /// Loses it as when it has no power any more: nothing on it says goodbye.
    pub(crate) fn lose(&mut self, place: &Place<'_>, pod: &str) {
        self.agent = None;
        let uid = place.get("pod", pod)["metadata"]["uid"].as_str().unwrap().to_owned();
        let dir = self.ground.world.state().join("nodes").join(NAME);
        // The shim, which would restart what it runs, and then that.
        for mark in [dir.display().to_string(), format!("GREGOR_CONTAINER_ID=gregor://{uid}/")] {
            let found = self.ground.world.processes_with(&mark);
            found.iter().for_each(|process| signal(process.pid, Signal::KILL));
        }
        assert!(place.javas(pod).is_empty(), "{pod} still runs");
        self.is("Unknown");
    }

    /// Deletes its Node, as the administrator or the cloud does when a machine is gone for good.
    pub(crate) fn remove_node(self) {
        self.ground.kubectl(&["delete", "node", NAME]);
        self.ground.kubectl(&["delete", "pv", NAME, "--wait=false"]);
    }

    /// Waits until Kubernetes finds it ready, or not.
    fn is(&self, ready: &str) {
        wait_for(|| {
            let words = ["get", "node", NAME, "--ignore-not-found", "-o", "json"];
            let node = self.ground.kubectl(&words);
            let node: Value = serde_json::from_str(&node).unwrap_or_default();
            let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is_it = |one: &Value| one["type"] == "Ready" && one["status"] == ready;
            if conditions.iter().any(is_it) { Ok(()) } else { Err(format!("{conditions:?}")) }
        });
    }
}
