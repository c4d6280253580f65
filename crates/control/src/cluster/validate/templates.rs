//! Parts of pod templates that are passed on to Kubernetes.
//!
//! A user who may edit a `Kafka` or a `KafkaNodePool` need not be allowed to create pods, so the operator must
//! not create pods for that user that reach beyond the namespace.
//!
//! 1. Only the fields and values in [`PASSED_ON`] are passed on: the fields of Strimzi's schema, with the
//!    values that the Pod Security profile `restricted` permits. Everything else is refused, also what a
//!    later Kubernetes adds.
//! 2. Volumes are mounted below `/mnt`, as in Strimzi, so that none hides a directory of the node.
//! 3. A template refers neither to a volume of the node nor to the keys of an authority nor to the data of
//!    a node.
//!
//! The decisions with their reasons are in `docs/threats.md`.

use super::{Findings, Reason};
use crate::cluster::spec::{ClusterSpec, Written};
use crate::words::list;

/// The values that a field may have.
#[derive(Debug)]
pub enum Shape {
    /// Only this flag.
    Only(bool),
    /// Any flag.
    Flag,
    /// A whole number that is at least this.
    AtLeast(i64),
    /// Any text.
    Text,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A text or a whole number.
    Quantity,
    /// A list of such values.
    List(&'static Shape),
    /// A map with texts as values.
    Texts,
    /// A map with these fields.
    Map(&'static [(&'static str, Shape)]),
}

use Shape::{AtLeast, Flag, List, Map, OneOf, Only, Quantity, Text, Texts};

/// What is passed on, by its path in a template.
#[rustfmt::skip]
pub const PASSED_ON: &[(&str, Reason, Shape)] = &[
    ("pod.securityContext",             Reason::ForbiddenSecurityContext, Map(POD_CONTEXT)),
    ("pod.volumes",                     Reason::ForbiddenVolume,          List(&Map(VOLUME))),
    ("pod.templatedVolumes",            Reason::ForbiddenVolume,          List(&Map(TEMPLATED_VOLUME))),
    ("kafkaContainer.securityContext",  Reason::ForbiddenSecurityContext, Map(CONTAINER_CONTEXT)),
    ("kafkaContainer.volumeMounts",     Reason::ForbiddenVolumeMount,     List(&Map(MOUNT))),
    ("kafkaContainer.env",              Reason::ForbiddenEnvironment,     List(&Map(VARIABLE))),
    ("initContainer.securityContext",   Reason::ForbiddenSecurityContext, Map(CONTAINER_CONTEXT)),
    ("initContainer.volumeMounts",      Reason::ForbiddenVolumeMount,     List(&Map(MOUNT))),
    ("initContainer.env",               Reason::ForbiddenEnvironment,     List(&Map(VARIABLE))),
];

/// The sources of volumes, those of Strimzi's schema.
pub const VOLUME_SOURCES: &[&str] =
    &["secret", "configMap", "emptyDir", "persistentVolumeClaim", "csi", "image"];

/// The sources of templated volumes.
pub const TEMPLATED_VOLUME_SOURCES: &[&str] = &["secret", "configMap", "persistentVolumeClaim"];

type Fields = &'static [(&'static str, Shape)];

#[rustfmt::skip]
const SECRET: Fields = &[
    ("secretName", Text), ("defaultMode", AtLeast(0)), ("optional", Flag), ("items", List(&Map(ITEM))),
];

#[rustfmt::skip]
const CONFIG_MAP: Fields = &[
    ("name", Text), ("defaultMode", AtLeast(0)), ("optional", Flag), ("items", List(&Map(ITEM))),
];

const CLAIM: Fields = &[("claimName", Text), ("readOnly", Flag)];

#[rustfmt::skip]
const TEMPLATED_VOLUME: Fields = &[
    ("name", Text), ("secret", Map(SECRET)), ("configMap", Map(CONFIG_MAP)), ("persistentVolumeClaim", Map(CLAIM)),
];

#[rustfmt::skip]
const VOLUME: Fields = &[
    ("name", Text),
    ("secret", Map(SECRET)),
    ("configMap", Map(CONFIG_MAP)),
    ("emptyDir", Map(&[("medium", Text), ("sizeLimit", Quantity)])),
    ("persistentVolumeClaim", Map(CLAIM)),
    ("csi", Map(&[
        ("driver", Text), ("fsType", Text), ("readOnly", Flag), ("volumeAttributes", Texts),
        ("nodePublishSecretRef", Map(&[("name", Text)])),
    ])),
    ("image", Map(&[("reference", Text), ("pullPolicy", Text)])),
];

const ITEM: Fields = &[("key", Text), ("path", Text), ("mode", AtLeast(0))];

#[rustfmt::skip]
const MOUNT: Fields = &[
    ("name", Text), ("mountPath", Text), ("readOnly", Flag), ("recursiveReadOnly", Text),
    ("subPath", Text), ("subPathExpr", Text),
    // A mount that the host sees needs a privileged container.
    ("mountPropagation", OneOf(&["None", "HostToContainer"])),
];

#[rustfmt::skip]
const VARIABLE: Fields = &[
    ("name", Text), ("value", Text),
    ("valueFrom", Map(&[("secretKeyRef", Map(KEY)), ("configMapKeyRef", Map(KEY))])),
];

const KEY: Fields = &[("name", Text), ("key", Text), ("optional", Flag)];

const SECCOMP: Shape =
    Map(&[("type", OneOf(&["RuntimeDefault", "Localhost"])), ("localhostProfile", Text)]);
const APP_ARMOR: Shape =
    Map(&[("type", OneOf(&["RuntimeDefault", "Localhost"])), ("localhostProfile", Text)]);
#[rustfmt::skip]
const SE_LINUX: Shape = Map(&[
    ("level", Text), ("role", OneOf(&[""])), ("user", OneOf(&[""])),
    ("type", OneOf(&["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"])),
]);
#[rustfmt::skip]
const WINDOWS: Shape = Map(&[
    ("gmsaCredentialSpec", Text), ("gmsaCredentialSpecName", Text), ("hostProcess", Only(false)),
    ("runAsUserName", Text),
]);

/// The kernel parameters that are of the pod alone.
#[rustfmt::skip]
const SYSCTLS: &[&str] = &[
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_syncookies",
];

#[rustfmt::skip]
const POD_CONTEXT: Fields = &[
    ("runAsNonRoot", Only(true)), ("runAsUser", AtLeast(1)), ("runAsGroup", AtLeast(0)),
    ("fsGroup", AtLeast(0)), ("fsGroupChangePolicy", Text), ("supplementalGroups", List(&AtLeast(0))),
    ("supplementalGroupsPolicy", Text), ("seLinuxChangePolicy", Text),
    ("seccompProfile", SECCOMP), ("appArmorProfile", APP_ARMOR), ("seLinuxOptions", SE_LINUX),
    ("windowsOptions", WINDOWS),
    ("sysctls", List(&Map(&[("name", OneOf(SYSCTLS)), ("value", Text)]))),
];

#[rustfmt::skip]
const CONTAINER_CONTEXT: Fields = &[
    ("runAsNonRoot", Only(true)), ("runAsUser", AtLeast(1)), ("runAsGroup", AtLeast(0)),
    ("privileged", Only(false)), ("allowPrivilegeEscalation", Only(false)),
    ("procMount", OneOf(&["Default"])), ("readOnlyRootFilesystem", Flag),
    ("capabilities", Map(&[("add", List(&OneOf(&["NET_BIND_SERVICE"]))), ("drop", List(&Text))])),
    ("seccompProfile", SECCOMP), ("appArmorProfile", APP_ARMOR), ("seLinuxOptions", SE_LINUX),
    ("windowsOptions", WINDOWS),
];

/// Volumes of a node besides `data` and `data-<number>`.
#[rustfmt::skip]
pub const OWN_VOLUMES: &[&str] = &[
    "kafka-metrics-and-logging", "kube-api-access", "node-certificate", "rack-volume", "tmp", "trust-bundle",
];

/// Where templates may mount, as in Strimzi.
const MOUNT_BELOW: &str = "/mnt/";

/// Variables that a node is configured with. One of a template is left out.
const OWN_VARIABLES: &[&str] = &["KAFKA_CLUSTER_NAME", "POD_IP", "TMPDIR"];
const OWN_PREFIX: &str = "GREGOR_";
/// Variables with that prefix that are the user's all the same.
const USERS_VARIABLES: &[&str] = &["GREGOR_LOG", "GREGOR_NODE_CLASS_ARCHIVE"];

/// The ends of the names of Secrets with keys that sign, or that let the operator in.
const KEY_SECRETS: &[&str] = &["-cluster-ca", "-clients-ca", "-cluster-operator-certs"];

/// Annotations by which a container can escape its AppArmor profile.
const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Variables that the init container is configured with.
const OWN_INIT_VARIABLES: &[&str] = &["NODE_NAME", "RACK_TOPOLOGY_KEY"];

/// Whether a variable of the init container is set by the operator.
#[must_use]
pub fn is_own_init_variable(name: &str) -> bool {
    is_own_variable(name) || OWN_INIT_VARIABLES.contains(&name)
}

/// Replaces the placeholders of a templated volume.
#[must_use]
pub fn expand(text: &str, node_id: &str, pod: &str) -> String {
    text.replace("{nodeId}", node_id).replace("{nodePodName}", pod)
}

/// Whether a variable of Kafka's container is set by the operator.
#[must_use]
pub fn is_own_variable(name: &str) -> bool {
    let own = name.starts_with(OWN_PREFIX) && !USERS_VARIABLES.contains(&name);
    own || OWN_VARIABLES.contains(&name)
}

/// Whether a Secret holds the key of an authority or of the operator.
pub(super) fn is_key_secret(name: &str) -> bool {
    KEY_SECRETS.iter().any(|end| name.ends_with(end))
}

pub(super) fn check(spec: &ClusterSpec, findings: &mut Findings) {
    for template in &spec.pod_templates {
        for (path, reason, shape) in PASSED_ON {
            let Some(written) = template.parts.get(*path) else { continue };
            let at = format!("{}.{path}", template.place);
            fits(shape, written, &at, &mut |message| findings.add(*reason, message));
        }
        let items = |path: &str| template.parts.get(path).map(Written::items).unwrap_or_default();
        for (path, sources) in
            [("pod.volumes", VOLUME_SOURCES), ("pod.templatedVolumes", TEMPLATED_VOLUME_SOURCES)]
        {
            for (index, one) in items(path).iter().enumerate() {
                let at = format!("{}.{path}[{index}]", template.place);
                volume(&spec.name, sources, one, &at, findings);
            }
        }
        for path in ["kafkaContainer.volumeMounts", "initContainer.volumeMounts"] {
            for (index, one) in items(path).iter().enumerate() {
                mount(one, &format!("{}.{path}[{index}]", template.place), findings);
            }
        }
        let containers: [(_, fn(&str) -> bool); 2] =
            [("kafkaContainer.env", is_own_variable), ("initContainer.env", is_own_init_variable)];
        for (path, is_own) in containers {
            variables(&format!("{}.{path}", template.place), items(path), is_own, findings);
        }
    }
    annotations(spec, findings);
}

/// Tells every place where a value is not of a shape.
fn fits(shape: &Shape, value: &Written, at: &str, tell: &mut dyn FnMut(String)) {
    let (fine, expected) = match (shape, value) {
        // The API server drops it.
        (_, Written::Null) => return,
        (Map(fields), Written::Map(written)) => {
            for (name, value) in written {
                let at = format!("{at}.{name}");
                match fields.iter().find(|(known, _)| known == name) {
                    Some((_, shape)) => fits(shape, value, &at, tell),
                    None => tell(format!("{at} is not supported: remove it")),
                }
            }
            return;
        }
        (List(shape), Written::List(items)) => {
            for (index, item) in items.iter().enumerate() {
                fits(shape, item, &format!("{at}[{index}]"), tell);
            }
            return;
        }
        (Texts, Written::Map(written)) => {
            let all = written.values().all(|one| matches!(one, Written::Text(_)));
            (all, "a map of texts".to_owned())
        }
        (Only(wanted), Written::Bool(flag)) => (flag == wanted, wanted.to_string()),
        (Only(wanted), _) => (false, wanted.to_string()),
        (Flag, value) => (matches!(value, Written::Bool(_)), "true or false".to_owned()),
        (AtLeast(least), Written::Integer(number)) => (number >= least, at_least(*least)),
        (AtLeast(least), _) => (false, at_least(*least)),
        (Text, value) => (matches!(value, Written::Text(_)), "a text".to_owned()),
        (OneOf(texts), Written::Text(text)) => (texts.contains(&text.as_str()), one_of(texts)),
        (OneOf(texts), _) => (false, one_of(texts)),
        (Quantity, value) => {
            (matches!(value, Written::Text(_) | Written::Integer(_)), "a quantity".to_owned())
        }
        (Map(_) | Texts, _) => (false, "a map".to_owned()),
        (List(_), _) => (false, "a list".to_owned()),
    };
    if !fine {
        tell(format!("{at} is {value}, which is not allowed: use {expected}"));
    }
}

fn at_least(least: i64) -> String {
    format!("a whole number from {least} on")
}

fn one_of(texts: &[&str]) -> String {
    let quoted: Vec<_> = texts.iter().map(|text| format!("\"{text}\"")).collect();
    quoted.join(" or ")
}

/// `sources` are those that this kind of volume may have.
fn volume(cluster: &str, sources: &[&str], volume: &Written, at: &str, findings: &mut Findings) {
    let mut refuse = |message: String| findings.add(Reason::ForbiddenVolume, message);
    let found: Vec<_> = sources.iter().filter(|source| volume.get(source).is_some()).collect();
    if found.len() != 1 {
        let found = if found.is_empty() { "none".to_owned() } else { list(&found) };
        refuse(format!("{at} needs exactly one source of {}: it has {found}", list(sources)));
    }
    match volume.text("name") {
        None => refuse(format!("{at}.name is missing")),
        Some(name) if is_own_volume(name) => {
            refuse(format!("{at}.name is {name}, a volume of the node: choose another name"));
        }
        Some(_) => {}
    }
    let secrets = [("secret", "secretName"), ("csi", "nodePublishSecretRef")];
    for (source, field) in secrets {
        let reference = volume.get(source);
        let name =
            reference.and_then(|one| one.text(field).or_else(|| one.get(field)?.text("name")));
        if let Some(name) = name.filter(|name| is_key_secret(name)) {
            refuse(key_secret(&format!("{at}.{source}.{field}"), name));
        }
    }
    let claim = volume.get("persistentVolumeClaim").and_then(|claim| claim.text("claimName"));
    // The names of pods begin with that of the cluster; plain volumes have no placeholders, whose braces no name can have.
    let expanded = |claim: &&str| expand(claim, "0", &format!("{cluster}-pool-0"));
    if let Some(claim) = claim.filter(|claim| is_data_claim(&expanded(claim), cluster)) {
        refuse(format!(
            "{at}.persistentVolumeClaim.claimName is {claim}, the data of a node: use another claim"
        ));
    }
}

pub(super) fn key_secret(at: &str, name: &str) -> String {
    format!("{at} is {name}, which holds a private key of the operator: use another Secret")
}

/// `data`, `data-<number>` and the others of the node.
fn is_own_volume(name: &str) -> bool {
    let number = name.strip_prefix("data-");
    let data = number.is_some_and(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()));
    data || name == "data" || OWN_VOLUMES.contains(&name)
}

/// `data-<cluster>-…` and `data-<number>-<cluster>-…`.
fn is_data_claim(claim: &str, cluster: &str) -> bool {
    let Some(rest) = claim.strip_prefix("data-") else { return false };
    let numbered = rest.split_once('-').filter(|(id, _)| id.bytes().all(|b| b.is_ascii_digit()));
    let of_cluster =
        |text: &str| text.strip_prefix(cluster).is_some_and(|rest| rest.starts_with('-'));
    of_cluster(rest) || numbered.is_some_and(|(_, rest)| of_cluster(rest))
}

fn mount(mount: &Written, at: &str, findings: &mut Findings) {
    let mut refuse = |message: String| findings.add(Reason::ForbiddenVolumeMount, message);
    let path = mount.text("mountPath").unwrap_or_default();
    let dots = path.split('/').any(|part| part == "." || part == "..");
    if path.strip_prefix(MOUNT_BELOW).is_none_or(str::is_empty) || dots {
        refuse(format!("{at}.mountPath is \"{path}\": mount volumes below {MOUNT_BELOW}"));
    }
    if let Some(name) = mount.text("name").filter(|name| is_own_volume(name)) {
        refuse(format!("{at}.name is {name}, a volume of the node: name one of pod.volumes"));
    }
}

fn variables(
    place: &str,
    variables: &[Written],
    is_own: fn(&str) -> bool,
    findings: &mut Findings,
) {
    for (index, one) in variables.iter().enumerate() {
        let secret = one.get("valueFrom").and_then(|from| from.get("secretKeyRef"));
        if let Some(name) = secret.and_then(|one| one.text("name")).filter(|n| is_key_secret(n)) {
            let at = format!("{place}[{index}].valueFrom.secretKeyRef.name");
            findings.add(Reason::ForbiddenEnvironment, key_secret(&at, name));
        }
        let name = one.text("name").unwrap_or_default();
        // Kubernetes takes every printable character but this one.
        let fine = |c: char| c.is_ascii_graphic() && c != '=';
        if name.is_empty() || !name.chars().all(fine) {
            let message = format!("{place}[{index}].name is {name:?}: use letters, digits and _");
            findings.add(Reason::ForbiddenEnvironment, message);
        }
    }
    let own = variables.iter().filter_map(|one| one.text("name")).filter(|name| is_own(name));
    let own: Vec<_> = own.collect();
    if !own.is_empty() {
        let message = format!("{place}: ignored, set by the operator: {}. Remove it", list(&own));
        findings.add(Reason::IgnoredEnvironment, message);
    }
}

fn annotations(spec: &ClusterSpec, findings: &mut Findings) {
    for key in spec.template_keys.iter().filter(|one| one.key.starts_with(APP_ARMOR_ANNOTATION)) {
        let message =
            format!("{} has {}: use securityContext.appArmorProfile instead", key.place, key.key);
        findings.add(Reason::ForbiddenSecurityContext, message);
    }
}

#[cfg(test)]
#[path = "templates_tests.rs"]
mod tests;
