//! `gregor kafka` as a person at a terminal has it: the program itself, on a real cluster.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use kafka_admin::{
    Acl, AclOperation, AclPattern, AclPermission, AclResource, Admin, Bootstrap, ClientOptions,
    Endpoint, Layout, NewTopic, Secret,
};
use model::{NodeId, TopicName, TopicPartition};
use serde_json::{Value, json};
use testkit::{Authority, Cluster, Role, Security, TLS_SUPER_USER};

/// What a run of the program left.
#[derive(Debug)]
struct Run {
    code: i32,
    out: String,
    err: String,
}

impl Run {
    /// What was printed by a run that must have succeeded.
    fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self.out
    }

    /// A run that must have failed with this code and a sentence that has these words.
    fn failed(self, code: i32, words: &str) -> Self {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        assert!(self.err.contains(words), "\"{words}\" is not in: {}", self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }
}

/// Runs `gregor kafka` with these words.
fn gregor(words: &[&str]) -> Run {
    gregor_with(words, &[])
}

fn gregor_with(words: &[&str], environment: &[(&str, &str)]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gregor"));
    command.arg("kafka").args(words).env_remove("GREGOR_BOOTSTRAP").env_remove("GREGOR_PASSWORD");
    let output = command.envs(environment.iter().copied()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    let run = Run { code, out: text(output.stdout), err: text(output.stderr) };
    println!("$ gregor kafka {}\n{}{}[{code}]\n", words.join(" "), run.out, run.err);
    run
}

/// The real thing that the steps look at.
struct World {
    cluster: Cluster,
    admin: Admin,
    brokers: String,
    controllers: String,
}

impl World {
    async fn start() -> Self {
        let builder = Cluster::builder().controllers(3).brokers(3);
        let builder = builder.sasl_listeners(true).authorizer(true);
        let cluster = builder.broker_config("broker.rack", "r1").start().await.unwrap();
        let endpoints = |all: Vec<(String, u16)>| {
            all.into_iter().map(|(host, port)| Endpoint::new(host, port)).collect::<Vec<_>>()
        };
        let flag =
            |all: Vec<Endpoint>| all.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(",");
        let bootstrap = Bootstrap::Brokers(endpoints(cluster.bootstrap_brokers()));
        Self {
            admin: Admin::new(bootstrap, ClientOptions::default()).unwrap(),
            brokers: flag(endpoints(cluster.bootstrap_brokers())),
            controllers: flag(endpoints(cluster.bootstrap_controllers())),
            cluster,
        }
    }

    /// Runs a command through the brokers.
    fn ask(&self, words: &[&str]) -> Run {
        gregor(&[words, &["--bootstrap", &self.brokers]].concat())
    }

    /// Runs a command through the controllers.
    fn ask_controllers(&self, words: &[&str]) -> Run {
        gregor(&[words, &["--controllers", &self.controllers]].concat())
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.ask(&[words, &["-o", "json"]].concat()).ok()).unwrap()
    }

    fn directory_id(&self, id: i32) -> String {
        self.cluster.node(id).directory_id().unwrap()
    }

    /// Repeats a look at the cluster until it shows what it should.
    async fn until(&self, words: &[&str], shown: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..60 {
            let value = self.json(words);
            if shown(&value) {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        panic!("{words:?} never showed what it should");
    }
}

fn count(value: &Value) -> usize {
    value.as_array().unwrap().len()
}

fn name(text: &str) -> TopicName {
    TopicName::new(text).unwrap()
}

fn node(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

#[test]
fn a_wrong_command_line_is_told_in_one_sentence() {
    let rows: &[(&str, &str)] = &[
        ("quorum", "no cluster given: name brokers with --bootstrap HOST:PORT"),
        ("quorum --bootstrap a:1 --controllers b:1", "exclude each other"),
        ("quorum --bootstrap a:b", "is not HOST:PORT"),
        ("quorum --bootstrap a:1 --cert x", "--cert needs --key"),
        ("topics --controllers a:1", "controllers do not serve topics"),
        ("offsets --controllers a:1 x", "controllers do not serve offsets"),
        ("unregister-broker 1 --controllers a:1", "do not report whether broker 1 is alive"),
        ("elect-leaders --unclean a-0 --bootstrap a:1", "loses records: add --yes"),
        ("elect-leaders --bootstrap a:1", "TOPIC-PARTITION"),
        ("elect-leaders a --bootstrap a:1", "\"a\" is not TOPIC-PARTITION"),
        ("configs default --dry-run --bootstrap a:1", "--dry-run needs --set"),
        ("topics -o yaml --bootstrap a:1", "[possible values: table, json]"),
        ("remove-controller 1 --directory-id x", "\"x\" is not a directory id"),
    ];
    for (line, sentence) in rows {
        gregor(&line.split(' ').collect::<Vec<_>>()).failed(2, sentence);
    }
    let missing = ["quorum", "--bootstrap", "a:1", "--ca", "/does/not/exist"];
    gregor(&missing).failed(1, "cannot read /does/not/exist (--ca): No such file");
}

#[test]
fn a_port_where_nobody_listens_is_named() {
    let run = gregor(&["describe", "--bootstrap", "127.0.0.1:1", "--timeout", "1"]);
    let run = run.failed(1, "cannot connect to 127.0.0.1:1");
    assert!(run.err.contains("Connection refused"), "{}", run.err);
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
}

#[test]
fn every_command_has_help_with_an_example() {
    let top = gregor(&["--help"]).ok();
    assert!(top.contains("Exit codes:") && top.contains("3  a change was requested"), "{top}");
    let commands = top.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = commands.take_while(|line| !line.is_empty());
    let names = names.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<_> = names.filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names.len(), 16, "15 and help: {names:?}");
    for name in names.iter().filter(|name| **name != "help") {
        let help = gregor(&[name, "--help"]).ok();
        assert!(help.contains("Example"), "{help}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_tells_the_truth_about_a_real_cluster() {
    let world = World::start().await;
    describe(&world);
    quorum(&world);
    make_topics(&world).await;
    topics_and_offsets(&world).await;
    groups(&world).await;
    configs_of_topics(&world).await;
    configs_of_nodes(&world).await;
    features(&world);
    disks(&world);
    access(&world).await;
    logins(&world);
    a_reader_that_leaves(&world);
    a_broker_that_is_down(&world).await;
    unregister(&world).await;
    change_voters(&world).await;
    a_removal_that_would_stop_the_quorum(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_with_certificates_is_reached_with_the_right_ones_only() {
    let builder = Cluster::builder().combined(1).security(Security::Tls).authorizer(true);
    let cluster = builder.start().await.unwrap();
    let authority = cluster.tls().unwrap();
    let file = |name: &str, text: String| {
        let path = cluster.dir().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let identity = authority.client_certificate(TLS_SUPER_USER).unwrap();
    let foreign = Authority::new("foreign").unwrap();
    let (ca, other_ca) = (file("ca", authority.ca_pem()), file("other", foreign.ca_pem()));
    let (cert, key) = (file("cert", identity.certificate_pem), file("key", identity.key_pem));
    let host = cluster.node(200).host().to_owned();
    let ask_for = |timeout: &str, ca: &str, more: &[&str]| {
        let address = format!("{host}:9093");
        let words = ["quorum", "--controllers", &address, "--timeout", timeout, "--ca", ca];
        gregor(&[&words[..], more].concat())
    };
    let text = ask_for("30", &ca, &["--cert", &cert, "--key", &key]).ok();
    let ask = |ca: &str, more: &[&str]| ask_for("3", ca, more);
    assert!(text.contains("200  Leader") && text.contains("Voters:          1"), "{text}");
    ask(&other_ca, &["--cert", &cert, "--key", &key]).failed(1, "the TLS handshake failed");
    let named = ["--cert", &cert, "--key", &key, "--server-name", "somebody.else"];
    ask(&ca, &named).failed(1, "the TLS handshake failed");
    assert_eq!(ask(&ca, &[]).code, 1, "without a certificate nobody comes in");
    ask(&key, &[]).failed(1, "TLS cannot be set up from");
}

fn describe(world: &World) {
    let cluster = world.json(&["describe"]);
    assert_eq!(cluster["clusterId"], world.cluster.cluster_id());
    assert_eq!(count(&cluster["nodes"]), 3);
    let endpoint = format!("{}:9092", world.cluster.node(101).host());
    let expected = json!({"id": 101, "endpoint": endpoint, "rack": "r1", "fenced": false});
    assert_eq!(cluster["nodes"][1], expected);
    assert_eq!(cluster["kraftVersion"], 1);
    assert_eq!(cluster["partitions"]["offline"], 0);
    let text = world.ask(&["describe"]).ok();
    assert!(text.contains(world.cluster.cluster_id()) && text.contains("(of 3 voters)"), "{text}");
    let text = world.ask_controllers(&["describe"]).ok();
    assert!(text.contains("The controllers that are registered:\nID  HOST:PORT"), "{text}");
}

fn quorum(world: &World) {
    for flags in [["--bootstrap", &world.brokers], ["--controllers", &world.controllers]] {
        let text = gregor(&[&["quorum", "-o", "json"], &flags[..]].concat()).ok();
        let quorum: Value = serde_json::from_str(&text).unwrap();
        let voters = quorum["voters"].as_array().unwrap();
        let ids: Vec<_> = voters.iter().map(|v| v["directoryId"].as_str().unwrap()).collect();
        assert_eq!(ids, [0, 1, 2].map(|id| world.directory_id(id)));
        let leaders: Vec<_> = voters.iter().filter(|v| v["status"] == "Leader").collect();
        assert_eq!((leaders.len(), &leaders[0]["id"]), (1, &quorum["leader"]));
        assert_eq!((&quorum["dynamic"], &quorum["leaderIsVoter"]), (&json!(true), &json!(true)));
        let host = world.cluster.node(0).host().to_owned();
        assert_eq!(voters[0]["endpoints"], json!([format!("CONTROLLER://{host}:9093")]));
        let observers = quorum["observers"].as_array().unwrap();
        let ids: Vec<_> = observers.iter().map(|o| o["id"].as_i64().unwrap()).collect();
        assert_eq!(ids, [100, 101, 102]);
        assert!(observers.iter().all(|o| o["silent"] == false), "{text}");
    }
    let text = world.ask(&["quorum"]).ok();
    assert!(text.contains("Voters:          3, dynamic (kraft.version 1)"), "{text}");
    assert!(text.contains(&world.directory_id(102)) && text.contains(" s ago"), "{text}");
}

/// `orders` on all brokers with 600 records, `pair` on 100 and 101, `single` on 102 alone.
async fn make_topics(world: &World) {
    let orders = NewTopic::new(name("orders"), 6, 3).with_config("min.insync.replicas", "3");
    let on = |topic, ids: &[i32]| {
        let layout = Layout::Assigned(vec![ids.iter().copied().map(node).collect()]);
        NewTopic { name: name(topic), layout, configs: BTreeMap::new() }
    };
    let topics = [orders, on("pair", &[100, 101]), on("single", &[102])];
    let results = world.admin.create_topics(&topics, false).await.unwrap();
    assert!(results.values().all(Result::is_ok), "{results:?}");
    let properties = format!("bootstrap.servers={}", world.brokers);
    let words = ["--topic", "orders", "--num-records", "600", "--record-size", "10"];
    let words = [&words[..], &["--throughput", "-1", "--producer-props", &properties]].concat();
    world.cluster.run_tool("org.apache.kafka.tools.ProducerPerformance", &words).await.unwrap();
}

async fn topics_and_offsets(world: &World) {
    let topics = world.until(&["topics"], |topics| topics[2]["name"] == "single").await;
    assert_eq!(topics[0]["name"], "orders");
    assert_eq!(topics[0]["minInsyncReplicas"], 3);
    assert_eq!(topics[0]["replicationFactorMin"], 3);
    let health = json!({"partitions": 6, "underReplicated": 0, "underMinIsr": 0, "offline": 0,
                        "reassigning": 0});
    assert_eq!(topics[0]["health"], health);
    let text = world.ask(&["topics", "orders"]).ok();
    assert_eq!(text.lines().nth(1).unwrap().split_whitespace().count(), 7, "{text}");
    let partitions = world.json(&["topics", "single", "--partitions"]);
    assert_eq!(partitions[0]["partitions"][0]["replicas"], json!([102]));
    let none = world.ask(&["topics", "--unhealthy"]);
    assert_eq!((none.code, none.out.as_str()), (0, ""));
    assert!(none.err.contains("no topic is in trouble"), "{}", none.err);
    let run = world.ask(&["topics", "orders", "nothing"]);
    let run = run.failed(1, "topic nothing: UNKNOWN_TOPIC_OR_PARTITION (3)");
    assert!(run.out.contains("orders"), "{}", run.out);

    let offsets = world.json(&["offsets", "orders"]);
    let counts = offsets.as_array().unwrap().iter().map(|one| one["count"].as_u64().unwrap());
    assert_eq!((counts.len(), counts.sum::<u64>()), (6, 600));
    let text = world.ask(&["offsets", "single"]).ok();
    assert!(text.contains("single  0          0         0       0      -"), "{text}");
}

/// The topic `orders` has 600 records in six partitions.
async fn groups(world: &World) {
    assert!(world.ask(&["groups"]).err.contains("there are no groups"));
    let ask = |words: &[&str]| world.ask(&[&["groups"], words].concat());
    let reset = ["reset-offsets", "billing", "--topic", "orders"];
    let dry = ask(&[&reset[..], &["--to-earliest"]].concat());
    assert!(dry.err.contains("dry run: nothing was committed"), "{}", dry.err);
    assert!(dry.ok().contains("orders  0          -          0    no"));
    ask(&["describe", "billing"]).failed(1, "there is no such group");
    let done: Value = serde_json::from_str(
        &ask(&[&reset[..], &["--to-earliest", "--execute", "-o", "json"]].concat()).ok(),
    )
    .unwrap();
    assert_eq!((count(&done), &done[0]["applied"]), (6, &json!(true)));
    let described = world.json(&["groups", "describe", "billing"]);
    assert_eq!((&described[0]["lag"], &described[0]["members"]), (&json!(600), &json!(0)));
    let all = ["reset-offsets", "billing", "--all-topics", "--to-latest", "--execute"];
    ask(&all).ok();
    assert_eq!(world.json(&["groups", "describe", "billing"])[0]["lag"], 0);
    ask(&[&reset[..], &["--shift-by", "-10", "--execute"]].concat()).ok();
    // Not every partition need have ten records.
    let lag = world.json(&["groups", "describe", "billing"])[0]["lag"].as_u64().unwrap();
    assert!((1..=60).contains(&lag), "{lag}");
    let listed = world.json(&["groups"]);
    assert_eq!((&listed[0]["group"], &listed[0]["type"]), (&json!("billing"), &json!("classic")));
    ask(&reset).failed(2, "--to-earliest");
    let deleted = ask(&["delete", "billing", "nobody"]).failed(1, "1 of 2 groups were not deleted");
    assert!(deleted.out.contains("billing  yes"), "{}", deleted.out);
    assert_eq!(world.json(&["groups"]), json!([]));
}

async fn configs_of_topics(world: &World) {
    let show = ["configs", "topic", "orders"];
    let own = world.json(&show);
    assert_eq!(settings_from(&own, "topic"), 1, "{own}");
    assert_eq!(settings_from(&own, "built-in"), 0, "{own}");
    let change = ["configs", "topic", "orders", "--set", "retention.ms=7200000"];
    let text = world.ask(&[&change[..], &["--dry-run"]].concat()).ok();
    assert!(text.contains("nothing was changed"), "{text}");
    assert_eq!(settings_from(&world.json(&show), "topic"), 1);
    world.ask(&change).ok();
    world.until(&show, |value| settings_from(value, "topic") == 2).await;
    world.ask(&["configs", "topic", "orders", "--delete", "retention.ms"]).ok();
    world.until(&show, |value| settings_from(value, "topic") == 1).await;
    let wrong = ["configs", "topic", "orders", "--set", "no.such.thing=1"];
    world.ask(&wrong).failed(1, "no.such.thing");
    world.ask(&["configs", "topic", "nothing"]).failed(1, "configuration of topic nothing");
}

async fn configs_of_nodes(world: &World) {
    world.ask(&["configs", "default", "--set", "log.flush.interval.messages=12345"]).ok();
    // Kafka itself has one there: min.insync.replicas, since it keeps eligible leaders.
    let set = |value: &Value| settings_from(value, "default") == 2;
    world.until(&["configs", "default"], set).await;
    let node = world.until(&["configs", "node", "100"], set).await;
    let settings = node["settings"].as_array().unwrap();
    let rack = settings.iter().find(|one| one["name"] == "broker.rack").unwrap();
    let expected = json!({"name": "broker.rack", "value": "r1", "source": "file",
                          "readOnly": true, "sensitive": false});
    assert_eq!(rack, &expected);
    let all = world.ask(&["configs", "node", "100", "--all"]).ok();
    assert!(all.lines().count() > 200 && all.contains("***"), "{} lines", all.lines().count());
    world.ask(&["configs", "default", "--delete", "log.flush.interval.messages"]).ok();
    world.ask(&["configs", "node", "7"]).failed(1, "no node 7 among its brokers");
    let controller = world.ask_controllers(&["configs", "node", "1"]).ok();
    assert!(controller.contains("controller.listener.names"), "{controller}");
    let read_only = ["configs", "node", "1", "--set", "node.id=5"];
    world.ask_controllers(&read_only).failed(1, "can be changed only in its file");
}

fn settings_from(value: &Value, source: &str) -> usize {
    let settings = value["settings"].as_array().unwrap();
    settings.iter().filter(|one| one["source"] == source).count()
}

fn features(world: &World) {
    let features = world.json(&["features"]);
    let all = features["features"].as_array().unwrap();
    let metadata = all.iter().find(|one| one["name"] == "metadata.version").unwrap();
    assert_eq!(metadata["finalized"], metadata["supportedMax"]);
    let text = world.ask(&["features"]).ok();
    assert!(text.contains("kraft.version") && text.contains("0 to 1"), "{text}");
    let level = (metadata["supportedMax"].as_i64().unwrap() + 50).to_string();
    world.ask(&["features", "set", "metadata.version", &level]).failed(1, "cannot be at level");
    let level = metadata["finalized"].to_string();
    let same = ["features", "set", "metadata.version", &level, "--dry-run"];
    assert!(world.ask(&same).ok().contains("nothing was changed"));
}

fn disks(world: &World) {
    let brokers = world.json(&["log-dirs"]);
    assert_eq!(count(&brokers), 3);
    let dir = &brokers[2]["dirs"][0];
    assert_eq!(dir["path"], world.cluster.node(102).log_dirs()[0].display().to_string());
    assert!(dir["replicas"].as_u64().unwrap() >= 7 && dir["sizeBytes"].as_u64().unwrap() > 0);
    assert_eq!(dir["error"], Value::Null);
    let text = world.ask(&["log-dirs", "--node", "101"]).ok();
    assert_eq!(text.lines().count(), 2, "{text}");
    world.ask(&["log-dirs", "--node", "7"]).failed(1, "1 of 1 brokers did not answer");
}

async fn access(world: &World) {
    assert_eq!(world.json(&["acls"]), json!([]));
    assert_eq!(world.json(&["users"]), json!([]));
    let rule = Acl {
        resource: AclResource::Topic,
        name: "orders".to_owned(),
        pattern: AclPattern::Literal,
        principal: "User:alice".to_owned(),
        host: "*".to_owned(),
        operation: AclOperation::Read,
        permission: AclPermission::Allow,
    };
    world.admin.create_acls(&[rule]).await.unwrap()[0].as_ref().unwrap();
    world.admin.set_scram_password("carol", &Secret::new("carol-secret")).await.unwrap();
    let rules = world.until(&["acls"], |rules| rules[0]["principal"] == "User:alice").await;
    assert_eq!((&rules[0]["operation"], &rules[0]["resource"]), (&json!("Read"), &json!("Topic")));
    let text = world.ask_controllers(&["acls"]).ok();
    assert!(text.contains("User:alice  Allow       Read       Topic"), "{text}");
    let users = world.until(&["users"], |users| users[0]["name"] == "carol").await;
    assert_eq!(users[0]["scramSha512Iterations"], 8192);
    let text = world.ask(&["users"]).ok();
    assert!(text.contains("carol  8192"), "{text}");
}

fn logins(world: &World) {
    let (host, port) = world.cluster.bootstrap_sasl().remove(0);
    let sasl = format!("{host}:{port}");
    let file = world.cluster.dir().join("password");
    fs::write(&file, "admin-secret\n").unwrap();
    let file = file.display().to_string();
    let login = ["topics", "--bootstrap", &sasl, "--sasl", "plain", "--user", "admin"];
    let run = gregor(&[&login[..], &["--password-file", &file]].concat());
    assert!(run.ok().contains("orders"));
    let wrong = gregor_with(&login, &[("GREGOR_PASSWORD", "wrong")]);
    wrong.failed(1, "authentication failed");

    let carol = ["describe", "--sasl", "scram-sha-512", "--user", "carol"];
    let environment = [("GREGOR_BOOTSTRAP", sasl.as_str()), ("GREGOR_PASSWORD", "carol-secret")];
    // She may log in and see the nodes, and has no right to look at the quorum.
    let run = gregor_with(&carol, &environment).failed(1, "the output is incomplete");
    assert!(run.out.contains(world.cluster.cluster_id()), "{}", run.out);
    assert!(run.out.contains("Quorum leader:     unknown"), "{}", run.out);
    assert!(run.err.contains("CLUSTER_AUTHORIZATION_FAILED"), "{}", run.err);
}

fn a_reader_that_leaves(world: &World) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gregor"));
    command.args(["kafka", "topics", "--partitions", "--bootstrap", &world.brokers]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), err.as_str()), (Some(0), ""));
}

async fn a_broker_that_is_down(world: &World) {
    world.cluster.node(102).kill().await.unwrap();
    let down = |value: &Value| value["nodes"][2]["fenced"] == true;
    world.until(&["describe"], down).await;
    let offline = |value: &Value| value["partitions"]["offline"] == 1;
    let cluster = world.until(&["describe"], offline).await;
    // Also `single`: the last replica in sync leaves that list too, and stays eligible to lead.
    assert_eq!(cluster["partitions"]["underMinIsr"], 7, "{cluster}");
    let bad = world.ask(&["topics", "--unhealthy", "--partitions"]).ok();
    assert_eq!(bad.lines().count(), 8, "{bad}");
    assert!(bad.contains("single  0          none    102"), "{bad}");
    let run = world.ask(&["log-dirs"]).failed(1, "1 of 3 brokers did not answer");
    assert!(run.out.contains("not asked: it is fenced"), "{}", run.out);
    let run = world.ask(&["offsets", "single", "--timeout", "2"]);
    let run = run.failed(1, "0 topics and 1 partitions");
    assert!(run.out.contains("LEADER_NOT_AVAILABLE"), "{}", run.out);
    let unclean = ["elect-leaders", "--unclean", "--yes", "single-0"];
    let run = world.ask(&unclean).failed(1, "1 of 1 partitions got no leader");
    assert!(run.out.contains("no-eligible-leader"), "{}", run.out);
    a_move_that_cannot_end(world).await;

    world.cluster.node(102).start().await.unwrap();
    world.cluster.wait_ready().await.unwrap();
    world.until(&["topics", "--unhealthy"], |topics| topics == &json!([])).await;
    let run = world.ask(&["elect-leaders", "--all"]);
    assert!(run.out.contains("elected") || run.err.contains("every partition"), "{run:?}");
    assert_eq!(run.code, 0);
}

/// A move to a broker that is down waits until somebody cancels it.
async fn a_move_that_cannot_end(world: &World) {
    let partition = TopicPartition::new(name("pair"), 0);
    let targets = BTreeMap::from([(partition, Some(vec![node(100), node(102)]))]);
    let results = world.admin.alter_reassignments(&targets, false).await.unwrap();
    assert!(results.values().all(Result::is_ok), "{results:?}");
    let moves = world.until(&["reassignments"], |moves| moves[0]["partition"] == 0).await;
    assert_eq!((&moves[0]["topic"], count(&moves)), (&json!("pair"), 1));
    assert_eq!((&moves[0]["adding"], &moves[0]["removing"]), (&json!([102]), &json!([101])));
    let text = world.ask(&["reassignments"]).ok();
    assert!(text.starts_with("TOPIC  PARTITION  REPLICAS"), "{text}");
    let two = world.ask(&["reassignments", "cancel", "orders-1", "pair-0"]);
    let two = two.failed(1, "1 of 2 moves were not cancelled");
    assert!(two.out.contains("NO_REASSIGNMENT_IN_PROGRESS (85)"), "{}", two.out);
    assert!(two.out.contains("pair    0          cancelled"), "{}", two.out);
    world.until(&["reassignments"], |moves| moves == &json!([])).await;
    assert_eq!(world.json(&["reassignments", "cancel", "--all"]), json!([]));
}

async fn unregister(world: &World) {
    let id = world.cluster.add_node(Role::Broker).await.unwrap();
    let text = id.to_string();
    let alive = |value: &Value| value["nodes"][3]["fenced"] == false;
    world.until(&["describe"], alive).await;
    world.ask(&["unregister-broker", &text]).failed(1, "and not fenced, so it is alive");
    world.cluster.node(id).stop().await.unwrap();
    let fenced = |value: &Value| value["nodes"][3]["fenced"] == true;
    world.until(&["describe"], fenced).await;
    let run = world.ask(&["unregister-broker", &text]);
    assert_eq!(run.out, "broker 103 is unregistered\n", "{}", run.err);
    world.until(&["describe"], |value| count(&value["nodes"]) == 3).await;
    world.ask(&["unregister-broker", &text]).failed(1, "broker 103 is not registered");
    let forced = ["unregister-broker", &text, "--force"];
    world.ask_controllers(&forced).failed(1, "broker 103 is not registered");
}

async fn change_voters(world: &World) {
    let id = world.cluster.add_node(Role::Controller).await.unwrap();
    let (id_text, directory) = (id.to_string(), world.directory_id(id));
    let listener = format!("controller://{}:9093", world.cluster.node(id).host());
    world.until(&["quorum"], |quorum| quorum["observers"][0]["id"] == id).await;
    let add = |directory: &str, more: &[&str]| {
        let words = ["add-controller", &id_text, "--directory-id", directory];
        world.ask(&[&words[..], &["--listener", &listener], more].concat())
    };
    // A directory id that nobody has looks to Kafka like a node that is behind.
    let wrong = add("AAAAAAAAAAAAAAAAAAAAZQ", &["--timeout", "4"]);
    let wrong = wrong.failed(3, "it is unknown whether controller 3 is a voter now");
    assert!(wrong.err.contains("no observer has the id 3"), "{}", wrong.err);
    assert!(wrong.out.contains("Before:") && wrong.out.contains("Now:"), "{}", wrong.out);

    let added: Value = serde_json::from_str(&add(&directory, &["-o", "json"]).ok()).unwrap();
    assert_eq!(added["outcome"], "done");
    assert_eq!(count(&added["before"]["voters"]), 3);
    let after = &added["after"]["voters"];
    assert_eq!((count(after), &after[3]["directoryId"]), (4, &json!(directory)));
    let twice = add(&directory, &[]).failed(1, "is a voter already");
    assert!(!twice.err.contains("no observer"), "{}", twice.err);

    let remove = |directory: &str| {
        world.ask_controllers(&["remove-controller", &id_text, "--directory-id", directory])
    };
    let other = world.directory_id(0);
    let sentence = format!("the voter 3 has the directory id {directory}, not {other}");
    remove(&other).failed(1, &sentence);
    let text = remove(&directory).ok();
    assert!(text.contains("Voters:          4") && text.contains("Voters:          3"), "{text}");
    remove(&directory).failed(1, "3 is not a voter");
    world.cluster.node(id).stop().await.unwrap();
    world.until(&["quorum"], |quorum| quorum["observers"][0]["silent"] == true).await;
}

async fn a_removal_that_would_stop_the_quorum(world: &World) {
    let leader = world.json(&["quorum"])["leader"].as_i64().unwrap();
    let others: Vec<i32> = (0..3).filter(|id| i64::from(*id) != leader).collect();
    world.cluster.node(others[0]).freeze().unwrap();
    // Longer than what counts as caught up.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (id, directory) = (others[1].to_string(), world.directory_id(others[1]));
    let run = world.ask(&["remove-controller", &id, "--directory-id", &directory]);
    run.failed(1, "of the 2 voters that would remain 1 are caught up and 2 must be");
    world.cluster.node(others[0]).thaw().unwrap();
    assert_eq!(count(&world.json(&["quorum"])["voters"]), 3);
}
