//! Applies objects from files, as `kubectl apply --server-side` does.
//!
//! All files are parsed before anything is applied, so that a mistake in one changes nothing.
//! CustomResourceDefinitions and Namespaces are applied first, and an object of a new kind waits until the
//! API serves it. Nothing is ever deleted.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{ApiCapabilities, Scope};
use serde_json::Value;

/// The field manager of applied fields.
const FIELD_MANAGER: &str = "gregor";

/// For a kind whose definition is being applied: the API server takes a second or two.
const NEW_KIND_PATIENCE: Duration = Duration::from_secs(30);

/// For other failures that may be transient: a restarting API server, a definition that was just applied by
/// another client.
const PATIENCE: Duration = Duration::from_secs(5);

const PAUSE: Duration = Duration::from_millis(200);

/// Why objects were not applied.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {path:?}")]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A directory without manifests.
    #[error("there is no .yaml, .yml or .json file in {0:?}")]
    Empty(PathBuf),
    /// Not YAML.
    #[error("{path:?}, document {document}, is not YAML")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Which of its documents, from 1.
        document: usize,
        /// What is wrong with it, and where.
        #[source]
        source: Box<serde_saphyr::Error>,
    },
    /// YAML, but not a Kubernetes object.
    #[error("{location} is not a Kubernetes object: {reason}")]
    NotAnObject {
        /// File and document.
        location: Location,
        /// What is missing.
        reason: &'static str,
    },
    /// The API does not serve the kind.
    #[error(
        "{location}: the cluster has no kind {kind} in {api_version}; apply its definition first, or \
         correct the name"
    )]
    UnknownKind {
        /// File and document.
        location: Location,
        /// The kind.
        kind: String,
        /// Its group and version.
        api_version: String,
    },
    /// The request was rejected or failed.
    #[error("{location}: cannot apply {what}")]
    Refused {
        /// File and document.
        location: Location,
        /// Kind and name.
        what: String,
        /// The response of the API server.
        #[source]
        source: Box<kube::Error>,
    },
}

/// Where an object comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The file.
    pub path: PathBuf,
    /// Which of its documents, from 1.
    pub document: usize,
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}, document {}", self.path, self.document)
    }
}

/// An object from a file.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// Where.
    pub location: Location,
    kind: GroupVersionKind,
    api_version: String,
    name: String,
    namespace: Option<String>,
    object: Value,
}

impl Manifest {
    /// Kind and name, for messages.
    #[must_use]
    pub fn what(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind.kind, self.name),
            None => format!("{} {}", self.kind.kind, self.name),
        }
    }

    /// Whether it is of this kind, in any version.
    #[must_use]
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.kind.group == group && self.kind.kind == kind
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespace in its metadata.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The whole object.
    #[must_use]
    pub fn object(&self) -> &Value {
        &self.object
    }

    fn new(location: Location, object: Value) -> Result<Self, Error> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let need = |pointer: &str, reason| match text(pointer).filter(|text| !text.is_empty()) {
            Some(text) => Ok(text.to_owned()),
            None => Err(Error::NotAnObject { location: location.clone(), reason }),
        };
        let api_version = need("/apiVersion", "it has no apiVersion")?;
        let kind = need("/kind", "it has no kind")?;
        let name = need("/metadata/name", "it has no metadata.name")?;
        let (group, version) = match api_version.split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", api_version.as_str()),
        };
        let kind = GroupVersionKind::gvk(group, version, &kind);
        let namespace = text("/metadata/namespace").map(str::to_owned);
        Ok(Self { location, kind, api_version, name, namespace, object })
    }

    /// Order of application: prerequisites first.
    fn rank(&self) -> u8 {
        match (self.kind.group.as_str(), self.kind.kind.as_str()) {
            ("", "Namespace") => 0,
            ("apiextensions.k8s.io", "CustomResourceDefinition") => 1,
            _ => 2,
        }
    }

    /// Group and kind that it defines, if it is a definition.
    fn defines(&self) -> Option<(String, String)> {
        let text = |pointer: &str| self.object.pointer(pointer).and_then(Value::as_str);
        (self.rank() == 1)
            .then(|| Some((text("/spec/group")?.to_owned(), text("/spec/names/kind")?.to_owned())))
            .flatten()
    }
}

/// Parses files, and in directories all files `*.yaml`, `*.yml` and `*.json`, sorted by name; subdirectories
/// are ignored, as in kubectl.
pub fn read(paths: &[PathBuf]) -> Result<Vec<Manifest>, Error> {
    let mut manifests = Vec::new();
    for path in paths {
        for file in files(path)? {
            let text = std::fs::read_to_string(&file)
                .map_err(|source| Error::Read { path: file.clone(), source })?;
            parse(&file, &text, &mut manifests)?;
        }
    }
    sort(&mut manifests);
    Ok(manifests)
}

/// Objects that do not come from a file, with a description instead of a path.
pub fn from_objects(location: &str, objects: Vec<Value>) -> Result<Vec<Manifest>, Error> {
    let numbered = objects.into_iter().enumerate();
    let location = |index| Location { path: PathBuf::from(location), document: index + 1 };
    numbered.map(|(index, object)| Manifest::new(location(index), object)).collect()
}

/// Sorts prerequisites first; the order is stable.
pub fn sort(manifests: &mut [Manifest]) {
    manifests.sort_by_key(Manifest::rank);
}

/// Applies the objects in order and reports each one.
pub async fn apply(
    client: &kube::Client,
    manifests: &[Manifest],
    mut done: impl FnMut(&Manifest),
) -> Result<(), Error> {
    let new_kinds: BTreeSet<_> = manifests.iter().filter_map(Manifest::defines).collect();
    for manifest in manifests {
        let kind = (manifest.kind.group.clone(), manifest.kind.kind.clone());
        let patience = if new_kinds.contains(&kind) { NEW_KIND_PATIENCE } else { PATIENCE };
        apply_one(client, manifest, patience).await?;
        done(manifest);
    }
    Ok(())
}

async fn apply_one(
    client: &kube::Client,
    manifest: &Manifest,
    patience: Duration,
) -> Result<(), Error> {
    let begun = Instant::now();
    let is_late = || begun.elapsed() > patience;
    loop {
        match kube::discovery::pinned_kind(client, &manifest.kind).await {
            Ok((resource, capabilities)) => {
                match patch(client, manifest, &resource, &capabilities).await {
                    Ok(()) => return Ok(()),
                    // A kind that was just defined is listed a moment before it is served.
                    Err(error) if is_late() || !may_pass(&error, patience) => {
                        let (location, what) = (manifest.location.clone(), manifest.what());
                        return Err(Error::Refused { location, what, source: Box::new(error) });
                    }
                    Err(_) => {}
                }
            }
            Err(error) if is_late() => return Err(unknown_kind(manifest, error)),
            Err(_) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn patch(
    client: &kube::Client,
    manifest: &Manifest,
    resource: &ApiResource,
    capabilities: &ApiCapabilities,
) -> Result<(), kube::Error> {
    let api: Api<DynamicObject> = match (&capabilities.scope, &manifest.namespace) {
        (Scope::Cluster, _) => Api::all_with(client.clone(), resource),
        (Scope::Namespaced, Some(namespace)) => {
            Api::namespaced_with(client.clone(), namespace, resource)
        }
        (Scope::Namespaced, None) => Api::default_namespaced_with(client.clone(), resource),
    };
    let params = PatchParams::apply(FIELD_MANAGER).force();
    api.patch(&manifest.name, &params, &Patch::Apply(&manifest.object)).await.map(|_| ())
}

/// Whether a retry may succeed.
fn may_pass(error: &kube::Error, patience: Duration) -> bool {
    match error {
        kube::Error::Api(status) => match status.code {
            429 | 500 | 502 | 503 | 504 => true,
            404 => patience == NEW_KIND_PATIENCE,
            // A pod in a namespace that was just created.
            403 => status.message.contains("error looking up service account"),
            _ => false,
        },
        // No response at all; applying again is harmless.
        _ => true,
    }
}

fn unknown_kind(manifest: &Manifest, error: kube::Error) -> Error {
    let location = manifest.location.clone();
    match error {
        kube::Error::Api(_) | kube::Error::Discovery(_) => Error::UnknownKind {
            location,
            kind: manifest.kind.kind.clone(),
            api_version: manifest.api_version.clone(),
        },
        source => Error::Refused { location, what: manifest.what(), source: Box::new(source) },
    }
}

fn files(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let refuse = |source| Error::Read { path: path.to_owned(), source };
    if !path.metadata().map_err(refuse)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let refuse = |source| Error::Read { path: path.to_owned(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(refuse)? {
        let file = entry.map_err(|source| Error::Read { path: path.to_owned(), source })?.path();
        let ending = file.extension().and_then(|ending| ending.to_str());
        if matches!(ending, Some("yaml" | "yml" | "json")) && !file.is_dir() {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() { Err(Error::Empty(path.to_owned())) } else { Ok(files) }
}

fn parse(path: &Path, text: &str, manifests: &mut Vec<Manifest>) -> Result<(), Error> {
    let mut options = serde_saphyr::Options::default();
    // `defaultMode: 0644` is octal, as in kubectl.
    options.legacy_octal_numbers = true;
    // A name may be `n`, which older YAML parses as false.
    options.strict_booleans = true;
    // Errors are one line.
    options.with_snippet = false;
    // The file is the user's own, and a definition can be long.
    options.budget = None;
    let documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|source| {
            let line = source.location().map_or(1, |location| location.line());
            let document = document_of_line(text, line);
            Error::Parse { path: path.to_owned(), document, source: Box::new(source) }
        })?;
    for (index, document) in documents.into_iter().enumerate() {
        let location = Location { path: path.to_owned(), document: index + 1 };
        match document {
            // A document with only comments.
            Value::Null => {}
            Value::Object(mut object) if is_list(&object) => {
                let items = object.remove("items").and_then(|items| match items {
                    Value::Array(items) => Some(items),
                    _ => None,
                });
                for item in items.unwrap_or_default() {
                    manifests.push(Manifest::new(location.clone(), item)?);
                }
            }
            Value::Object(object) => manifests.push(Manifest::new(location, object.into())?),
            _ => return Err(Error::NotAnObject { location, reason: "it has no fields" }),
        }
    }
    Ok(())
}

fn is_list(object: &serde_json::Map<String, Value>) -> bool {
    object.get("kind").and_then(Value::as_str).is_some_and(|kind| kind == "List")
        && object.contains_key("items")
}

/// The document of a line, both counted from 1. A separator before the first document opens it.
fn document_of_line(text: &str, line: u64) -> usize {
    let before = text.lines().take(usize::try_from(line).unwrap_or(usize::MAX));
    let mut documents = 1;
    let mut content = false;
    for line in before {
        if line == "---" || line.starts_with("--- ") {
            documents += usize::from(content);
            content = true;
        } else if !line.trim().is_empty() && !line.starts_with('#') {
            content = true;
        }
    }
    documents
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<Manifest>, Error> {
        let mut manifests = Vec::new();
        parse(Path::new("a.yaml"), text, &mut manifests).map(|()| manifests)
    }

    #[test]
    fn documents_lists_and_comments() {
        let text = "# first\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n\
                    data: {mode: 0644}\n---\n# nothing\n---\napiVersion: v1\nkind: List\nitems:\n\
                    - {apiVersion: apps/v1, kind: Deployment, metadata: {name: b, namespace: c}}\n";
        let manifests = parsed(text).unwrap();
        let what: Vec<_> = manifests.iter().map(Manifest::what).collect();
        assert_eq!(what, ["ConfigMap a", "Deployment c/b"]);
        assert_eq!(manifests[0].object["data"]["mode"], 0o644);
        assert_eq!(manifests[1].kind.group, "apps");
    }

    #[test]
    fn mistakes_are_named_with_file_and_document() {
        let check = |text: &str, expected: &str| {
            let error = parsed(text).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}");
        };
        let whole = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n";
        check("a: [", "\"a.yaml\", document 1, is not YAML");
        check(&format!("{whole}a: b: c\n"), "\"a.yaml\", document 2, is not YAML");
        check(&format!("---\n{whole}a: b: c\n"), "\"a.yaml\", document 2, is not YAML");
        check("kind: A", "\"a.yaml\", document 1 is not a Kubernetes object: it has no apiVersion");
        check(&format!("{whole}- a\n"), "\"a.yaml\", document 2 is not a Kubernetes object");
        check(
            "apiVersion: v1\nkind: Pod\n",
            "\"a.yaml\", document 1 is not a Kubernetes object: it",
        );
    }

    #[test]
    fn definitions_and_namespaces_go_first() {
        let dir = tempfile::tempdir().unwrap();
        let object = |api: &str, kind: &str, name: &str| {
            format!("apiVersion: {api}\nkind: {kind}\nmetadata: {{name: {name}}}\n")
        };
        std::fs::write(dir.path().join("a.yaml"), object("x.io/v1", "X", "x")).unwrap();
        let crd = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "xs.x.io");
        let crd = format!("{crd}spec: {{group: x.io, names: {{kind: X}}}}\n");
        std::fs::write(dir.path().join("b.yml"), crd).unwrap();
        std::fs::write(dir.path().join("c.json"), object("v1", "Namespace", "n")).unwrap();
        std::fs::write(dir.path().join("README.md"), "no").unwrap();
        let manifests = read(&[dir.path().to_owned()]).unwrap();
        let kinds: Vec<_> = manifests.iter().map(|one| one.kind.kind.as_str()).collect();
        assert_eq!(kinds, ["Namespace", "CustomResourceDefinition", "X"]);
        assert_eq!(manifests[1].defines(), Some(("x.io".to_owned(), "X".to_owned())));
        let empty = tempfile::tempdir().unwrap();
        assert!(matches!(read(&[empty.path().to_owned()]), Err(Error::Empty(_))));
        assert!(matches!(read(&[empty.path().join("a")]), Err(Error::Read { .. })));
    }
}
