//! The requests that service accounts made in a local Kubernetes, from the audit log of its API server, for
//! `cargo xtask rbac`, which compares them with the rights that are installed.
//!
//! One file per Kubernetes in `target/rbac-use`, a line for each kind of request, with tabs between: user, verb,
//! API group, resource, `cluster` or `namespaced`, status code, and `allow` or `forbid` by RBAC.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// Makes `gregor` start API servers with an audit log in this directory.
pub(crate) const VARIABLE: &str = "GREGOR_API_AUDIT";

/// Tells the files of one program of tests apart.
static COLLECTED: AtomicU32 = AtomicU32::new(0);

/// Writes the requests in the audit logs of a directory to `target/rbac-use`.
pub(crate) fn collect(dir: &Path) {
    let requests: BTreeSet<String> = logs(dir).iter().flat_map(|log| requests(log)).collect();
    if requests.is_empty() {
        return;
    }
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("unnamed").replace("::", "-");
    let number = COLLECTED.fetch_add(1, Ordering::Relaxed);
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../rbac-use");
    fs::create_dir_all(&dir).unwrap();
    let file = dir.join(format!("{}-{test}-{number}.tsv", env!("CARGO_CRATE_NAME")));
    fs::write(file, requests.into_iter().collect::<String>()).unwrap();
}

/// The logs of all API servers, with what they were rotated to.
fn logs(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn requests(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap_or_default();
    // The last line may be half written.
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.filter_map(|event| line(&event)).collect()
}

/// One event, if it is about a resource.
fn line(event: &Value) -> Option<String> {
    let object = event.get("objectRef")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let resource = match object["subresource"].as_str() {
        Some(sub) => format!("{}/{sub}", text(&object["resource"])),
        None => text(&object["resource"]),
    };
    let scope = if object["namespace"].is_null() { "cluster" } else { "namespaced" };
    let fields = [
        text(&event["user"]["username"]),
        text(&event["verb"]),
        text(&object["apiGroup"]),
        resource,
        scope.to_owned(),
        event["responseStatus"]["code"].to_string(),
        text(&event["annotations"]["authorization.k8s.io/decision"]),
    ];
    Some(fields.join("\t") + "\n")
}
