//! Command and environment of a container. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, EnvFromSource, EnvVar, ObjectFieldSelector, Pod, ResourceFieldSelector,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::quantity;

/// Objects and values that a spec can refer to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Context {
    pub(crate) pod_ip: String,
    pub(crate) host_ip: String,
    /// The node's allocatable resources, for limits that are not set.
    pub(crate) allocatable: BTreeMap<String, Quantity>,
    pub(crate) config_maps: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) secrets: BTreeMap<String, BTreeMap<String, String>>,
    /// Variables that are set before anything else, such as `PATH`.
    pub(crate) base: Vec<(String, String)>,
}

/// Why an environment cannot be created, with the kubelet's messages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    #[error("configmap \"{0}\" not found")]
    ConfigMap(String),
    #[error("secret \"{0}\" not found")]
    Secret(String),
    #[error("couldn't find key {key} in ConfigMap {object}")]
    ConfigMapKey { key: String, object: String },
    #[error("couldn't find key {key} in Secret {object}")]
    SecretKey { key: String, object: String },
    #[error("fieldRef {0} is not supported")]
    Field(String),
    #[error("resourceFieldRef {0} is not valid")]
    Resource(String),
}

/// The ConfigMaps and Secrets that a container's environment refers to.
pub(crate) fn references(container: &Container) -> (Vec<String>, Vec<String>) {
    let (mut config_maps, mut secrets) = (Vec::new(), Vec::new());
    for source in container.env_from.iter().flatten() {
        config_maps.extend(source.config_map_ref.iter().map(|r| r.name.clone()));
        secrets.extend(source.secret_ref.iter().map(|r| r.name.clone()));
    }
    for source in container.env.iter().flatten().filter_map(|env| env.value_from.as_ref()) {
        config_maps.extend(source.config_map_key_ref.iter().map(|r| r.name.clone()));
        secrets.extend(source.secret_key_ref.iter().map(|r| r.name.clone()));
    }
    (config_maps, secrets)
}

/// The complete environment of a container, in order of definition.
pub(crate) fn environment(
    pod: &Pod,
    container: &Container,
    context: &Context,
) -> Result<Vec<(String, String)>, Error> {
    let mut env = Env(context.base.clone());
    for source in container.env_from.iter().flatten() {
        for (name, value) in from_source(source, context)? {
            env.set(name, value);
        }
    }
    for variable in container.env.iter().flatten() {
        if let Some(value) = value(pod, container, variable, context, &env)? {
            env.set(variable.name.clone(), value);
        }
    }
    Ok(env.0)
}

/// Program and arguments. A container's command replaces that of the image, and its arguments replace those
/// of the command.
pub(crate) fn argv(
    container: &Container,
    image: &[String],
    env: &[(String, String)],
) -> Vec<String> {
    let expanded = |words: &Option<Vec<String>>| -> Vec<String> {
        words.iter().flatten().map(|word| expand(word, &|name| get(env, name))).collect()
    };
    let command = expanded(&container.command);
    let mut argv = if command.is_empty() { image.to_vec() } else { command };
    argv.extend(expanded(&container.args));
    argv
}

#[derive(Debug)]
struct Env(Vec<(String, String)>);

impl Env {
    fn set(&mut self, name: String, value: String) {
        self.0.retain(|(other, _)| *other != name);
        self.0.push((name, value));
    }
}

fn get(env: &[(String, String)], name: &str) -> Option<String> {
    env.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone())
}

fn from_source(source: &EnvFromSource, context: &Context) -> Result<Vec<(String, String)>, Error> {
    let (name, optional, objects, error): (_, _, _, fn(String) -> Error) =
        match (&source.config_map_ref, &source.secret_ref) {
            (Some(r), _) => (&r.name, r.optional, &context.config_maps, Error::ConfigMap),
            (None, Some(r)) => (&r.name, r.optional, &context.secrets, Error::Secret),
            (None, None) => return Ok(Vec::new()),
        };
    let Some(data) = objects.get(name) else {
        return if optional == Some(true) { Ok(Vec::new()) } else { Err(error(name.clone())) };
    };
    let prefix = source.prefix.as_deref().unwrap_or("");
    Ok(data.iter().map(|(key, value)| (format!("{prefix}{key}"), value.clone())).collect())
}

/// The value of a variable; `None` if it refers to something missing and optional.
fn value(
    pod: &Pod,
    container: &Container,
    variable: &EnvVar,
    context: &Context,
    env: &Env,
) -> Result<Option<String>, Error> {
    let Some(source) = &variable.value_from else {
        let text = variable.value.as_deref().unwrap_or("");
        return Ok(Some(expand(text, &|name| get(&env.0, name))));
    };
    if let Some(field) = &source.field_ref {
        return field_value(pod, field, context).map(Some);
    }
    if let Some(resource) = &source.resource_field_ref {
        return resource_value(pod, container, resource, context).map(Some);
    }
    if let Some(r) = &source.config_map_key_ref {
        let object = context.config_maps.get(&r.name);
        let missing = || match object {
            None => Error::ConfigMap(r.name.clone()),
            Some(_) => Error::ConfigMapKey { key: r.key.clone(), object: r.name.clone() },
        };
        return found(object.and_then(|data| data.get(&r.key)), r.optional, missing);
    }
    if let Some(r) = &source.secret_key_ref {
        let object = context.secrets.get(&r.name);
        let missing = || match object {
            None => Error::Secret(r.name.clone()),
            Some(_) => Error::SecretKey { key: r.key.clone(), object: r.name.clone() },
        };
        return found(object.and_then(|data| data.get(&r.key)), r.optional, missing);
    }
    Ok(Some(String::new()))
}

fn found(
    value: Option<&String>,
    optional: Option<bool>,
    missing: impl FnOnce() -> Error,
) -> Result<Option<String>, Error> {
    match value {
        Some(value) => Ok(Some(value.clone())),
        None if optional == Some(true) => Ok(None),
        None => Err(missing()),
    }
}

/// A field of the pod, in the format of the downward API.
pub(crate) fn field_value(
    pod: &Pod,
    field: &ObjectFieldSelector,
    context: &Context,
) -> Result<String, Error> {
    let (meta, path) = (&pod.metadata, field.field_path.as_str());
    let spec = |get: fn(&k8s_openapi::api::core::v1::PodSpec) -> &Option<String>| {
        pod.spec.as_ref().and_then(|spec| get(spec).clone()).unwrap_or_default()
    };
    if let Some((map, key)) = path.strip_suffix("']").and_then(|path| path.split_once("['")) {
        let map = match map {
            "metadata.labels" => &meta.labels,
            "metadata.annotations" => &meta.annotations,
            _ => return Err(Error::Field(path.to_owned())),
        };
        return Ok(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default());
    }
    Ok(match path {
        "metadata.name" => meta.name.clone().unwrap_or_default(),
        "metadata.namespace" => meta.namespace.clone().unwrap_or_default(),
        "metadata.uid" => meta.uid.clone().unwrap_or_default(),
        "metadata.labels" => lines(meta.labels.as_ref()),
        "metadata.annotations" => lines(meta.annotations.as_ref()),
        "spec.nodeName" => spec(|spec| &spec.node_name),
        "spec.serviceAccountName" => spec(|spec| &spec.service_account_name),
        "status.podIP" | "status.podIPs" => context.pod_ip.clone(),
        "status.hostIP" | "status.hostIPs" => context.host_ip.clone(),
        other => return Err(Error::Field(other.to_owned())),
    })
}

/// `key="value"` lines, sorted.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let lines = map.into_iter().flatten().map(|(key, value)| format!("{key}={value:?}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// A request or limit of a container. An unset limit is the node's allocatable amount.
pub(crate) fn resource_value(
    pod: &Pod,
    container: &Container,
    selector: &ResourceFieldSelector,
    context: &Context,
) -> Result<String, Error> {
    let nonsense = || Error::Resource(selector.resource.clone());
    let spec = pod.spec.as_ref();
    let named = selector.container_name.as_deref().unwrap_or(&container.name);
    let all = spec
        .into_iter()
        .flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
    let container = all.into_iter().find(|c| c.name == named).unwrap_or(container);
    let resources = container.resources.clone().unwrap_or_default();
    let (kind, name) = selector.resource.split_once('.').ok_or_else(nonsense)?;
    let set = match kind {
        "limits" => resources.limits.and_then(|limits| limits.get(name).cloned()),
        "requests" => resources.requests.and_then(|requests| requests.get(name).cloned()),
        _ => return Err(nonsense()),
    };
    let default = || {
        let zero = Quantity("0".to_owned());
        if kind == "limits" { context.allocatable.get(name).cloned().unwrap_or(zero) } else { zero }
    };
    let milli = quantity::parse_milli(&set.unwrap_or_else(default).0).ok_or_else(nonsense)?;
    let divisor = selector.divisor.as_ref().map_or("1", |divisor| divisor.0.as_str());
    quantity::in_units_of(milli, divisor).map(|value| value.to_string()).ok_or_else(nonsense)
}

/// Replaces `$(NAME)` with its value if there is one; `$$` is an escaped `$`.
pub(crate) fn expand(text: &str, get: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|r| r.split_once(')')) {
            out.push_str(&get(name).unwrap_or_else(|| format!("$({name})")));
            rest = after;
        } else {
            out.push('$');
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn variables_are_expanded_as_kubernetes_does() {
        let get = |name: &str| (name == "A").then(|| "x".to_owned());
        #[rustfmt::skip]
        let table = [
            ("$(A)", "x"), ("-$(A)-$(A)-", "-x-x-"), ("$(B)", "$(B)"), ("$$(A)", "$(A)"), ("$$$(A)", "$x"),
            ("$A", "$A"), ("$", "$"), ("$(A", "$(A"), ("$()", "$()"), ("", ""), ("$$", "$"), ("ü$(A)ü", "üxü"),
        ];
        for (text, expected) in table {
            assert_eq!(expand(text, &get), expected, "{text}");
        }
    }

    fn pod(container: serde_json::Value) -> (Pod, Container) {
        let mut all = json!({ "name": "c", "image": "i" });
        all.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "p", "namespace": "n", "uid": "u", "labels": { "a": "1", "b": "2\"" } },
            "spec": { "nodeName": "node", "serviceAccountName": "sa", "containers": [all] },
        }))
        .unwrap();
        let container = pod.spec.clone().unwrap().containers.remove(0);
        (pod, container)
    }

    fn context() -> Context {
        let data = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
        };
        Context {
            pod_ip: "127.1.0.2".into(),
            host_ip: "127.0.0.9".into(),
            allocatable: [("cpu".to_owned(), Quantity("4".into()))].into(),
            config_maps: [("cm".to_owned(), data(&[("K", "v"), ("L", "w")]))].into(),
            secrets: [("s".to_owned(), data(&[("P", "q")]))].into(),
            base: vec![("PATH".into(), "/bin".into())],
        }
    }

    fn env_of(container: serde_json::Value) -> Result<String, Error> {
        let (pod, container) = pod(container);
        let env = environment(&pod, &container, &context())?;
        let pairs = env.into_iter().filter(|(name, _)| name != "PATH");
        Ok(pairs.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" "))
    }

    fn from(source: serde_json::Value) -> serde_json::Value {
        json!({ "env": [{ "name": "A", "valueFrom": source }] })
    }

    #[test]
    fn values_come_from_everywhere() {
        let field = |path: &str| from(json!({ "fieldRef": { "fieldPath": path } }));
        #[rustfmt::skip]
        let table = [
            (json!({ "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "$(A)$(C)" }] }), "A=1 B=1$(C)"),
            (json!({ "env": [{ "name": "A", "value": "1" }, { "name": "A", "value": "2$(A)" }] }), "A=21"),
            (field("metadata.name"), "A=p"), (field("metadata.namespace"), "A=n"), (field("metadata.uid"), "A=u"),
            (field("metadata.labels['a']"), "A=1"), (field("metadata.annotations['x']"), "A="),
            (field("spec.nodeName"), "A=node"), (field("spec.serviceAccountName"), "A=sa"),
            (field("status.podIP"), "A=127.1.0.2"), (field("status.hostIP"), "A=127.0.0.9"),
            (from(json!({ "configMapKeyRef": { "name": "cm", "key": "K" } })), "A=v"),
            (from(json!({ "configMapKeyRef": { "name": "no", "key": "K", "optional": true } })), ""),
            (from(json!({ "secretKeyRef": { "name": "s", "key": "P" } })), "A=q"),
            (from(json!({ "resourceFieldRef": { "resource": "limits.cpu", "divisor": "1m" } })), "A=4000"),
            (from(json!({ "resourceFieldRef": { "resource": "requests.memory" } })), "A=0"),
            (json!({ "envFrom": [{ "prefix": "X_", "configMapRef": { "name": "cm" } }, { "secretRef": { "name": "s" } }] }),
                "X_K=v X_L=w P=q"),
            (json!({ "envFrom": [{ "configMapRef": { "name": "cm" } }], "env": [{ "name": "K", "value": "mine" }] }), "L=w K=mine"),
            (json!({ "envFrom": [{ "secretRef": { "name": "no", "optional": true } }] }), ""),
        ];
        for (container, expected) in table {
            assert_eq!(env_of(container.clone()).as_deref(), Ok(expected), "{container}");
        }
    }

    #[test]
    fn what_is_missing_is_said_in_a_kubelets_words() {
        #[rustfmt::skip]
        let table = [
            (from(json!({ "configMapKeyRef": { "name": "no", "key": "K" } })), "configmap \"no\" not found"),
            (from(json!({ "configMapKeyRef": { "name": "cm", "key": "no" } })), "couldn't find key no in ConfigMap cm"),
            (from(json!({ "secretKeyRef": { "name": "s", "key": "no" } })), "couldn't find key no in Secret s"),
            (json!({ "envFrom": [{ "secretRef": { "name": "no" } }] }), "secret \"no\" not found"),
            (from(json!({ "fieldRef": { "fieldPath": "spec.no" } })), "fieldRef spec.no is not supported"),
        ];
        for (container, expected) in table {
            assert_eq!(env_of(container.clone()).unwrap_err().to_string(), expected, "{container}");
        }
    }

    #[test]
    fn whole_maps_are_lines_in_order() {
        let (pod, _) = pod(json!({}));
        let field = ObjectFieldSelector { field_path: "metadata.labels".into(), api_version: None };
        assert_eq!(field_value(&pod, &field, &context()).unwrap(), "a=\"1\"\nb=\"2\\\"\"");
    }

    #[test]
    fn a_command_replaces_that_of_the_image_and_arguments_follow() {
        let env = [("A".to_owned(), "x".to_owned())];
        let image = ["prog".to_owned(), "first".to_owned()];
        let check = |container: serde_json::Value, expected: &[&str]| {
            assert_eq!(argv(&pod(container).1, &image, &env), expected);
        };
        check(json!({}), &["prog", "first"]);
        check(json!({ "args": ["$(A)"] }), &["prog", "first", "x"]);
        check(json!({ "command": ["c", "$(A)"], "args": ["$(B)"] }), &["c", "x", "$(B)"]);
    }
}
