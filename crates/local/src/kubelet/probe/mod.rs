//! Probes: action, interval, and evaluation of results.
//!
//! Evaluation is a pure state machine; execution is in [`ask`].

pub(crate) mod ask;
pub(crate) mod http;

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, LifecycleHandler, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Kind of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Whether the container has started; the other probes wait for it.
    Startup,
    /// Whether the container must be restarted.
    Liveness,
    /// Whether the container may receive traffic.
    Readiness,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        }
    }
}

/// A probe with all defaults applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) action: Action,
    pub(crate) initial_delay: Duration,
    pub(crate) period: Duration,
    pub(crate) timeout: Duration,
    pub(crate) success_threshold: u32,
    pub(crate) failure_threshold: u32,
}

/// What a probe does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Exec(Vec<String>),
    Http(http::Get),
    Tcp {
        host: String,
        port: u16,
    },
    Sleep(Duration),
    /// Something unsupported, with a message.
    Unsupported(String),
}

impl Plan {
    pub(crate) fn of(probe: &Probe, container: &Container, pod_ip: &str) -> Self {
        let seconds = |value: Option<i32>, default: u64, min: u64| {
            let value = value.and_then(|value| u64::try_from(value).ok());
            Duration::from_secs(value.unwrap_or(default).max(min))
        };
        let count = |value: Option<i32>, default: u32| {
            value.and_then(|value| u32::try_from(value).ok()).unwrap_or(default).max(1)
        };
        Self {
            action: action_of_probe(probe, container, pod_ip),
            initial_delay: seconds(probe.initial_delay_seconds, 0, 0),
            period: seconds(probe.period_seconds, 10, 1),
            timeout: seconds(probe.timeout_seconds, 1, 1),
            success_threshold: count(probe.success_threshold, 1),
            failure_threshold: count(probe.failure_threshold, 3),
        }
    }
}

fn action_of_probe(probe: &Probe, container: &Container, pod_ip: &str) -> Action {
    if probe.grpc.is_some() {
        return Action::Unsupported("gRPC probes are not supported by this kubelet".to_owned());
    }
    let handler = LifecycleHandler {
        exec: probe.exec.clone(),
        http_get: probe.http_get.clone(),
        tcp_socket: probe.tcp_socket.clone(),
        sleep: None,
    };
    Action::of(&handler, container, pod_ip)
}

impl Action {
    /// The action of a lifecycle handler.
    pub(crate) fn of(handler: &LifecycleHandler, container: &Container, pod_ip: &str) -> Self {
        if let Some(exec) = &handler.exec {
            return Self::Exec(exec.command.clone().unwrap_or_default());
        }
        if let Some(sleep) = &handler.sleep {
            return Self::Sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0)));
        }
        if let Some(get) = &handler.http_get {
            return http(get, container, pod_ip);
        }
        if let Some(tcp) = &handler.tcp_socket {
            let host = tcp.host.clone().unwrap_or_else(|| pod_ip.to_owned());
            return match port(&tcp.port, container) {
                Ok(port) => Self::Tcp { host, port },
                Err(problem) => Self::Unsupported(problem),
            };
        }
        Self::Unsupported("the probe has no action".to_owned())
    }
}

fn http(get: &HTTPGetAction, container: &Container, pod_ip: &str) -> Action {
    let headers = get.http_headers.iter().flatten();
    match port(&get.port, container) {
        Ok(port) => Action::Http(http::Get {
            tls: get.scheme.as_deref() == Some("HTTPS"),
            host: get.host.clone().unwrap_or_else(|| pod_ip.to_owned()),
            port,
            path: get.path.clone().filter(|path| !path.is_empty()).unwrap_or("/".to_owned()),
            headers: headers.map(|header| (header.name.clone(), header.value.clone())).collect(),
        }),
        Err(problem) => Action::Unsupported(problem),
    }
}

/// A port, by number or by name.
fn port(port: &IntOrString, container: &Container) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => {
            let named = container.ports.iter().flatten().find(|p| p.name.as_ref() == Some(name));
            named.map(|port| port.container_port).or_else(|| name.parse().ok())
        }
    };
    number
        .and_then(|number| u16::try_from(number).ok())
        .ok_or_else(|| format!("the container has no port {port:?}"))
}

/// Turns results into a verdict, which changes after a threshold of equal results in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machine {
    success_threshold: u32,
    failure_threshold: u32,
    verdict: Option<bool>,
    last: bool,
    in_a_row: u32,
}

impl Machine {
    /// Before the first verdict a container is live, not ready and not started.
    pub(crate) fn new(kind: Kind, plan: &Plan) -> Self {
        let verdict = match kind {
            Kind::Startup => None,
            Kind::Liveness => Some(true),
            Kind::Readiness => Some(false),
        };
        Self {
            success_threshold: plan.success_threshold,
            failure_threshold: plan.failure_threshold,
            verdict,
            last: false,
            in_a_row: 0,
        }
    }

    /// Enters a result; returns the verdict if it changes.
    pub(crate) fn observe(&mut self, passed: bool) -> Option<bool> {
        self.in_a_row = if passed == self.last { self.in_a_row.saturating_add(1) } else { 1 };
        self.last = passed;
        let needed = if passed { self.success_threshold } else { self.failure_threshold };
        if self.in_a_row < needed || self.verdict == Some(passed) {
            return None;
        }
        self.verdict = Some(passed);
        Some(passed)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plan(probe: serde_json::Value) -> Plan {
        let probe: Probe = serde_json::from_value(probe).unwrap();
        let container: Container = serde_json::from_value(json!({
            "name": "c", "ports": [{ "name": "web", "containerPort": 8080 }],
        }))
        .unwrap();
        Plan::of(&probe, &container, "127.1.0.2")
    }

    /// Results in, `+` and `-`; changed verdicts out, at their positions.
    #[track_caller]
    fn check(kind: Kind, thresholds: (u32, u32), answers: &str, expected: &str) {
        let thresholds =
            json!({ "successThreshold": thresholds.0, "failureThreshold": thresholds.1 });
        let mut machine = Machine::new(kind, &plan(thresholds));
        let verdict = |answer: char| match machine.observe(answer == '+') {
            None => '.',
            Some(true) => '+',
            Some(false) => '-',
        };
        let verdicts: String = answers.chars().map(verdict).collect();
        assert_eq!(verdicts, expected, "{kind:?} {answers}");
    }

    #[test]
    fn verdicts_need_enough_equal_answers_in_a_row() {
        check(Kind::Readiness, (1, 3), "+", "+");
        check(Kind::Readiness, (1, 3), "---", "...");
        check(Kind::Readiness, (1, 3), "+--+---+", "+.....-+");
        check(Kind::Readiness, (2, 1), "+-++-", "...+-");
        check(Kind::Liveness, (1, 3), "+--+---", "......-");
        check(Kind::Liveness, (1, 1), "-", "-");
        check(Kind::Startup, (1, 3), "--+", "..+");
        check(Kind::Startup, (1, 3), "---", "..-");
    }

    #[test]
    fn defaults_are_those_of_kubernetes() {
        let plan = plan(json!({ "exec": { "command": ["true"] } }));
        assert_eq!(plan.action, Action::Exec(vec!["true".into()]));
        let seconds = [plan.initial_delay, plan.period, plan.timeout].map(|time| time.as_secs());
        assert_eq!(seconds, [0, 10, 1]);
        assert_eq!((plan.success_threshold, plan.failure_threshold), (1, 3));
    }

    #[test]
    fn ports_have_numbers_or_names() {
        let tcp = |port: serde_json::Value| plan(json!({ "tcpSocket": { "port": port } })).action;
        let expected = |port| Action::Tcp { host: "127.1.0.2".into(), port };
        assert_eq!(tcp(json!(9)), expected(9));
        assert_eq!(tcp(json!("web")), expected(8080));
        assert_eq!(tcp(json!("81")), expected(81));
        assert!(matches!(tcp(json!("no")), Action::Unsupported(_)));
        assert!(matches!(tcp(json!(70000)), Action::Unsupported(_)));
    }

    #[test]
    fn an_http_probe_asks_the_pod_unless_a_host_is_named() {
        let probe = json!({ "httpGet": { "port": "web", "scheme": "HTTPS", "path": "/x",
            "httpHeaders": [{ "name": "A", "value": "b" }] } });
        let Action::Http(get) = plan(probe).action else { panic!() };
        assert_eq!((get.tls, get.host.as_str(), get.port), (true, "127.1.0.2", 8080));
        assert_eq!((get.path.as_str(), &get.headers[0].1[..]), ("/x", "b"));
    }
}
