//! Kafka clusters from YAML: what is applied runs, serves clients, says how it is, and goes as it came.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod kafka;
mod up;

use std::fs;
use std::path::Path;

use kafka::{Ground, Place, wait_for};
use serde_json::Value;

fn example(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    fs::read_to_string(folder.join(name)).unwrap()
}

/// The properties of a client that trusts what the status publishes.
fn trusting(place: &Place<'_>, cluster: &str) -> String {
    let kafka = place.get("kafka", cluster);
    let listeners = kafka["status"]["listeners"].as_array().unwrap();
    let tls = listeners.iter().find(|one| one["name"] == "tls").unwrap();
    let pem = tls["certificates"][0].as_str().unwrap().trim().replace('\n', "\\n");
    format!("security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.certificates={pem}\n")
}

fn serves_clients(place: &Place<'_>) {
    let plain = place.bootstrap("my-cluster", "plain");
    place.produce_and_consume(&plain, "plain", "", 10_000);
    let tls = place.bootstrap("my-cluster", "tls");
    place.produce_and_consume(&tls, "tls", &trusting(place, "my-cluster"), 10_000);
}

/// A manifest with the pods, controllers and claims that it makes.
type Row = (&'static str, usize, usize, usize);

#[test]
fn examples_of_combined_nodes_become_clusters() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let single = folder.join("kafka-single-node.yaml");
    let ground = Ground::start(&["--nodes", "3", "-f", single.to_str().unwrap()]);
    // One came with `gregor up`, which says where its clients begin.
    let said = &ground.up.out;
    assert!(said.contains("my-cluster-kafka-bootstrap.default.svc:9092"), "{said}");
    let place = ground.place("default");
    is_as_written(&place, ("kafka-single-node.yaml", 1, 1, 1));
    a_template_reaches_no_further_than_the_namespace(&place);
    #[cfg(feature = "soak")]
    become_clusters(&ground, &[("kafka-dual-role.yaml", 3, 3, 3)]);
    ground.assert_operator_is_content();
}

#[test]
fn examples_of_controllers_and_brokers_become_clusters() {
    let ground = Ground::start(&["--nodes", "3"]);
    become_clusters(&ground, &[("kafka-jbod.yaml", 6, 3, 9)]);
    #[cfg(feature = "soak")]
    become_clusters(
        &ground,
        &[("kafka-ephemeral.yaml", 6, 3, 0), ("kafka-persistent.yaml", 6, 3, 6)],
    );
    ground.assert_operator_is_content();
}

/// Each serves clients, and leaves only what was asked for when it is deleted.
fn become_clusters(ground: &Ground, rows: &[Row]) {
    for (name, nodes, controllers, claims) in rows {
        println!("-- {name}");
        let place = ground.restricted_namespace(name.trim_end_matches(".yaml"));
        place.apply(&example(name));
        is_as_written(&place, (name, *nodes, *controllers, *claims));
        place.kubectl(&["delete", "kafka,kafkanodepool", "--all"]);
        leaves_only_claims(&place, *claims);
    }
}

fn is_as_written(place: &Place<'_>, (name, nodes, controllers, claims): Row) {
    let kafka = place.ready("my-cluster");
    assert_eq!(place.names("pods").len(), nodes, "{name}");
    assert_eq!(place.names("pvc").len(), claims, "{name}");
    is_dynamic(&kafka, controllers);
    warns_of_no_entity_operator(place);
    serves_clients(place);
}

/// The API server refuses volumes of the host, the operator refuses privileges, and the cluster that runs is
/// left as it is.
fn a_template_reaches_no_further_than_the_namespace(place: &Place<'_>) {
    let before = place.pods();
    let patch = |template: &str| {
        let patch = format!("{{\"spec\": {{\"template\": {template}}}}}");
        ["patch", "kafkanodepool", "dual-role", "--type=merge", "-p", &patch].map(str::to_owned)
    };
    let words = patch(r#"{"pod": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}}"#);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let why = place.ground.kubectl_refused(&[&["-n", &place.namespace], &words[..]].concat());
    assert!(why.contains("spec.template.pod.volumes[0]"), "{why}");
    let words = patch(r#"{"kafkaContainer": {"securityContext": {"privileged": true}}}"#);
    place.kubectl(&words.iter().map(String::as_str).collect::<Vec<_>>());
    wait_for(|| match place.condition("my-cluster", "NotReady") {
        Some((reason, _)) if reason == "ForbiddenSecurityContext" => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let (_, message) = place.condition("my-cluster", "NotReady").unwrap();
    let at =
        "KafkaNodePool dual-role spec.template.kafkaContainer.securityContext.privileged is true";
    assert!(message.contains(at), "{message}");
    assert_eq!(place.pods(), before);
    place.kubectl(&[
        "patch",
        "kafkanodepool",
        "dual-role",
        "--type=merge",
        "-p",
        r#"{"spec": {"template": null}}"#,
    ]);
    place.ready("my-cluster");
    assert_eq!(place.pods(), before);
}

/// The voters are those that the cluster was born with, with the disks that were chosen for them.
fn is_dynamic(kafka: &Value, controllers: usize) {
    let voters = kafka["status"]["controllers"].as_array().unwrap();
    assert_eq!(voters.len(), controllers);
    let initial = kafka["status"]["initialControllers"].as_str().unwrap();
    for voter in voters {
        let (id, directory) = (&voter["id"], voter["directoryId"].as_str().unwrap());
        let listed = initial.split(',').any(|one| {
            one.starts_with(&format!("{id}@")) && one.ends_with(&format!(":{directory}"))
        });
        assert!(listed, "{voter} is not in {initial}");
    }
}

fn warns_of_no_entity_operator(place: &Place<'_>) {
    let warned = place.get("kafka", "my-cluster")["status"]["conditions"].to_string();
    assert!(!warned.contains("entityOperator"), "{warned}");
}

fn leaves_only_claims(place: &Place<'_>, claims: usize) {
    let kinds =
        "pods,services,configmaps,secrets,serviceaccounts,strimzipodsets,networkpolicies,pdb";
    wait_for(|| {
        let left = place.names(kinds);
        let ours: Vec<_> = left.iter().filter(|name| name.starts_with("my-cluster")).collect();
        if ours.is_empty() { Ok(()) } else { Err(format!("{ours:?}")) }
    });
    assert_eq!(place.names("pvc").len(), claims);
    place.kubectl(&["delete", "pvc", "--all"]);
}
