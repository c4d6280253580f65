//! Log requests: which file to read, and how to interpret its lines. Pure.

use std::str;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;

use super::error::Refusal;

/// Parameters of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LogQuery {
    pub(super) follow: bool,
    pub(super) previous: bool,
    pub(super) timestamps: bool,
    pub(super) tail_lines: Option<u64>,
    pub(super) limit_bytes: Option<u64>,
    pub(super) since: Option<Timestamp>,
    pub(super) only: Option<Output>,
}

/// Stream of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Out,
    Err,
}

impl LogQuery {
    /// Parses the parameters from the API server. Unknown ones are ignored, as everywhere in Kubernetes.
    pub(super) fn parse(query: &str, now: Timestamp) -> Result<Self, Refusal> {
        let mut wanted = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match key.as_ref() {
                "follow" => wanted.follow = flag("follow", &value)?,
                "previous" => wanted.previous = flag("previous", &value)?,
                "timestamps" => wanted.timestamps = flag("timestamps", &value)?,
                "tailLines" => wanted.tail_lines = Some(number("tailLines", &value)?),
                "limitBytes" => wanted.limit_bytes = Some(number("limitBytes", &value)?),
                "sinceSeconds" => wanted.since = Some(ago(number("sinceSeconds", &value)?, now)?),
                "sinceTime" => {
                    let time = value.parse().map_err(|_| Refusal::BadParameter("sinceTime"))?;
                    wanted.since = Some(time);
                }
                "stream" => wanted.only = output(&value)?,
                _ => {}
            }
        }
        Ok(wanted)
    }
}

fn flag(name: &'static str, value: &str) -> Result<bool, Refusal> {
    match value {
        "true" | "1" => Ok(true),
        "false" | "0" | "" => Ok(false),
        _ => Err(Refusal::BadParameter(name)),
    }
}

fn number(name: &'static str, value: &str) -> Result<u64, Refusal> {
    value.parse().map_err(|_| Refusal::BadParameter(name))
}

fn ago(seconds: u64, now: Timestamp) -> Result<Timestamp, Refusal> {
    let bad = Refusal::BadParameter("sinceSeconds");
    let Ok(seconds) = i64::try_from(seconds) else { return Err(bad) };
    now.checked_sub(SignedDuration::from_secs(seconds)).map_err(|_| bad)
}

fn output(value: &str) -> Result<Option<Output>, Refusal> {
    match value {
        "" | "All" => Ok(None),
        "Stdout" => Ok(Some(Output::Out)),
        "Stderr" => Ok(Some(Output::Err)),
        _ => Err(Refusal::BadParameter("stream")),
    }
}

/// The requested run of a container: the number of earlier starts.
pub(super) fn attempt(pod: &Pod, container: &str, previous: bool) -> Result<u32, Refusal> {
    let (name, container_name) = (pod.name_any(), container.to_owned());
    let Some(status) = status_of(pod, container) else {
        return if is_declared(pod, container) {
            let reason = "ContainerCreating".to_owned();
            Err(Refusal::Waiting { pod: name, container: container_name, reason })
        } else {
            Err(Refusal::NoContainer { pod: name, container: container_name })
        };
    };
    let state = status.state.as_ref();
    let present = state.is_some_and(|state| state.running.is_some() || state.terminated.is_some());
    let past = status.last_state.as_ref().is_some_and(|state| state.terminated.is_some());
    let latest = u32::try_from(status.restart_count).unwrap_or(0);
    match (previous, present, past) {
        (false, true, _) => Ok(latest),
        // Between two runs: the terminated one is both the latest and the previous.
        (_, false, true) => Ok(latest),
        (true, true, true) => Ok(latest.saturating_sub(1)),
        (true, _, false) => Err(Refusal::NoPrevious { pod: name, container: container_name }),
        (false, false, false) => {
            let reason = state
                .and_then(|state| state.waiting.as_ref()?.reason.clone())
                .unwrap_or_else(|| "ContainerCreating".to_owned());
            Err(Refusal::Waiting { pod: name, container: container_name, reason })
        }
    }
}

/// Whether this run of the container is running.
pub(super) fn is_running(pod: &Pod, container: &str, attempt: u32) -> bool {
    status_of(pod, container).is_some_and(|status| {
        u32::try_from(status.restart_count) == Ok(attempt)
            && status.state.as_ref().is_some_and(|state| state.running.is_some())
    })
}

fn status_of<'a>(pod: &'a Pod, container: &str) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    [&status.container_statuses, &status.init_container_statuses]
        .into_iter()
        .flat_map(|statuses| statuses.iter().flatten())
        .find(|status| status.name == container)
}

fn is_declared(pod: &Pod, container: &str) -> bool {
    pod.spec.as_ref().is_some_and(|spec| {
        spec.containers
            .iter()
            .chain(spec.init_containers.iter().flatten())
            .any(|one| one.name == container)
    })
}

/// A line of a log file: `<time> <stdout|stderr> <F|P> <text>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) time: &'a str,
    pub(super) output: Output,
    /// Whether the container's line continues in the next line of the file.
    pub(super) goes_on: bool,
    pub(super) text: &'a [u8],
}

impl<'a> Line<'a> {
    /// Parses a line without its newline. `None` if it is damaged.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let time = str::from_utf8(parts.next()?).ok()?;
        let output = match parts.next()? {
            b"stdout" => Output::Out,
            b"stderr" => Output::Err,
            _ => return None,
        };
        // Further tags may follow after a colon.
        let goes_on = match parts.next()?.first()? {
            b'F' => false,
            b'P' => true,
            _ => return None,
        };
        Some(Self { time, output, goes_on, text: parts.next()? })
    }
}

/// Converts lines of the file to output.
#[derive(Debug)]
pub(super) struct Printer {
    query: LogQuery,
    /// Which streams are in the middle of a line; only the start of one gets a timestamp.
    within: [bool; 2],
    bytes_left: u64,
}

impl Printer {
    pub(super) fn new(query: LogQuery) -> Self {
        let bytes_left = query.limit_bytes.unwrap_or(u64::MAX);
        Self { query, within: [false; 2], bytes_left }
    }

    /// Appends the output of a line.
    pub(super) fn print(&mut self, line: &[u8], out: &mut Vec<u8>) {
        let Some(line) = Line::parse(line) else { return };
        if self.query.only.is_some_and(|only| only != line.output) || self.is_too_old(&line) {
            return;
        }
        let within = &mut self.within[line.output as usize];
        let before = out.len();
        if self.query.timestamps && !*within {
            out.extend_from_slice(line.time.as_bytes());
            out.push(b' ');
        }
        out.extend_from_slice(line.text);
        if !line.goes_on {
            out.push(b'\n');
        }
        *within = line.goes_on;
        let left = usize::try_from(self.bytes_left).unwrap_or(usize::MAX);
        out.truncate(before.saturating_add(left));
        self.bytes_left = self.bytes_left.saturating_sub((out.len() - before) as u64);
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes_left == 0
    }

    fn is_too_old(&self, line: &Line<'_>) -> bool {
        let Some(since) = self.query.since else { return false };
        line.time.parse::<Timestamp>().is_ok_and(|time| time < since)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn now() -> Timestamp {
        "2026-11-15T10:00:00Z".parse().unwrap()
    }

    #[test]
    fn parameters_are_read_as_the_api_server_writes_them() {
        let query = "follow=true&previous=true&timestamps=true&tailLines=5&limitBytes=7\
                     &sinceSeconds=60&stream=Stderr&insecureSkipTLSVerifyBackend=true";
        let expected = LogQuery {
            follow: true,
            previous: true,
            timestamps: true,
            tail_lines: Some(5),
            limit_bytes: Some(7),
            since: Some("2026-11-15T09:59:00Z".parse().unwrap()),
            only: Some(Output::Err),
        };
        assert_eq!(LogQuery::parse(query, now()).unwrap(), expected);
        let since = LogQuery::parse("sinceTime=2026-11-15T09%3A00%3A00Z", now()).unwrap().since;
        assert_eq!(since, "2026-11-15T09:00:00Z".parse().ok());
        for bad in [
            "tailLines=-1",
            "follow=maybe",
            "sinceTime=today",
            "stream=x",
            "sinceSeconds=99999999999999999999",
            "sinceSeconds=9999999999999999",
        ] {
            assert!(LogQuery::parse(bad, now()).is_err(), "{bad}");
        }
    }

    fn pod(restarts: i32, state: &Value, last: &Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c"}, {"name": "new"}]},
            "status": {"containerStatuses": [{
                "name": "c", "image": "", "imageID": "", "ready": false,
                "restartCount": restarts, "state": state, "lastState": last,
            }]},
        }))
        .unwrap()
    }

    #[test]
    fn the_run_is_chosen_as_a_kubelet_chooses_it() {
        let running = json!({"running": {}});
        let ended = json!({"terminated": {"exitCode": 1}});
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let rows = [
            (0, &running, &json!({}), Some(0), None),
            (2, &running, &ended, Some(2), Some(1)),
            (2, &ended, &ended, Some(2), Some(1)),
            (0, &ended, &json!({}), Some(0), None),
            (2, &waiting, &ended, Some(2), Some(2)),
            (0, &waiting, &json!({}), None, None),
        ];
        for (restarts, state, last, latest, previous) in rows {
            let pod = pod(restarts, state, last);
            assert_eq!(attempt(&pod, "c", false).ok(), latest, "{restarts} {state} {last}");
            assert_eq!(attempt(&pod, "c", true).ok(), previous, "{restarts} {state} {last}");
        }
        let pod = pod(1, &running, &ended);
        assert!(is_running(&pod, "c", 1) && !is_running(&pod, "c", 0));
        assert!(matches!(attempt(&pod, "new", false), Err(Refusal::Waiting { .. })));
        assert!(matches!(attempt(&pod, "other", false), Err(Refusal::NoContainer { .. })));
    }

    #[test]
    fn lines_are_taken_apart() {
        let line = Line::parse(b"2026-11-15T09:00:00.5Z stderr F two words").unwrap();
        assert_eq!(
            (line.time, line.output, line.goes_on, line.text),
            ("2026-11-15T09:00:00.5Z", Output::Err, false, &b"two words"[..])
        );
        assert!(Line::parse(b"t stdout P:x ").unwrap().goes_on);
        for damaged in ["", "t", "t stdout", "t stdout F", "t stdlog F x", "t stdout X y"] {
            assert_eq!(Line::parse(damaged.as_bytes()), None, "{damaged}");
        }
    }

    fn printed(query: &str) -> String {
        let lines = [
            "2026-11-15T09:00:00Z stdout F old",
            "damaged",
            "2026-11-15T09:59:30Z stdout P be",
            "2026-11-15T09:59:31Z stderr F oh",
            "2026-11-15T09:59:32Z stdout F gin",
        ];
        let mut printer = Printer::new(LogQuery::parse(query, now()).unwrap());
        let mut out = Vec::new();
        for line in lines {
            if !printer.is_full() {
                printer.print(line.as_bytes(), &mut out);
            }
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_are_printed_as_asked() {
        let rows = [
            ("", "old\nbeoh\ngin\n"),
            ("stream=Stdout", "old\nbegin\n"),
            ("sinceSeconds=60&stream=Stdout", "begin\n"),
            ("sinceSeconds=60&stream=Stdout&timestamps=true", "2026-11-15T09:59:30Z begin\n"),
            ("limitBytes=5", "old\nb"),
            ("limitBytes=0", ""),
        ];
        for (query, expected) in rows {
            assert_eq!(printed(query), expected, "{query}");
        }
    }
}
