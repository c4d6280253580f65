//! Names of hosts that are in no DNS: those of local mode are in a file.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use kafka_admin::{HostTable, Resolve, SystemNames};

/// First line of local mode's file.
const OURS: &str = "# Names of services and pods; written by gregor";

/// Host names.
#[derive(Debug, Clone, Args)]
pub(crate) struct Hosts {
    /// Hosts file to resolve names with, in the format of /etc/hosts [default: that of local mode, beside its
    /// kubeconfig]
    #[arg(long, global = true, value_name = "FILE", env = "GREGOR_HOSTS")]
    hosts: Option<PathBuf>,
}

impl Hosts {
    /// Names from this file.
    pub(crate) fn of_file(file: PathBuf) -> Self {
        Self { hosts: Some(file) }
    }

    /// The names of local mode's file, if there is one.
    pub(crate) fn unnamed() -> Self {
        Self { hosts: None }
    }

    /// Names from the given file, else from local mode's file in that directory.
    pub(crate) fn names(&self, local: Option<&Path>) -> anyhow::Result<Arc<dyn Resolve>> {
        let beside = local.map(|dir| dir.join("hosts")).filter(|file| is_ours(file));
        let Some(file) = self.hosts.clone().or(beside) else { return Ok(Arc::new(SystemNames)) };
        let text = fs::read_to_string(&file)
            .with_context(|| format!("cannot read {} (--hosts)", file.display()))?;
        let table = parse(&text).with_context(|| format!("{} (--hosts)", file.display()))?;
        Ok(Arc::new(HostTable::new(table)))
    }
}

/// Whether local mode has written a file. Other files with that name are ignored.
fn is_ours(file: &Path) -> bool {
    let Ok(file) = fs::File::open(file) else { return false };
    let first = BufReader::new(file).lines().next();
    first.is_some_and(|line| line.is_ok_and(|line| line.starts_with(OURS)))
}

/// Names with their addresses; the first entry of a name counts.
fn parse(text: &str) -> anyhow::Result<BTreeMap<String, IpAddr>> {
    let mut table = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(address) = words.next() else { continue };
        let address: IpAddr = address
            .parse()
            .with_context(|| format!("line {}: {address:?} is not an address", index + 1))?;
        for name in words {
            table.entry(name.to_owned()).or_insert(address);
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_first_address() {
        let table = parse("# a\n127.1.0.1 a a.b # c\n\n127.1.0.2 a\n::1 d\n").unwrap();
        let rows: Vec<_> = table.iter().map(|(name, at)| format!("{name} {at}")).collect();
        assert_eq!(rows, ["a 127.1.0.1", "a.b 127.1.0.1", "d ::1"]);
        let error = format!("{:#}", parse("127.0.0.1 a\nx y").unwrap_err());
        assert!(error.starts_with("line 2: \"x\" is not an address"), "{error}");
    }

    #[test]
    fn only_a_file_of_local_mode_is_looked_into_unasked() {
        let dir = tempfile::tempdir().unwrap();
        let none = Hosts { hosts: None };
        fs::write(dir.path().join("hosts"), "nonsense\n").unwrap();
        assert!(format!("{:?}", none.names(Some(dir.path())).unwrap()).contains("SystemNames"));
        fs::write(dir.path().join("hosts"), format!("{OURS}, changes are lost.\n127.1.0.1 a\n"))
            .unwrap();
        assert!(format!("{:?}", none.names(Some(dir.path())).unwrap()).contains("127.1.0.1"));
        let named = Hosts { hosts: Some(dir.path().join("none")) };
        let error = format!("{:#}", named.names(None).unwrap_err());
        assert!(error.contains("(--hosts)"), "{error}");
    }
}
