//! Starts a container: resolves what it needs, records the run, and starts a shim.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::jiff::Timestamp;
use kube::Api;

use super::actor::Actor;
use super::attempt::Attempt;
use super::decide::{Hold, HoldReason};
use super::hosts;
use crate::kubelet::env::{self, Context};
use crate::kubelet::events::Level;
use crate::kubelet::process::MARK;
use crate::kubelet::shared::Shared;
use crate::kubelet::shim::{ExitKind, LogSpec, Mount, Spec};
use crate::kubelet::volume::payload_text;

/// How long a missing image is reported as ErrImagePull before ImagePullBackOff.
const ERR_IMAGE_PULL: Duration = Duration::from_secs(1);

/// Why a container was not started, for the status.
struct Refusal(HoldReason, String);

impl Actor {
    /// Starts a container, or records why it cannot be started.
    pub(super) async fn start(&mut self, index: usize) {
        let Some(program) = self.find_image(index) else {
            return;
        };
        let spec = match self.spec_of(index, &program).await {
            Ok(spec) => spec,
            Err(Refusal(reason, message)) => {
                self.say(index, Level::Warning, "Failed", format!("Error: {message}"));
                let retry_at = later(self.shared.options.timing.retry);
                self.slots[index].hold = Some(Hold { reason, message, retry_at });
                return;
            }
        };
        let slot = &mut self.slots[index];
        slot.hold = None;
        let number = slot.current.as_ref().map_or(0, |current| current.run().number + 1);
        let dir = self.dir.attempt(&slot.spec.name, number);
        self.forget_old_runs(index, number);
        let begun = match Attempt::record(dir, number, &spec) {
            Ok(mut attempt) => {
                let started = attempt.start(&self.shared.options.shim).await;
                started.map(|()| attempt)
            }
            Err(error) => Err(error),
        };
        match begun {
            Ok(attempt) => self.has_begun(index, attempt),
            Err(error) => {
                let reason = HoldReason::CreateContainerError;
                let retry_at = later(self.shared.options.timing.retry);
                let message = error.to_string();
                self.say(index, Level::Warning, "Failed", format!("Error: {message}"));
                self.slots[index].hold = Some(Hold { reason, message, retry_at });
            }
        }
    }

    fn has_begun(&mut self, index: usize, attempt: Attempt) {
        let name = self.slots[index].spec.name.clone();
        self.say(index, Level::Normal, "Created", format!("Created container: {name}"));
        match attempt.exit().filter(|exit| exit.kind == ExitKind::NotStarted) {
            None => self.say(index, Level::Normal, "Started", format!("Started container {name}")),
            Some(exit) => {
                let why = exit.message.clone().unwrap_or_default();
                self.say(index, Level::Warning, "Failed", format!("Error: {why}"));
            }
        }
        let around = self.around();
        let slot = &mut self.slots[index];
        slot.previous = slot.current.replace(attempt);
        (slot.started, slot.ready, slot.stop_by) = (false, false, None);
        slot.tasks.abort_all();
        slot.watch(index, &around);
    }

    /// The program for the image; records if there is none.
    fn find_image(&mut self, index: usize) -> Option<Vec<String>> {
        let spec = &self.slots[index].spec;
        let image = spec.image.clone().unwrap_or_default();
        if let Some(program) = self.shared.options.images.find(&image) {
            let program = program.to_vec();
            let message = format!("Container image \"{image}\" already present on machine");
            self.say(index, Level::Normal, "Pulled", message);
            return Some(program);
        }
        let never = spec.image_pull_policy.as_deref() == Some("Never");
        let (failures, next_pull) = self.slots[index].image_failures;
        let now = Timestamp::now();
        let backoff = self.shared.options.timing.image;
        let absent = format!("no local program is configured for the image \"{image}\"");
        let hold = if never {
            let message =
                format!("Container image \"{image}\" is not present with pull policy of Never");
            self.say(index, Level::Warning, "ErrImageNeverPull", message.clone());
            let retry_at = later(backoff.initial);
            Hold { reason: HoldReason::ErrImageNeverPull, message, retry_at }
        } else if now < next_pull {
            let message = format!("Back-off pulling image \"{image}\"");
            self.say(index, Level::Normal, "BackOff", message.clone());
            self.say(index, Level::Warning, "Failed", "Error: ImagePullBackOff".to_owned());
            let message = format!("{message}: ErrImagePull: {absent}");
            Hold { reason: HoldReason::ImagePullBackOff, message, retry_at: next_pull }
        } else {
            self.say(index, Level::Normal, "Pulling", format!("Pulling image \"{image}\""));
            let message = format!("Failed to pull image \"{image}\": {absent}");
            self.say(index, Level::Warning, "Failed", message);
            self.say(index, Level::Warning, "Failed", "Error: ErrImagePull".to_owned());
            let delay = backoff.delay(failures + 1);
            self.slots[index].image_failures = (failures + 1, later(delay));
            let retry_at = later(ERR_IMAGE_PULL.min(delay / 2));
            Hold { reason: HoldReason::ErrImagePull, message: absent, retry_at }
        };
        self.slots[index].hold = Some(hold);
        None
    }

    /// The complete input of the shim.
    async fn spec_of(&self, index: usize, program: &[String]) -> Result<Spec, Refusal> {
        let slot = &self.slots[index];
        let config = |message: String| Refusal(HoldReason::CreateContainerConfigError, message);
        let mut context = self.context();
        let (config_maps, secrets) = env::references(&slot.spec);
        context.config_maps = self.read_config_maps(config_maps).await.map_err(config)?;
        context.secrets = self.read_secrets(secrets).await.map_err(config)?;
        let number = slot.current.as_ref().map_or(0, |current| current.run().number + 1);
        let id = format!("gregor://{}/{}/{number}", self.record.uid, slot.spec.name);
        context.base.push((MARK.to_owned(), id.clone()));
        let env = env::environment(&self.pod, &slot.spec, &context)
            .map_err(|error| config(error.to_string()))?;
        let argv = env::argv(&slot.spec, program, &env);
        let dir = self.dir.attempt(&slot.spec.name, number);
        let mut mounts = self.volumes.mounts(&self.pod, &slot.spec, &env).map_err(config)?;
        let message_path = slot.spec.termination_message_path.as_deref();
        let message_path = message_path.unwrap_or("/dev/termination-log");
        mounts.push(writable(dir.message(), message_path));
        if !mounts.iter().any(|mount| mount.destination == Path::new("/etc/hosts")) {
            mounts.push(writable(self.dir.hosts(), "/etc/hosts"));
        }
        let policy = slot.spec.termination_message_policy.as_deref();
        let current = slot.current.as_ref().map(Attempt::run);
        let log = self.shared.layout.log(&self.record, &slot.spec.name, number);
        Ok(Spec {
            id,
            argv,
            env,
            working_dir: slot.spec.working_dir.clone().filter(|dir| !dir.is_empty()),
            hostname: hosts::hostname(&self.pod),
            mounts,
            log: LogSpec { path: log, bytes_max: self.shared.options.log_bytes_max },
            message_file: dir.message(),
            message_from_log: policy == Some("FallbackToLogsOnError"),
            streak: self.shared.options.timing.restart.next_streak(current.as_ref()),
        })
    }

    async fn read_config_maps(&self, names: Vec<String>) -> Result<Objects, String> {
        let api = Api::<ConfigMap>::namespaced(self.shared.client.clone(), &self.record.namespace);
        let mut objects = Objects::new();
        for name in names {
            if let Some(object) = api.get_opt(&name).await.map_err(|error| error.to_string())? {
                objects.insert(name, object.data.unwrap_or_default());
            }
        }
        Ok(objects)
    }

    async fn read_secrets(&self, names: Vec<String>) -> Result<Objects, String> {
        let api = Api::<Secret>::namespaced(self.shared.client.clone(), &self.record.namespace);
        let mut objects = Objects::new();
        for name in names {
            if let Some(object) = api.get_opt(&name).await.map_err(|error| error.to_string())? {
                objects.insert(name, payload_text(&object));
            }
        }
        Ok(objects)
    }

    /// Removes old runs, except the previous one, which `--previous` needs.
    fn forget_old_runs(&self, index: usize, number: u32) {
        let name = &self.slots[index].spec.name;
        for old in self.dir.attempts(name).into_iter().filter(|old| old + 1 < number) {
            let log = self.shared.layout.log(&self.record, name, old);
            let _ = std::fs::remove_dir_all(self.dir.attempt(name, old).path());
            let _ = std::fs::remove_file(log.with_extension("log.1"));
            let _ = std::fs::remove_file(log);
        }
    }

    /// Publishes an Event about a container.
    pub(super) fn say(&self, index: usize, level: Level, reason: &'static str, message: String) {
        let field = self.slots[index].field.clone();
        self.shared.events.container(&self.pod, field, (level, reason, message));
    }

    /// Fields and resources of the pod, for variables.
    pub(super) fn context(&self) -> Context {
        context(&self.shared, &self.pod, &self.record.ip.to_string())
    }
}

type Objects = BTreeMap<String, BTreeMap<String, String>>;

fn context(shared: &Shared, pod: &Pod, pod_ip: &str) -> Context {
    let api = shared.options.api_server;
    let own = [
        ("HOSTNAME", hosts::hostname(pod)),
        ("KUBERNETES_SERVICE_HOST", api.ip().to_string()),
        ("KUBERNETES_SERVICE_PORT", api.port().to_string()),
        ("KUBERNETES_SERVICE_PORT_HTTPS", api.port().to_string()),
    ];
    let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
    Context {
        pod_ip: pod_ip.to_owned(),
        host_ip: shared.options.node_ip.to_string(),
        allocatable: shared.capacity.clone(),
        base: shared.options.env.iter().cloned().chain(own).collect(),
        ..Context::default()
    }
}

fn writable(source: PathBuf, destination: &str) -> Mount {
    Mount { source, destination: PathBuf::from(destination), read_only: false }
}

pub(super) fn later(time: Duration) -> Timestamp {
    let now = Timestamp::now();
    now.checked_add(time).unwrap_or(now)
}
