//! The installation as people make it: with Helm, and with kubectl, on a real API server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use artifacts::kubernetes::{self, Program};
use artifacts::{Environment, Silent};
use local::control_plane::{ControlPlane, Options};
use serde_json::Value;

fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/helm/gregor")
}

/// A program's output, which must not be an error.
#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Helm, without the user's own settings.
fn helm(home: &Path) -> Command {
    let mut command = Command::new(testkit::tool("helm").join("bin/helm"));
    for (name, dir) in
        [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "data")]
    {
        command.env(name, home.join(dir));
    }
    command
}

fn gregor(words: &[&str]) -> String {
    run(Command::new(env!("CARGO_BIN_EXE_gregor")).args(words))
}

/// The objects of a manifest, by kind, namespace and name.
fn objects(yaml: &str) -> BTreeMap<(String, String, String), Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let objects: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap();
    let named = objects.into_iter().filter(|object| !object.is_null()).map(|object| {
        let metadata = &object["metadata"];
        ((text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"])), object)
    });
    named.collect()
}

#[track_caller]
fn check_same(rendered: &str, printed: &str) {
    let (rendered, mut printed) = (objects(rendered), objects(printed));
    // Helm makes the namespace itself.
    printed.retain(|(kind, _, _), _| kind != "Namespace");
    assert_eq!(rendered.keys().collect::<Vec<_>>(), printed.keys().collect::<Vec<_>>());
    for (name, object) in &printed {
        assert_eq!(&rendered[name], object, "{name:?}");
    }
}

#[test]
fn the_chart_says_what_gregor_install_prints() {
    let temp = tempfile::tempdir().unwrap();
    let chart = chart();
    run(helm(temp.path()).args(["lint", "--strict"]).arg(&chart));
    let template = |words: &[&str]| {
        let mut command = helm(temp.path());
        command.args(["template", "gregor"]).arg(&chart).arg("--include-crds").args(words);
        // Not stamped into a Helm that was built from its module.
        command.args(["--kube-version", kubernetes::VERSION]);
        run(&mut command)
    };
    check_same(&template(&["--namespace=gregor"]), &gregor(&["install"]));
    let values = temp.path().join("values.yaml");
    std::fs::write(
        &values,
        "image: example.org/o:2\nreplicas: 3\nwatchNamespaces: [team-a, team-b]\n\
         kafkaImages: {4.1.2: null, 4.3.1: example.org/k:2}\noperationTimeoutMs: 600000\nselector: stage=test,team=a\n",
    )
    .unwrap();
    let rendered = template(&["--namespace=ops", "--values", values.to_str().unwrap()]);
    let printed = gregor(&[
        "install",
        "--namespace=ops",
        "--image=example.org/o:2",
        "--kafka-image=4.3.1=example.org/k:2",
        "--watch-namespaces=team-a,team-b",
        "--replicas=3",
        "--operation-timeout-ms=600000",
        "--selector=team=a,stage=test",
    ]);
    check_same(&rendered, &printed);
    // A private registry is named once.
    for registry in ["r.example.org:5000/kafka", "r.example.org:5000/kafka/"] {
        let set = format!("--set=imageRegistry={registry}");
        let rendered = template(&["--namespace=gregor", &set]);
        let printed = gregor(&["install", "--image-registry", registry]);
        check_same(&rendered, &printed);
        let ours = "r.example.org:5000/kafka/gregor-";
        assert_eq!(rendered.matches(ours).count(), 3, "{rendered}");
        assert_eq!(rendered.replace(ours, "").matches("gregor-kafka:").count(), 0, "{rendered}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_server_takes_it_from_kubectl_and_from_helm() {
    let binaries = kubernetes::ensure(&Environment::from_process(), None, &Silent).unwrap();
    let temp = tempfile::tempdir().unwrap();
    let kubectl = binaries.program(Program::Kubectl);
    let options = Options::for_test(temp.path().join("state"), binaries);
    let plane = ControlPlane::start(options, |_| {}).await.unwrap();
    let kubeconfig = plane.kubeconfig_path();
    let kubectl = |words: &[&str]| {
        let mut command = Command::new(&kubectl);
        command.arg("--kubeconfig").arg(&kubeconfig);
        command.arg("--cache-dir").arg(temp.path().join("kubectl")).args(words);
        run(&mut command)
    };
    let file = temp.path().join("install.yaml");
    std::fs::write(&file, gregor(&["install"])).unwrap();
    let file = file.to_str().unwrap();
    for mode in ["--server-side=true", "--server-side=false"] {
        kubectl(&["apply", mode, "--validate=strict", "-f", file]);
        let again = kubectl(&["get", "-f", file, "-o", "name"]);
        assert!(again.contains("deployment.apps/gregor-operator"), "{again}");
        kubectl(&["delete", "-f", file, "--wait"]);
    }
    let mut install = helm(temp.path());
    install.args(["install", "gregor"]).arg(chart()).arg("--kubeconfig").arg(&kubeconfig);
    run(install.args(["--namespace=gregor", "--create-namespace"]));
    let found = kubectl(&["get", "deployments,crds", "-n", "gregor", "-o", "name"]);
    assert_eq!(found.lines().count(), 7, "one Deployment and six definitions: {found}");
    // An older definition stays when the chart is upgraded, until the step of docs/upgrading.md is done.
    const KAFKAS: &str = "kafkas.kafka.strimzi.io";
    const FIELD: &str =
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/maintenanceTimeWindows";
    let has_field = || {
        let text = kubectl(&["get", "crd", KAFKAS, "-o", "json"]);
        let definition: Value = serde_json::from_str(&text).unwrap();
        definition.pointer(FIELD).is_some()
    };
    let older = format!(r#"[{{"op":"remove","path":"{FIELD}"}}]"#);
    kubectl(&["patch", "crd", KAFKAS, "--type=json", "-p", &older]);
    let mut upgrade = helm(temp.path());
    upgrade.args(["upgrade", "gregor"]).arg(chart()).arg("--kubeconfig").arg(&kubeconfig);
    run(upgrade.arg("--namespace=gregor"));
    assert!(!has_field(), "Helm upgrades definitions: the step is not needed any more");
    let file = temp.path().join("crds.yaml");
    std::fs::write(&file, gregor(&["crds"])).unwrap();
    kubectl(&["apply", "--server-side", "--force-conflicts", "-f", file.to_str().unwrap()]);
    assert!(has_field());
}
