//! A real Prometheus with the rules and the scrape configuration that `deploy/monitoring` ships.
//!
//! Debian builds Prometheus without the discovery of Kubernetes. So pods are listed here and written to a file with the
//! labels that this discovery gives them, and Prometheus selects and relabels them as the Prometheus Operator
//! configures it for a PodMonitor. A minute of the shipped rules is a second here, in ranges and in `for`; nothing
//! else of a rule is changed.

#![allow(dead_code, reason = "each program of tests uses a part of it")]

pub(crate) mod collector;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use k8s_openapi::api::core::v1::{Container, Pod};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Map, Value, json};

use crate::monitoring_support::{program, rules, yaml};
use crate::up::eventually;

/// How often the operator is scraped and rules are evaluated.
const INTERVAL: &str = "1s";
/// A JVM spends much more on an answer.
const NODES_INTERVAL: &str = "5s";
/// How often pods are listed.
const DISCOVERY: Duration = Duration::from_millis(500);
/// The namespace that the documentation puts PodMonitors into.
const NAMESPACE: &str = "monitoring";

/// Ends the program when its input does, which is when the test does, however it does.
const UNDERTAKER: &str = r#""$0" "$@" & pid=$!; read -r line; kill -9 $pid; wait $pid"#;

/// A Prometheus that is being run.
pub(crate) struct Prometheus {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
    began: f64,
}

impl Prometheus {
    /// Starts it with this configuration, in a directory that is there.
    pub(crate) fn start(dir: &Path, scrape: &[Value], rules: &Value) -> Self {
        let (config, rule_file) = (dir.join("prometheus.json"), dir.join("rules.json"));
        let log = dir.join("prometheus.log");
        fs::write(&rule_file, rules.to_string()).unwrap();
        let global = json!({ "scrape_interval": INTERVAL, "scrape_timeout": INTERVAL,
                             "evaluation_interval": INTERVAL });
        let all = json!({ "global": global, "rule_files": [rule_file], "scrape_configs": scrape });
        fs::write(&config, all.to_string()).unwrap();
        // An address that no other process of this machine uses.
        let pid = std::process::id();
        let last = u8::try_from(pid % 254).unwrap() + 1;
        let ip = Ipv4Addr::new(127, 97, u8::try_from(pid / 254 % 256).unwrap(), last);
        let address = SocketAddr::new(IpAddr::V4(ip), 9090);
        let output = fs::File::create(&log).unwrap();
        let child = Command::new("sh")
            .args(["-c", UNDERTAKER])
            .arg(program("prometheus"))
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", dir.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let prometheus = Self { child, address, log, began };
        eventually("Prometheus is ready", || {
            let answer = prometheus.get("/-/ready");
            answer.inspect_err(|error| println!("{error}")).is_ok()
        });
        prometheus
    }

    fn get(&self, path: &str) -> Result<String, String> {
        get(self.address, path).map_err(|error| {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            format!("{path}: {error}; {}", log.lines().last().unwrap_or_default())
        })
    }

    fn data(&self, path: &str) -> Value {
        let answer = self.get(path).unwrap();
        let mut answer: Value = serde_json::from_str(&answer).unwrap();
        answer["data"].take()
    }

    /// The values of a query now.
    pub(crate) fn now(&self, query: &str) -> Vec<f64> {
        let data = self.data(&format!("/api/v1/query?query={}", encoded(query)));
        let value = |one: &Value| one["value"][1].as_str().unwrap().parse().unwrap();
        data["result"].as_array().unwrap().iter().map(value).collect()
    }

    /// Whether a query has had a finite value since the start, at any second.
    pub(crate) fn has_had_data(&self, query: &str) -> bool {
        let end = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let path = format!(
            "/api/v1/query_range?query={}&start={}&end={end}&step=1",
            encoded(query),
            self.began
        );
        let data = self.data(&path);
        let series = data["result"].as_array().unwrap();
        let mut values = series.iter().flat_map(|one| one["values"].as_array().unwrap());
        values.any(|one| one[1].as_str().unwrap().parse::<f64>().unwrap().is_finite())
    }

    /// The labels of an alert that fires, of each series of it.
    pub(crate) fn firing(&self, alert: &str) -> Vec<Value> {
        let data = self.data("/api/v1/alerts");
        let all = data["alerts"].as_array().unwrap().iter();
        let is_it = |one: &&Value| one["labels"]["alertname"] == alert && one["state"] == "firing";
        all.filter(is_it).map(|one| one["labels"].clone()).collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// What an address answers to a GET.
pub(crate) fn get(address: SocketAddr, path: &str) -> Result<String, String> {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        write!(stream, "GET {path} HTTP/1.0\r\nhost: {address}\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = ask().map_err(|error| error.to_string())?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("the answer has no body")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status == "200" { Ok(body.to_owned()) } else { Err(format!("{status}: {body}")) }
}

fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// The shipped rules with seconds for minutes, in ranges and in `for`.
pub(crate) fn quick_rules() -> Value {
    let mut rules = rules();
    for group in rules["groups"].as_array_mut().unwrap() {
        for rule in group["rules"].as_array_mut().unwrap() {
            rule["for"] = json!(in_seconds(rule["for"].as_str().unwrap()));
            rule["expr"] = json!(with_quick_ranges(rule["expr"].as_str().unwrap()));
        }
    }
    rules
}

/// A duration with a second for each minute.
pub(crate) fn in_seconds(duration: &str) -> String {
    let (number, unit) = duration.split_at(duration.len() - 1);
    let minutes: u32 = number.parse().unwrap();
    match unit {
        "m" => format!("{minutes}s"),
        "h" => format!("{}s", minutes * 60),
        other => panic!("{duration}: {other}"),
    }
}

/// A query with such a duration for each of its ranges.
pub(crate) fn with_quick_ranges(query: &str) -> String {
    let mut parts = query.split('[');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let (range, rest) = part.split_once(']').unwrap();
        format!("{text}[{}]{rest}", in_seconds(range))
    })
}

/// A label of Kubernetes as the discovery names it.
fn sanitized(label: &str) -> String {
    label.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// The scrape configurations of the shipped PodMonitors, with targets from this file.
pub(crate) fn scrape_configs(targets: &Path) -> Vec<Value> {
    let monitors = yaml("deploy/monitoring/pod-monitors.yaml");
    let of = |monitor: &Value| -> Vec<Value> {
        let endpoints = monitor["spec"]["podMetricsEndpoints"].as_array().unwrap();
        let all = endpoints.iter().enumerate();
        all.map(|(number, endpoint)| scrape_config(monitor, number, endpoint, targets)).collect()
    };
    monitors.iter().flat_map(of).collect()
}

/// What the Prometheus Operator makes of an endpoint of a PodMonitor.
fn scrape_config(monitor: &Value, number: usize, endpoint: &Value, targets: &Path) -> Value {
    let spec = &monitor["spec"];
    assert_eq!(spec["namespaceSelector"]["any"], true, "other selectors are not supported here");
    let name = monitor["metadata"]["name"].as_str().unwrap();
    let port = endpoint["port"].as_str().unwrap();
    let meta = |label: &str| format!("__meta_kubernetes_{label}");
    let keep = |labels: &[String], regex: &str| json!({ "action": "keep", "source_labels": labels, "regex": regex });
    let copy = |from: &str, to: &str| json!({ "source_labels": [meta(from)], "target_label": to });
    let set = |to: &str, value: &str| json!({ "target_label": to, "replacement": value });
    let mut relabel = vec![json!({ "action": "drop", "source_labels": [meta("pod_phase")],
                                   "regex": "(Failed|Succeeded)" })];
    for (label, value) in spec["selector"]["matchLabels"].as_object().unwrap() {
        let label = sanitized(label);
        let labels =
            [meta(&format!("pod_label_{label}")), meta(&format!("pod_labelpresent_{label}"))];
        relabel.push(keep(&labels, &format!("({});true", value.as_str().unwrap())));
    }
    relabel.push(keep(&[meta("pod_container_port_name")], port));
    relabel.push(copy("namespace", "namespace"));
    relabel.push(copy("pod_container_name", "container"));
    relabel.push(copy("pod_name", "pod"));
    relabel.push(set("job", &format!("{NAMESPACE}/{name}")));
    relabel.push(set("endpoint", port));
    for own in endpoint["relabelings"].as_array().into_iter().flatten() {
        let own = own.as_object().unwrap().iter();
        let names =
            BTreeMap::from([("sourceLabels", "source_labels"), ("targetLabel", "target_label")]);
        let renamed = own.map(|(field, value)| {
            let name = names.get(field.as_str()).copied().unwrap_or(field);
            (name.to_owned(), value.clone())
        });
        relabel.push(Value::Object(renamed.collect()));
    }
    let interval = if port == "http" { INTERVAL } else { NODES_INTERVAL };
    json!({
        "job_name": format!("podMonitor/{NAMESPACE}/{name}/{number}"),
        "honor_labels": endpoint["honorLabels"].as_bool().unwrap_or_default(),
        "metrics_path": endpoint["path"],
        "scrape_interval": interval,
        "scrape_timeout": interval,
        "relabel_configs": relabel,
        "file_sd_configs": [{ "files": [targets], "refresh_interval": INTERVAL }],
    })
}

/// Lists pods and writes them as targets, until it is dropped.
pub(crate) struct Discovery {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Discovery {
    pub(crate) fn start(kubeconfig: PathBuf, targets: PathBuf) -> Self {
        fs::write(&targets, "[]").unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(discover(&kubeconfig, &targets, &shared));
        });
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for Discovery {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

async fn discover(kubeconfig: &Path, targets: &Path, is_over: &AtomicBool) {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let pods = Api::<Pod>::all(Client::try_from(config).unwrap());
    let mut written = String::new();
    while !is_over.load(Ordering::Relaxed) {
        // What is listed now stays until the API server answers again.
        if let Ok(list) = pods.list(&kube::api::ListParams::default()).await {
            let found = json!(list.iter().flat_map(targets_of).collect::<Vec<_>>()).to_string();
            if found != written {
                let new = targets.with_extension("new");
                fs::write(&new, &found).unwrap();
                fs::rename(&new, targets).unwrap();
                written = found;
            }
        }
        tokio::time::sleep(DISCOVERY).await;
    }
}

/// A pod as the discovery of Kubernetes describes it: a target for each port of a container.
fn targets_of(pod: &Pod) -> Vec<Value> {
    let status = pod.status.clone().unwrap_or_default();
    let Some(ip) = status.pod_ip.filter(|ip| !ip.is_empty()) else { return Vec::new() };
    let spec = pod.spec.clone().unwrap_or_default();
    let mut labels = Map::new();
    let mut set = |name: &str, value: &str| {
        labels.insert(format!("__meta_kubernetes_{name}"), json!(value));
    };
    set("namespace", pod.metadata.namespace.as_deref().unwrap_or_default());
    set("pod_name", pod.metadata.name.as_deref().unwrap_or_default());
    set("pod_ip", &ip);
    set("pod_phase", status.phase.as_deref().unwrap_or_default());
    set("pod_node_name", spec.node_name.as_deref().unwrap_or_default());
    for (name, value) in pod.metadata.labels.iter().flatten() {
        let name = sanitized(name);
        set(&format!("pod_label_{name}"), value);
        set(&format!("pod_labelpresent_{name}"), "true");
    }
    let of_container = |container: &Container| -> Vec<Value> {
        let ports = container.ports.iter().flatten();
        let target = ports.map(|port| {
            let mut labels = labels.clone();
            let mut set = |name: &str, value: String| {
                labels.insert(format!("__meta_kubernetes_pod_container_{name}"), json!(value));
            };
            set("name", container.name.clone());
            set("port_name", port.name.clone().unwrap_or_default());
            set("port_number", port.container_port.to_string());
            json!({ "targets": [format!("{ip}:{}", port.container_port)], "labels": labels })
        });
        target.collect()
    };
    spec.containers.iter().flat_map(of_container).collect()
}
