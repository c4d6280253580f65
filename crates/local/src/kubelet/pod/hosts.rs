//! The `/etc/hosts` of a pod: its own name, and the table that all pods share.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use k8s_openapi::api::core::v1::Pod;

/// The hostname inside of the pod.
pub(crate) fn hostname(pod: &Pod) -> String {
    let set = pod.spec.as_ref().and_then(|spec| spec.hostname.clone());
    let name = set.or_else(|| pod.metadata.name.clone()).unwrap_or_default();
    // The kernel's limit.
    name.chars().take(63).collect()
}

/// The content of the file.
pub(crate) fn table(pod: &Pod, ip: &str, shared: &str) -> String {
    let spec = pod.spec.clone().unwrap_or_default();
    let host = hostname(pod);
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let full = spec.subdomain.map(|sub| format!("{host}.{sub}.{namespace}.svc.cluster.local "));
    let own = format!("{ip}\t{}{host}\n", full.unwrap_or_default());
    let aliases: Vec<(String, Vec<String>)> = spec
        .host_aliases
        .unwrap_or_default()
        .into_iter()
        .map(|alias| (alias.ip, alias.hostnames.unwrap_or_default()))
        .collect();
    let named: BTreeSet<&str> =
        aliases.iter().flat_map(|(_, names)| names).map(String::as_str).collect();
    let shared = without(shared, &named);
    let aliases: String =
        aliases.iter().map(|(ip, names)| format!("{ip}\t{}\n", names.join(" "))).collect();
    format!("127.0.0.1\tlocalhost\n{own}{aliases}{shared}")
}

/// The shared table without these names: an alias takes precedence over DNS, and a resolver returns all
/// addresses that the file has for a name.
fn without<'a>(shared: &'a str, names: &BTreeSet<&str>) -> Cow<'a, str> {
    if names.is_empty() {
        return Cow::Borrowed(shared);
    }
    let lines = shared.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let ip = words.next()?;
        let left: Vec<_> = words.filter(|name| !names.contains(name)).collect();
        (!left.is_empty()).then(|| format!("{ip}\t{}\n", left.join(" ")))
    });
    Cow::Owned(lines.collect())
}

/// Writes the file in place: containers see it through a bind mount, which follows the inode.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    let file =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o644).open(path)?;
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_knows_itself_and_the_others() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "p-0", "namespace": "n" },
            "spec": { "containers": [], "subdomain": "s",
                "hostAliases": [{ "ip": "10.0.0.1", "hostnames": ["a", "b"] }] },
        }))
        .unwrap();
        assert_eq!(hostname(&pod), "p-0");
        let text = table(&pod, "127.1.0.2", "127.1.0.3\tother\n");
        let lines: Vec<_> = text.lines().collect();
        #[rustfmt::skip]
        assert_eq!(lines, [
            "127.0.0.1\tlocalhost", "127.1.0.2\tp-0.s.n.svc.cluster.local p-0", "10.0.0.1\ta b", "127.1.0.3\tother",
        ]);
    }

    #[test]
    fn an_alias_hides_the_name_in_the_shared_table() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "p-0", "namespace": "n" },
            "spec": { "containers": [], "hostAliases": [{ "ip": "127.9.0.1", "hostnames": ["a.n.svc", "b"] }] },
        }))
        .unwrap();
        let text = table(&pod, "127.1.0.2", "127.1.0.3\ta.n.svc a.n\n127.1.0.4\tb\n127.1.0.5\tc\n");
        let lines: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(lines, ["127.9.0.1\ta.n.svc b", "127.1.0.3\ta.n", "127.1.0.5\tc"]);
    }

    #[test]
    fn a_shorter_table_leaves_nothing_of_the_longer_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hosts");
        for text in ["long long\n", "short\n"] {
            write(&path, text).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}
