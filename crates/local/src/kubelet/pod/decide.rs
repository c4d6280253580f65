//! Decides which containers of a pod to start and stop. Pure.
//!
//! 1. Init containers run one after the other until they succeed; sidecars among them keep running.
//! 2. The other containers start when all init containers are done, and are then independent.
//! 3. Terminated containers are restarted according to the restart policy, with increasing delays.
//! 4. A pod that is being deleted or has finished starts nothing.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::kubelet::shim::{Exit, ExitKind};

/// Role of a container in its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Runs to completion before the next one starts.
    Init,
    /// An init container with `restartPolicy: Always`, which runs as long as the pod.
    Sidecar,
    /// A regular container.
    Main,
}

/// When containers are started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestartPolicy {
    /// Whatever happened.
    Always,
    /// If they failed.
    OnFailure,
    /// Never.
    Never,
}

impl RestartPolicy {
    pub(crate) fn parse(text: Option<&str>) -> Self {
        match text {
            Some("Never") => Self::Never,
            Some("OnFailure") => Self::OnFailure,
            _ => Self::Always,
        }
    }
}

/// Delays between restarts of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Delay after the second exit; the first restart is immediate.
    pub initial: Duration,
    /// Upper bound of the doubled delay.
    pub max: Duration,
    /// A run of this length resets the delay.
    pub forgiven_after: Duration,
}

impl Default for Backoff {
    /// The kubelet's defaults.
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(10),
            max: Duration::from_secs(300),
            forgiven_after: Duration::from_secs(600),
        }
    }
}

impl Backoff {
    /// The delay after this many exits in a row.
    pub(crate) fn delay(&self, streak: u32) -> Duration {
        match streak.checked_sub(1) {
            None => Duration::ZERO,
            Some(doublings) => {
                self.initial.saturating_mul(2u32.saturating_pow(doublings)).min(self.max)
            }
        }
    }

    /// The delay after this run, which has terminated.
    fn after(&self, run: &Run, exit: &Exit) -> Duration {
        if self.forgives(run, exit) { Duration::ZERO } else { self.delay(run.streak) }
    }

    fn forgives(&self, run: &Run, exit: &Exit) -> bool {
        let lasted = run.started_at.map(|from| exit.at.duration_since(from));
        let lasted = lasted.and_then(|lasted| Duration::try_from(lasted).ok());
        lasted.is_some_and(|lasted| lasted >= self.forgiven_after)
    }

    /// The streak of the following run.
    pub(crate) fn next_streak(&self, run: Option<&Run>) -> u32 {
        let Some((run, exit)) = run.and_then(|run| Some((run, run.exit.as_ref()?))) else {
            return 0;
        };
        if run.paused {
            return run.streak;
        }
        if self.forgives(run, exit) { 1 } else { run.streak.saturating_add(1) }
    }
}

/// One run of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) number: u32,
    pub(crate) id: String,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) exit: Option<Exit>,
    /// Early exits in a row before this run.
    pub(crate) streak: u32,
    /// Whether it was stopped only because the node stopped.
    pub(crate) paused: bool,
}

/// Why a container cannot be started now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) reason: HoldReason,
    pub(crate) message: String,
    pub(crate) retry_at: Timestamp,
}

/// Reasons, as the kubelet names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HoldReason {
    ErrImagePull,
    ImagePullBackOff,
    ErrImageNeverPull,
    CreateContainerConfigError,
    CreateContainerError,
}

impl HoldReason {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::ErrImagePull => "ErrImagePull",
            Self::ImagePullBackOff => "ImagePullBackOff",
            Self::ErrImageNeverPull => "ErrImageNeverPull",
            Self::CreateContainerConfigError => "CreateContainerConfigError",
            Self::CreateContainerError => "CreateContainerError",
        }
    }
}

/// Facts about one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContainerFacts {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// The latest run.
    pub(crate) run: Option<Run>,
    /// The one before it.
    pub(crate) previous: Option<Run>,
    pub(crate) hold: Option<Hold>,
    /// Whether its startup probe has succeeded, or it runs without one.
    pub(crate) started: bool,
    /// Whether its readiness probe succeeds, or it is started without one.
    pub(crate) ready: bool,
}

impl ContainerFacts {
    pub(crate) fn runs(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.exit.is_none())
    }

    pub(crate) fn exit(&self) -> Option<&Exit> {
        self.run.as_ref()?.exit.as_ref()
    }

    pub(crate) fn succeeded(&self) -> bool {
        self.exit().is_some_and(|exit| exit.code == 0 && exit.kind == ExitKind::Ended)
    }
}

/// Facts about a pod. Containers are in spec order, init containers first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodFacts {
    /// `NAME_NAMESPACE(UID)`, for the kubelet's messages.
    pub(crate) full_name: String,
    pub(crate) policy: RestartPolicy,
    pub(crate) containers: Vec<ContainerFacts>,
    /// Whether it has an address and all volumes.
    pub(crate) mounted: bool,
    /// Whether it is being deleted.
    pub(crate) terminating: bool,
    /// Whether it had finished before we knew it, according to its status.
    pub(crate) finished_before: bool,
    pub(crate) now: Timestamp,
}

/// Result of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Succeeded,
    Failed,
}

/// Containers to start and stop, by index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) start: Vec<usize>,
    pub(crate) stop: Vec<usize>,
    /// When to decide again if nothing happens before.
    pub(crate) wake_at: Option<Timestamp>,
    /// Whether nothing runs and nothing will run.
    pub(crate) at_rest: bool,
}

/// What happens to a container, unless the pod is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Runs,
    Starts,
    WaitsUntil(Timestamp),
    Done,
}

/// Decides for all containers of a pod.
pub(crate) fn decide(pod: &PodFacts, backoff: &Backoff) -> Decision {
    let running = |role: fn(Role) -> bool| {
        let all = pod.containers.iter().enumerate();
        all.filter(move |(_, c)| c.runs() && role(c.role)).map(|(i, _)| i).collect::<Vec<_>>()
    };
    let mut decision = Decision::default();
    if pod.terminating || pod.finished_before || outcome(pod, backoff).is_some() {
        // Sidecars serve the other containers until these have terminated.
        decision.stop = running(|role| role != Role::Sidecar);
        if decision.stop.is_empty() {
            decision.stop = running(|_| true);
        }
        decision.at_rest = decision.stop.is_empty();
        return decision;
    }
    if !pod.mounted {
        return decision;
    }
    let begun = pod.containers.iter().any(|c| c.role == Role::Main && c.run.is_some());
    for (index, container) in pod.containers.iter().enumerate() {
        if container.role == Role::Init && begun {
            continue;
        }
        match fate(container, pod, backoff) {
            Fate::Starts => decision.start.push(index),
            Fate::WaitsUntil(at) => {
                decision.wake_at =
                    Some(decision.wake_at.map_or(at, |wake: Timestamp| wake.min(at)));
            }
            Fate::Runs | Fate::Done => {}
        }
        if !begun && !is_passed(container) {
            break;
        }
    }
    decision
}

/// Whether the containers after this one may start.
fn is_passed(container: &ContainerFacts) -> bool {
    match container.role {
        Role::Init => container.succeeded(),
        Role::Sidecar => container.runs() && container.started,
        Role::Main => true,
    }
}

/// Whether all init containers are done.
pub(crate) fn is_initialized(pod: &PodFacts) -> bool {
    let begun = pod.containers.iter().any(|c| c.role == Role::Main && c.run.is_some());
    begun || pod.containers.iter().all(is_passed)
}

/// The result of the pod, if it has finished.
pub(crate) fn outcome(pod: &PodFacts, backoff: &Backoff) -> Option<Outcome> {
    let done = |c: &ContainerFacts| fate(c, pod, backoff) == Fate::Done;
    let failed_init =
        pod.containers.iter().any(|c| c.role == Role::Init && done(c) && !c.succeeded());
    if failed_init {
        return Some(Outcome::Failed);
    }
    let mut main = pod.containers.iter().filter(|c| c.role == Role::Main);
    if !main.clone().all(done) {
        return None;
    }
    Some(if main.all(ContainerFacts::succeeded) { Outcome::Succeeded } else { Outcome::Failed })
}

/// Decides for one container.
pub(crate) fn fate(container: &ContainerFacts, pod: &PodFacts, backoff: &Backoff) -> Fate {
    let until = |at: Timestamp| if at > pod.now { Fate::WaitsUntil(at) } else { Fate::Starts };
    let held = container.hold.as_ref().map(|hold| hold.retry_at);
    let Some(run) = &container.run else {
        return held.map_or(Fate::Starts, until);
    };
    let Some(exit) = &run.exit else {
        return Fate::Runs;
    };
    if run.paused {
        return held.map_or(Fate::Starts, until);
    }
    let policy = match (container.role, pod.policy) {
        (Role::Sidecar, _) => RestartPolicy::Always,
        (Role::Init, RestartPolicy::Always) => RestartPolicy::OnFailure,
        (Role::Init | Role::Main, policy) => policy,
    };
    let again = match policy {
        RestartPolicy::Always => true,
        RestartPolicy::OnFailure => !container.succeeded(),
        RestartPolicy::Never => false,
    };
    if !again {
        return Fate::Done;
    }
    let due = exit.at.checked_add(backoff.after(run, exit)).unwrap_or(exit.at);
    until(held.map_or(due, |held| held.max(due)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Containers in the notation of [`container`].
    pub(crate) type Containers<'a> = &'a [(Role, &'a str)];

    pub(crate) fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    /// A container in the notation `new`, `runs`, `started`, `exit CODE [STREAK]`, `lost`, `held`.
    pub(crate) fn container(role: Role, text: &str) -> ContainerFacts {
        let words: Vec<_> = text.split(' ').collect();
        let number = |index: usize| words.get(index).map_or(0, |word| word.parse().unwrap());
        let exit = |code, kind| Exit { code, kind, message: None, at: at(0) };
        let run = |exit| Run {
            number: 0,
            id: "gregor://uid/c/0".into(),
            started_at: Some(at(-5)),
            exit,
            streak: u32::try_from(number(2)).unwrap(),
            paused: words[0] == "paused",
        };
        let run = match words[0] {
            "new" | "held" => None,
            "runs" | "started" => Some(run(None)),
            "exit" | "paused" => Some(run(Some(exit(number(1), ExitKind::Ended)))),
            "lost" => Some(run(Some(exit(137, ExitKind::Lost)))),
            other => panic!("{other}"),
        };
        let hold = (words[0] == "held").then(|| Hold {
            reason: HoldReason::ErrImagePull,
            message: String::new(),
            retry_at: at(number(1).into()),
        });
        let started = words[0] == "started";
        let name = format!("{role:?}").to_lowercase();
        ContainerFacts { name, role, run, previous: None, hold, started, ready: started }
    }

    pub(crate) fn pod(policy: RestartPolicy, containers: &[(Role, &str)]) -> PodFacts {
        let containers = containers.iter().map(|(role, text)| container(*role, text)).collect();
        let (mounted, terminating) = (true, false);
        PodFacts {
            full_name: "p_n(u)".into(),
            policy,
            containers,
            mounted,
            terminating,
            finished_before: false,
            now: at(1),
        }
    }

    use RestartPolicy::{Always, Never, OnFailure};
    use Role::{Init, Main, Sidecar};

    #[test]
    fn what_is_started_when() {
        #[rustfmt::skip]
        let table: &[(RestartPolicy, Containers<'_>, &[usize])] = &[
            // Init containers one after the other, then all others at once.
            (Always,    &[(Init, "new"), (Init, "new"), (Main, "new")],           &[0]),
            (Always,    &[(Init, "runs"), (Init, "new"), (Main, "new")],          &[]),
            (Always,    &[(Init, "exit 0"), (Init, "new"), (Main, "new")],        &[1]),
            (Always,    &[(Init, "exit 0"), (Main, "new"), (Main, "new")],        &[1, 2]),
            // A failed init container is restarted, or fails the pod.
            (Always,    &[(Init, "exit 1"), (Main, "new")],                       &[0]),
            (OnFailure, &[(Init, "exit 1"), (Main, "new")],                       &[0]),
            (Never,     &[(Init, "exit 1"), (Main, "new")],                       &[]),
            // Later containers wait until a sidecar is started; it is always restarted.
            (Always,    &[(Sidecar, "runs"), (Main, "new")],                      &[]),
            (Always,    &[(Sidecar, "started"), (Main, "new")],                   &[1]),
            (Never,     &[(Sidecar, "exit 0"), (Main, "runs")],                   &[0]),
            // Init containers do not run again once the others have started, even if their state is lost.
            (Always,    &[(Init, "new"), (Main, "runs")],                         &[]),
            // Restart policies.
            (Always,    &[(Main, "exit 0")],                                      &[0]),
            (Always,    &[(Main, "exit 1")],                                      &[0]),
            (OnFailure, &[(Main, "exit 0"), (Main, "runs")],                      &[]),
            (OnFailure, &[(Main, "exit 1")],                                      &[0]),
            (OnFailure, &[(Main, "lost")],                                        &[0]),
            (Never,     &[(Main, "exit 1"), (Main, "runs")],                      &[]),
            (Never,     &[(Main, "paused 143")],                                  &[0]),
            // Back-off: the second exit in a row waits.
            (Always,    &[(Main, "exit 1 1")],                                    &[]),
            (Always,    &[(Main, "held 5")],                                      &[]),
            (Always,    &[(Main, "held 1")],                                      &[0]),
        ];
        for (policy, containers, expected) in table {
            let decision = decide(&pod(*policy, containers), &Backoff::default());
            assert_eq!(decision.start, *expected, "{policy:?} {containers:?}");
            assert!(
                decision.stop.is_empty()
                    || outcome(&pod(*policy, containers), &Backoff::default()).is_some()
            );
        }
    }

    #[test]
    fn how_a_pod_ends() {
        use Outcome::{Failed, Succeeded};
        #[rustfmt::skip]
        let table: &[(RestartPolicy, Containers<'_>, Option<Outcome>)] = &[
            (Always,    &[(Main, "exit 0")],                      None),
            (OnFailure, &[(Main, "exit 0")],                      Some(Succeeded)),
            (OnFailure, &[(Main, "exit 1")],                      None),
            (Never,     &[(Main, "exit 0"), (Main, "exit 0")],    Some(Succeeded)),
            (Never,     &[(Main, "exit 0"), (Main, "exit 2")],    Some(Failed)),
            (Never,     &[(Main, "exit 0"), (Main, "runs")],      None),
            (Never,     &[(Main, "exit 0"), (Main, "new")],       None),
            (Never,     &[(Main, "lost")],                        Some(Failed)),
            (Never,     &[(Main, "paused 0")],                    None),
            (Never,     &[(Init, "exit 1"), (Main, "new")],       Some(Failed)),
            (Always,    &[(Init, "exit 1"), (Main, "new")],       None),
            (Never,     &[(Sidecar, "started"), (Main, "exit 0")], Some(Succeeded)),
        ];
        for (policy, containers, expected) in table {
            let pod = pod(*policy, containers);
            assert_eq!(outcome(&pod, &Backoff::default()), *expected, "{policy:?} {containers:?}");
        }
    }

    #[test]
    fn sidecars_end_after_the_others() {
        let check = |containers: &[(Role, &str)], stop: &[usize], at_rest| {
            let pod = PodFacts { terminating: true, ..pod(Always, containers) };
            let decision = decide(&pod, &Backoff::default());
            assert_eq!((decision.stop.as_slice(), decision.at_rest), (stop, at_rest));
            assert!(decision.start.is_empty());
        };
        check(&[(Sidecar, "started"), (Main, "runs")], &[1], false);
        check(&[(Sidecar, "started"), (Main, "exit 0")], &[0], false);
        check(&[(Sidecar, "exit 0"), (Main, "exit 0")], &[], true);
        check(&[(Init, "runs"), (Main, "new")], &[0], false);
        check(&[(Main, "new")], &[], true);
    }

    #[test]
    fn nothing_starts_without_volumes() {
        let pod = PodFacts { mounted: false, ..pod(Always, &[(Main, "new")]) };
        assert_eq!(decide(&pod, &Backoff::default()), Decision::default());
    }

    #[test]
    fn delays_double_up_to_the_longest() {
        let backoff = Backoff::default();
        let seconds: Vec<_> = (0..8).map(|n| backoff.delay(n).as_secs()).collect();
        assert_eq!(seconds, [0, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(backoff.delay(u32::MAX), backoff.max);
    }

    #[test]
    fn a_long_run_is_forgiven_and_a_paused_one_does_not_count() {
        let backoff = Backoff::default();
        let mut run = container(Main, "exit 1 4").run.unwrap();
        assert_eq!(backoff.next_streak(Some(&run)), 5);
        run.started_at = Some(at(-700));
        assert_eq!(backoff.next_streak(Some(&run)), 1);
        let paused = container(Main, "paused 143 4").run.unwrap();
        assert_eq!(backoff.next_streak(Some(&paused)), 4);
        assert_eq!(backoff.next_streak(None), 0);
    }

    #[test]
    fn the_next_look_is_when_the_first_wait_is_over() {
        let decision =
            decide(&pod(Always, &[(Main, "exit 1 2"), (Main, "exit 1 1")]), &Backoff::default());
        assert_eq!(decision.wake_at, Some(at(10)));
    }
}
