//! Running cluster operators of Strimzi, by their pods and Deployments. Reads only.
//!
//! An operator that watches some namespaces sees those only: a Strimzi operator elsewhere is unknown to it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::names::KIND_LABEL;
use control::life::coexist::{Selector, Strimzi, Watched};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{EnvVar, Pod, PodSpec};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::Mutex;

use crate::context::Context;
use crate::install;

/// How long an observation is used. Passes of many clusters share it.
const AGE_MAX: Duration = Duration::from_secs(20);

/// The label of the operator's Deployment, in the files and the chart of Strimzi.
const DEPLOYMENT_LABEL: &str = "app=strimzi";
/// The namespaces that it watches.
const NAMESPACES: &str = "STRIMZI_NAMESPACE";
/// The labels of the resources that it manages. The name is also that of Gregor's own option.
pub const SELECTOR_VARIABLE: &str = "STRIMZI_CUSTOM_RESOURCE_SELECTOR";

/// The last observation. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observed(Arc<Mutex<Option<(Instant, Arc<[Strimzi]>)>>>);

/// Running operators of Strimzi; `None` if they are unknown.
pub(crate) async fn running(ctx: &Context) -> Option<Arc<[Strimzi]>> {
    // Held while it reads: others wait for the same answer.
    let mut last = ctx.strimzi.0.lock().await;
    if let Some((at, found)) = last.as_ref()
        && at.elapsed() < AGE_MAX
    {
        return Some(found.clone());
    }
    match read(&ctx.client, &ctx.settings.scopes()).await {
        Ok(found) => {
            let found: Arc<[Strimzi]> = found.into();
            *last = Some((Instant::now(), found.clone()));
            Some(found)
        }
        Err(error) => {
            *last = None;
            tracing::debug!("cannot list cluster operators of Strimzi: {error}");
            None
        }
    }
}

async fn read(client: &Client, scopes: &[Option<String>]) -> Result<Vec<Strimzi>, kube::Error> {
    let mut found = Vec::new();
    for scope in scopes {
        let (pods, deployments): (Api<Pod>, Api<Deployment>) = match scope {
            Some(namespace) => (
                Api::namespaced(client.clone(), namespace),
                Api::namespaced(client.clone(), namespace),
            ),
            None => (Api::all(client.clone()), Api::all(client.clone())),
        };
        let label = format!("{KIND_LABEL}=cluster-operator");
        let pods = pods.list(&ListParams::default().labels(&label)).await?;
        found.extend(pods.iter().filter_map(of_pod));
        let params = ListParams::default().labels(DEPLOYMENT_LABEL);
        let deployments = deployments.list(&params).await?;
        found.extend(deployments.iter().filter_map(of_deployment));
    }
    Ok(found)
}

/// A pod of an operator of Strimzi that has not ended. Gregor's own pods have the same label, for network policies.
fn of_pod(pod: &Pod) -> Option<Strimzi> {
    let name = pod.labels().get("app.kubernetes.io/name");
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let is_over = matches!(phase, Some("Succeeded" | "Failed"));
    let is_own = name.is_some_and(|name| name == install::NAME);
    let namespace = pod.namespace().unwrap_or_default();
    (!is_own && !is_over).then(|| of(&namespace, &pod.name_any(), pod.spec.as_ref()))
}

/// A Deployment of an operator of Strimzi that has replicas, if it is one.
fn of_deployment(deployment: &Deployment) -> Option<Strimzi> {
    let spec = deployment.spec.as_ref()?;
    let pod = spec.template.spec.as_ref();
    let is_one = variable(pod, NAMESPACES).is_some()
        || deployment.name_any().starts_with("strimzi-cluster-operator");
    let namespace = deployment.namespace().unwrap_or_default();
    (is_one && spec.replicas != Some(0)).then(|| of(&namespace, &deployment.name_any(), pod))
}

fn of(namespace: &str, name: &str, spec: Option<&PodSpec>) -> Strimzi {
    let selector = match variable(spec, SELECTOR_VARIABLE) {
        None => Some(Selector::default()),
        Some(variable) => match (&variable.value, &variable.value_from) {
            (Some(text), _) => text.parse().ok(),
            (None, None) => Some(Selector::default()),
            (None, Some(_)) => None,
        },
    };
    let watched = watched(variable(spec, NAMESPACES), namespace);
    Strimzi { name: format!("{namespace}/{name}"), watched, selector }
}

fn watched(variable: Option<&EnvVar>, own: &str) -> Watched {
    let Some(variable) = variable else { return Watched::All };
    let field = variable.value_from.as_ref().map(|from| from.field_ref.as_ref());
    match (variable.value.as_deref().map(str::trim), field) {
        (None | Some("" | "*"), None) => Watched::All,
        (Some(names), _) => {
            let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
            Watched::Some(names.map(str::to_owned).collect())
        }
        (None, Some(Some(field))) if field.field_path == "metadata.namespace" => {
            Watched::Some([own.to_owned()].into())
        }
        (None, Some(_)) => Watched::Unknown,
    }
}

/// An environment variable of a pod.
fn variable<'a>(spec: Option<&'a PodSpec>, name: &str) -> Option<&'a EnvVar> {
    let containers = spec.into_iter().flat_map(|spec| &spec.containers);
    containers.flat_map(|one| one.env.iter().flatten()).find(|one| one.name == name)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(labels: Value, phase: &str, env: Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "namespace": "s", "name": "o", "labels": labels },
            "spec": { "containers": [{ "name": "strimzi-cluster-operator", "env": env }] },
            "status": { "phase": phase },
        }))
        .unwrap()
    }

    fn namespaces(names: &[&str]) -> Watched {
        Watched::Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn namespaces_and_selector_are_read_from_the_environment() {
        let own = json!({ "fieldRef": { "fieldPath": "metadata.namespace" } });
        let other = json!({ "configMapKeyRef": { "name": "a", "key": "b" } });
        let all = || Some("".parse().unwrap());
        let rows = [
            (json!([]), Watched::All, all()),
            (json!([{ "name": NAMESPACES, "value": "*" }]), Watched::All, all()),
            (json!([{ "name": NAMESPACES, "value": "" }]), Watched::All, all()),
            (json!([{ "name": NAMESPACES }]), Watched::All, all()),
            (json!([{ "name": NAMESPACES, "value": "a, b" }]), namespaces(&["a", "b"]), all()),
            (json!([{ "name": NAMESPACES, "valueFrom": own }]), namespaces(&["s"]), all()),
            (json!([{ "name": NAMESPACES, "valueFrom": other }]), Watched::Unknown, all()),
            (
                json!([{ "name": SELECTOR_VARIABLE, "value": "o=s" }]),
                Watched::All,
                Some("o=s".parse().unwrap()),
            ),
            (json!([{ "name": SELECTOR_VARIABLE, "value": "o in (s)" }]), Watched::All, None),
            (json!([{ "name": SELECTOR_VARIABLE, "valueFrom": other }]), Watched::All, None),
        ];
        for (env, watched, selector) in rows {
            let found = of_pod(&pod(json!({}), "Running", env.clone())).unwrap();
            assert_eq!((found.watched, found.selector), (watched, selector), "{env}");
            assert_eq!(found.name, "s/o");
        }
    }

    #[test]
    fn pods_that_have_ended_and_those_of_gregor_do_not_count() {
        let rows = [
            (json!({}), "Running", true),
            (json!({}), "Pending", true),
            (json!({}), "Succeeded", false),
            (json!({}), "Failed", false),
            (json!({ "app.kubernetes.io/name": install::NAME }), "Running", false),
        ];
        for (labels, phase, expected) in rows {
            assert_eq!(
                of_pod(&pod(labels.clone(), phase, json!([]))).is_some(),
                expected,
                "{labels} {phase}"
            );
        }
    }

    #[test]
    fn deployments_count_while_they_have_replicas() {
        let deployment = |name: &str, replicas: Value, env: Value| -> Deployment {
            let spec = json!({ "containers": [{ "name": "o", "env": env }] });
            serde_json::from_value(json!({
                "metadata": { "namespace": "s", "name": name },
                "spec": { "replicas": replicas, "selector": {}, "template": { "spec": spec } },
            }))
            .unwrap()
        };
        let env = json!([{ "name": NAMESPACES, "value": "a" }]);
        let rows = [
            ("strimzi-cluster-operator", json!(1), json!([]), true),
            ("strimzi-cluster-operator-v1.2.0", Value::Null, json!([]), true),
            ("strimzi-cluster-operator", json!(0), json!([]), false),
            ("renamed", json!(1), env, true),
            // Drain cleaner and others of the same label.
            ("strimzi-drain-cleaner", json!(1), json!([]), false),
        ];
        for (name, replicas, env, expected) in rows {
            let found = of_deployment(&deployment(name, replicas.clone(), env));
            assert_eq!(found.is_some(), expected, "{name} {replicas}");
        }
    }
}
