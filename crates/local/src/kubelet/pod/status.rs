//! The status of a pod, derived from facts with the kubelet's rules and messages. Pure.

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::decide::{
    Backoff, ContainerFacts, Fate, Outcome, PodFacts, Role, Run, fate, is_initialized, outcome,
};
use crate::kubelet::shim::ExitKind;

/// Parts of the status that do not depend on containers.
#[derive(Debug, Clone)]
pub(crate) struct PodSandbox {
    pub(crate) pod_ip: Option<String>,
    pub(crate) host_ip: String,
    /// When the kubelet first saw the pod.
    pub(crate) started_at: Timestamp,
}

/// The complete status.
pub(crate) fn status(
    pod: &Pod,
    facts: &PodFacts,
    sandbox: &PodSandbox,
    backoff: &Backoff,
) -> PodStatus {
    let spec = pod.spec.clone().unwrap_or_default();
    let init = spec.init_containers.unwrap_or_default();
    let of = |containers: &[Container], init: bool| {
        let all = facts.containers.iter().filter(|c| (c.role != Role::Main) == init);
        let both = all.zip(containers);
        both.map(|(facts_of, spec)| container_status(facts_of, spec, facts, backoff)).collect()
    };
    let phase = phase(facts, backoff);
    let init_statuses: Vec<ContainerStatus> = of(&init, true);
    let statuses: Vec<ContainerStatus> = of(&spec.containers, false);
    let old = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or(&[]);
    let gates = spec.readiness_gates.unwrap_or_default();
    let gates: Vec<_> = gates.into_iter().map(|gate| gate.condition_type).collect();
    let conditions = conditions(facts, &phase, old, &gates);
    PodStatus {
        phase: Some(phase),
        conditions: Some(conditions),
        init_container_statuses: (!init_statuses.is_empty()).then_some(init_statuses),
        container_statuses: Some(statuses),
        pod_ip: sandbox.pod_ip.clone(),
        pod_ips: sandbox.pod_ip.clone().map(|ip| vec![PodIP { ip }]),
        host_ip: Some(sandbox.host_ip.clone()),
        host_ips: Some(vec![HostIP { ip: sandbox.host_ip.clone() }]),
        start_time: Some(Time(sandbox.started_at)),
        observed_generation: pod.metadata.generation,
        ..PodStatus::default()
    }
}

/// The phase of a pod.
fn phase(pod: &PodFacts, backoff: &Backoff) -> String {
    let main = || pod.containers.iter().filter(|c| c.role == Role::Main);
    let all_ended = main().all(|c| c.exit().is_some());
    let word = match outcome(pod, backoff) {
        Some(Outcome::Succeeded) => "Succeeded",
        Some(Outcome::Failed) => "Failed",
        None if pod.terminating && all_ended => {
            if main().all(ContainerFacts::succeeded) {
                "Succeeded"
            } else {
                "Failed"
            }
        }
        None if !is_initialized(pod) => "Pending",
        None if main().any(|c| c.run.is_none()) => "Pending",
        None => "Running",
    };
    word.to_owned()
}

fn container_status(
    container: &ContainerFacts,
    spec: &Container,
    pod: &PodFacts,
    backoff: &Backoff,
) -> ContainerStatus {
    let state = state(container, pod, backoff);
    let run = container.run.as_ref();
    // The current state is not also the last state.
    let last = if state.terminated.is_some() || container.runs() {
        container.previous.as_ref()
    } else {
        run.or(container.previous.as_ref())
    };
    let image = spec.image.clone().unwrap_or_default();
    let runs = container.runs();
    ContainerStatus {
        name: container.name.clone(),
        ready: match container.role {
            Role::Init => container.succeeded(),
            Role::Sidecar | Role::Main => runs && container.ready,
        },
        started: Some(runs && container.started),
        restart_count: run.map_or(0, |run| i32::try_from(run.number).unwrap_or(i32::MAX)),
        container_id: run.map(|run| run.id.clone()),
        image_id: if run.is_some() { format!("gregor://{image}") } else { String::new() },
        image,
        state: Some(state),
        last_state: Some(last.and_then(terminated).unwrap_or_default()),
        ..ContainerStatus::default()
    }
}

fn state(container: &ContainerFacts, pod: &PodFacts, backoff: &Backoff) -> ContainerState {
    let Some(run) = &container.run else {
        return match &container.hold {
            Some(hold) => waiting(hold.reason.as_str(), Some(hold.message.clone())),
            None if pod.containers.iter().any(|c| c.role != Role::Main)
                && !(container.role == Role::Main && is_initialized(pod)) =>
            {
                waiting("PodInitializing", None)
            }
            None => waiting("ContainerCreating", None),
        };
    };
    if run.exit.is_none() {
        let started_at = run.started_at.map(Time);
        return ContainerState {
            running: Some(ContainerStateRunning { started_at }),
            ..ContainerState::default()
        };
    }
    let over = pod.terminating || pod.finished_before;
    match (&container.hold, fate(container, pod, backoff)) {
        (Some(hold), Fate::WaitsUntil(_)) if !over => {
            waiting(hold.reason.as_str(), Some(hold.message.clone()))
        }
        (None, Fate::WaitsUntil(_)) if !over => {
            let delay = backoff.delay(run.streak).as_secs();
            let message = format!(
                "back-off {} restarting failed container={} pod={}",
                duration(delay),
                container.name,
                pod.full_name
            );
            waiting("CrashLoopBackOff", Some(message))
        }
        _ => terminated(run).unwrap_or_default(),
    }
}

/// `1m20s`, in Go's format.
pub(crate) fn duration(seconds: u64) -> String {
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

fn terminated(run: &Run) -> Option<ContainerState> {
    let exit = run.exit.as_ref()?;
    let reason = match (exit.kind, exit.code) {
        (ExitKind::Ended, 0) => "Completed",
        (ExitKind::Ended, _) => "Error",
        (ExitKind::NotStarted, _) => "StartError",
        (ExitKind::Lost, _) => "ContainerStatusUnknown",
    };
    let terminated = ContainerStateTerminated {
        exit_code: exit.code,
        reason: Some(reason.to_owned()),
        message: exit.message.clone(),
        started_at: Some(Time(run.started_at.unwrap_or(exit.at))),
        finished_at: Some(Time(exit.at)),
        container_id: Some(run.id.clone()),
        ..ContainerStateTerminated::default()
    };
    Some(ContainerState { terminated: Some(terminated), ..ContainerState::default() })
}

/// A condition without its timestamps.
struct Finding {
    kind: &'static str,
    /// `None` if it is true, else reason and message.
    problem: Option<(&'static str, Option<String>)>,
}

fn conditions(
    pod: &PodFacts,
    phase: &str,
    old: &[PodCondition],
    gates: &[String],
) -> Vec<PodCondition> {
    let containers_ready = containers_ready(pod, phase);
    let closed: Vec<&str> = gates
        .iter()
        .filter(|gate| !old.iter().any(|c| c.type_ == **gate && c.status == "True"))
        .map(String::as_str)
        .collect();
    let ready = match &containers_ready {
        None if !closed.is_empty() => {
            let names = closed.join(" ");
            let message = format!("the status of pod readiness gates is not \"True\": [{names}]");
            Some(("ReadinessGatesNotReady", Some(message)))
        }
        problem => problem.clone(),
    };
    let not_mounted = (!pod.mounted).then_some(("", None));
    let findings = [
        Finding { kind: "PodReadyToStartContainers", problem: not_mounted },
        Finding { kind: "Initialized", problem: initialized(pod, phase) },
        Finding { kind: "Ready", problem: ready },
        Finding { kind: "ContainersReady", problem: containers_ready },
    ];
    findings.into_iter().map(|finding| condition(finding, old, pod.now)).collect()
}

type Problem = Option<(&'static str, Option<String>)>;

fn initialized(pod: &PodFacts, phase: &str) -> Problem {
    if phase == "Succeeded" || is_initialized(pod) {
        return None;
    }
    let incomplete = pod.containers.iter().filter(|c| match c.role {
        Role::Init => !c.succeeded(),
        Role::Sidecar => !(c.runs() && c.started),
        Role::Main => false,
    });
    let message = format!("containers with incomplete status: {}", names(incomplete));
    Some(("ContainersNotInitialized", Some(message)))
}

fn containers_ready(pod: &PodFacts, phase: &str) -> Problem {
    match phase {
        "Succeeded" => return Some(("PodCompleted", None)),
        "Failed" => return Some(("PodFailed", None)),
        _ => {}
    }
    let unready: Vec<_> =
        pod.containers.iter().filter(|c| c.role != Role::Init && !(c.runs() && c.ready)).collect();
    if unready.is_empty() {
        return None;
    }
    let message = format!("containers with unready status: {}", names(unready.into_iter()));
    Some(("ContainersNotReady", Some(message)))
}

fn names<'a>(containers: impl Iterator<Item = &'a ContainerFacts>) -> String {
    let names: Vec<_> = containers.map(|container| container.name.as_str()).collect();
    format!("[{}]", names.join(" "))
}

/// Keeps the transition time as long as the condition does not change.
fn condition(finding: Finding, old: &[PodCondition], now: Timestamp) -> PodCondition {
    let status = if finding.problem.is_none() { "True" } else { "False" };
    let before = old.iter().find(|c| c.type_ == finding.kind && c.status == status);
    let since = before.and_then(|condition| condition.last_transition_time.clone());
    let (reason, message) = finding.problem.unwrap_or(("", None));
    PodCondition {
        type_: finding.kind.to_owned(),
        status: status.to_owned(),
        reason: (!reason.is_empty()).then(|| reason.to_owned()),
        message,
        last_transition_time: Some(since.unwrap_or(Time(now))),
        ..PodCondition::default()
    }
}

/// Whether a phase is final.
pub(crate) fn is_terminal(phase: Option<&str>) -> bool {
    matches!(phase, Some("Succeeded" | "Failed"))
}

#[cfg(test)]
mod tests {
    use super::super::decide::RestartPolicy;
    use super::super::decide::tests::{Containers, at, pod};
    use super::*;
    use RestartPolicy::{Always, Never, OnFailure};
    use Role::{Init, Main, Sidecar};

    fn sandbox() -> PodSandbox {
        let started_at = at(0);
        PodSandbox { pod_ip: Some("127.1.0.2".into()), host_ip: "127.0.0.1".into(), started_at }
    }

    fn object(facts: &PodFacts) -> Pod {
        let container = |c: &ContainerFacts| Container {
            name: c.name.clone(),
            image: Some("img".into()),
            ..Container::default()
        };
        let (init, main): (Vec<_>, Vec<_>) =
            facts.containers.iter().partition(|c| c.role != Role::Main);
        let mut pod = Pod::default();
        let spec = pod.spec.get_or_insert_default();
        spec.init_containers = Some(init.into_iter().map(container).collect());
        spec.containers = main.into_iter().map(container).collect();
        pod
    }

    fn of(facts: &PodFacts) -> PodStatus {
        status(&object(facts), facts, &sandbox(), &Backoff::default())
    }

    /// `phase; state of each container, init first; true conditions`.
    fn show(facts: &PodFacts) -> String {
        let status = of(facts);
        let all = status.init_container_statuses.into_iter().flatten();
        let states = all.chain(status.container_statuses.into_iter().flatten()).map(|c| {
            let state = c.state.unwrap();
            let reason = state.waiting.and_then(|w| w.reason);
            let ended = state.terminated.map(|t| format!("{}/{}", t.reason.unwrap(), t.exit_code));
            let ready = if c.ready { "+" } else { "" };
            format!("{}{ready}", reason.or(ended).unwrap_or("Running".into()))
        });
        let states = states.collect::<Vec<_>>().join(" ");
        let hold = status.conditions.unwrap().into_iter().filter(|c| c.status == "True");
        let short = |kind: String| match kind.as_str() {
            "PodReadyToStartContainers" => "P",
            "Initialized" => "I",
            "ContainersReady" => "C",
            "Ready" => "R",
            _ => "?",
        };
        let hold: String = hold.map(|c| short(c.type_)).collect();
        format!("{}; {states}; {hold}", status.phase.unwrap())
    }

    #[test]
    fn the_status_at_each_moment() {
        #[rustfmt::skip]
        let table: &[(RestartPolicy, Containers<'_>, &str)] = &[
            (Always,    &[(Main, "new")],                    "Pending; ContainerCreating; PI"),
            (Always,    &[(Main, "runs")],                   "Running; Running; PI"),
            (Always,    &[(Main, "started")],                "Running; Running+; PIRC"),
            (Always,    &[(Main, "started"), (Main, "new")], "Pending; Running+ ContainerCreating; PI"),
            (Always,    &[(Main, "exit 1")],                 "Running; Error/1; PI"),
            (Always,    &[(Main, "exit 1 1")],               "Running; CrashLoopBackOff; PI"),
            (Always,    &[(Main, "held 5")],                 "Pending; ErrImagePull; PI"),
            (Never,     &[(Main, "exit 0")],                 "Succeeded; Completed/0; PI"),
            (Never,     &[(Main, "exit 3")],                 "Failed; Error/3; PI"),
            (Never,     &[(Main, "lost")],                   "Failed; ContainerStatusUnknown/137; PI"),
            (OnFailure, &[(Main, "exit 3")],                 "Running; Error/3; PI"),
            (Always,    &[(Init, "new"), (Main, "new")],     "Pending; PodInitializing PodInitializing; P"),
            (Always,    &[(Init, "runs"), (Main, "new")],    "Pending; Running PodInitializing; P"),
            (Always,    &[(Init, "exit 1 1"), (Main, "new")], "Pending; CrashLoopBackOff PodInitializing; P"),
            (Never,     &[(Init, "exit 1"), (Main, "new")],  "Failed; Error/1 PodInitializing; P"),
            (Always,    &[(Init, "exit 0"), (Main, "new")],  "Pending; Completed/0+ ContainerCreating; PI"),
            (Always,    &[(Init, "exit 0"), (Main, "started")], "Running; Completed/0+ Running+; PIRC"),
            (Always,    &[(Sidecar, "started"), (Main, "started")], "Running; Running+ Running+; PIRC"),
            (Always,    &[(Sidecar, "runs"), (Main, "new")], "Pending; Running PodInitializing; P"),
        ];
        for (policy, containers, expected) in table {
            let facts = pod(*policy, containers);
            assert_eq!(show(&facts), *expected, "{policy:?} {containers:?}");
        }
    }

    #[test]
    fn a_deleted_pod_ends_as_its_containers_did() {
        let deleted = |containers: &[(Role, &str)]| {
            show(&PodFacts { terminating: true, ..pod(Always, containers) })
        };
        assert_eq!(deleted(&[(Main, "started")]), "Running; Running+; PIRC");
        assert_eq!(deleted(&[(Main, "exit 143 1")]), "Failed; Error/143; PI");
        assert_eq!(deleted(&[(Main, "exit 0 3")]), "Succeeded; Completed/0; PI");
    }

    #[test]
    fn before_it_has_its_volumes_a_pod_is_not_ready_to_start_anything() {
        let facts = PodFacts { mounted: false, ..pod(Always, &[(Main, "new")]) };
        assert_eq!(show(&facts), "Pending; ContainerCreating; I");
    }

    #[test]
    fn the_last_state_is_the_run_before_the_one_shown() {
        let mut facts = pod(Always, &[(Main, "runs")]);
        facts.containers[0].previous = pod(Always, &[(Main, "exit 7")]).containers.remove(0).run;
        let code = |facts: &PodFacts| {
            let last = of(facts).container_statuses.unwrap().remove(0).last_state.unwrap();
            last.terminated.map(|t| t.exit_code)
        };
        assert_eq!(code(&facts), Some(7));
        assert_eq!(code(&pod(Always, &[(Main, "exit 9 1")])), Some(9), "shown as waiting");
        assert_eq!(code(&pod(Never, &[(Main, "exit 9")])), None, "shown as terminated");
    }

    #[test]
    fn conditions_keep_their_time_and_gates_hold_back_readiness() {
        let facts = pod(Always, &[(Main, "started")]);
        let old = PodCondition {
            type_: "Ready".into(),
            status: "True".into(),
            last_transition_time: Some(Time(at(-100))),
            ..PodCondition::default()
        };
        let find = |conditions: Vec<PodCondition>| {
            conditions.into_iter().find(|c| c.type_ == "Ready").unwrap()
        };
        let kept = find(conditions(&facts, "Running", std::slice::from_ref(&old), &[]));
        assert_eq!(kept.last_transition_time, old.last_transition_time);
        let gated = find(conditions(&facts, "Running", &[old], &["example.org/gate".into()]));
        assert_eq!(
            (gated.status.as_str(), gated.last_transition_time),
            ("False", Some(Time(at(1))))
        );
    }

    #[test]
    fn durations_are_written_as_in_go() {
        assert_eq!([10, 60, 80, 300].map(duration), ["10s", "1m0s", "1m20s", "5m0s"]);
    }
}
