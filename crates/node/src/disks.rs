//! Inspects the log directories, read-only.

use std::fs;
use std::io;
use std::path::Path;

use control::quorum::format::{Disk, Facts, LogDir, Stamp};
use model::{ClusterId, DirectoryId, NodeId};

use crate::config::Config;
use crate::properties::Properties;

/// The file that identifies a log directory. The storage tool writes it last.
const META_FILE: &str = "meta.properties";
/// Files that the storage tool writes before it.
const BEGINNINGS: [&str; 2] = ["meta.properties.tmp", "bootstrap.checkpoint"];
/// Directory of the metadata log; the storage tool writes the list of initial controllers there.
const METADATA_LOG: &str = "__cluster_metadata-0";
/// Prefix of that list's file name: the snapshot at offset 0, before the log.
const VOTERS: &str = "00000000000000000000-0000000000";

/// Collects the facts that decide how the disks of a node, in this pod, are formatted.
pub(crate) fn observe(config: &Config, pod_uid: Option<&str>) -> Facts {
    let log_dir = |path: &Path| LogDir { path: path.display().to_string(), disk: look(path) };
    Facts {
        mode: config.mode,
        roles: config.roles,
        cluster: config.cluster.clone(),
        node: config.node,
        initial: config.initial.clone(),
        seen: config.seen,
        // Permission holds for one pod: the next may have another disk, and the facts may have changed since.
        replaced: config.replaced.is_some() && config.replaced.as_deref() == pod_uid,
        metadata: log_dir(&config.metadata_dir),
        others: config.other_dirs.iter().map(|path| log_dir(path)).collect(),
    }
}

/// The id of a log directory; `None` if it is not formatted.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn directory_id(dir: &Path) -> io::Result<Option<DirectoryId>> {
    match fs::read_to_string(dir.join(META_FILE)) {
        Ok(text) => Ok(stamp(&text).ok().and_then(|stamp| stamp.directory)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Classifies the content of a log directory.
fn look(dir: &Path) -> Disk {
    try_look(dir).unwrap_or_else(|error| Disk::Unreadable { why: error.to_string() })
}

fn try_look(dir: &Path) -> io::Result<Disk> {
    let Some(names) = names(dir)? else { return Ok(Disk::Empty) };
    let voters = look_for_voters(dir)?;
    let unused = |name: &String| {
        name == META_FILE
            || BEGINNINGS.contains(&name.as_str())
            || name == METADATA_LOG && voters != Voters::AndMore
            || is_nobodys(name)
    };
    if names.iter().any(|name| name == META_FILE) {
        let used = !names.iter().all(unused);
        let text = fs::read_to_string(dir.join(META_FILE))?;
        return Ok(match stamp(&text) {
            Ok(stamp) => Disk::Formatted { stamp, used },
            Err(why) => Disk::Unreadable { why: why.to_owned() },
        });
    }
    let hidden = |name: &String| name.starts_with('.');
    if let Some(example) = names.iter().find(|name| !unused(name) && !hidden(name)) {
        return Ok(Disk::Foreign { example: example.clone() });
    }
    let begun = names.iter().any(|name| !is_nobodys(name) && !hidden(name));
    Ok(match begun {
        true => Disk::Unfinished { has_voters: voters == Voters::Only },
        false => Disk::Empty,
    })
}

/// Directories that file systems create in their root.
fn is_nobodys(name: &str) -> bool {
    name == "lost+found"
}

/// Content of a metadata log directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Voters {
    /// Nothing relevant.
    None,
    /// Only the list of initial controllers.
    Only,
    /// Records: a node has run here.
    AndMore,
}

fn look_for_voters(dir: &Path) -> io::Result<Voters> {
    let names = names(&dir.join(METADATA_LOG))?.unwrap_or_default();
    if names.iter().any(|name| !name.starts_with(VOTERS)) {
        return Ok(Voters::AndMore);
    }
    // An incomplete list has another suffix.
    let whole = |name: &String| name.ends_with(".checkpoint");
    Ok(if names.iter().any(whole) { Voters::Only } else { Voters::None })
}

/// The names in a directory, sorted; `None` if the directory does not exist.
fn names(dir: &Path) -> io::Result<Option<Vec<String>>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let name = |entry: io::Result<fs::DirEntry>| {
        entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
    };
    let mut names = entries.map(name).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(Some(names))
}

/// Parses a `meta.properties` file.
fn stamp(text: &str) -> Result<Stamp, &'static str> {
    let properties = Properties::parse(text);
    let get = |key| properties.get(key);
    if get("version") != Some("1") {
        return Err("meta.properties is not of version 1");
    }
    let cluster = get("cluster.id").and_then(|id| ClusterId::new(id).ok());
    let node = get("node.id").and_then(|id| id.parse::<NodeId>().ok());
    let directory = match get("directory.id").map(str::parse::<DirectoryId>) {
        None => None,
        Some(Ok(id)) => Some(id),
        Some(Err(_)) => return Err("meta.properties has a directory.id that is none"),
    };
    Ok(Stamp {
        cluster: cluster.ok_or("meta.properties has no cluster.id")?,
        node: node.ok_or("meta.properties has no node.id")?,
        directory,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const META: &str = "#\n#Sun Nov 15 06:01:03 UTC 2026\nnode.id=0\n\
                        directory.id=9f7Q2Kx1TbeyGn1oVb3o5A\nversion=1\ncluster.id=ours\n";
    const LIST: &str = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint";

    /// Classifies a directory with these files.
    fn look_at(files: &[(&str, &str)]) -> Disk {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        look(dir.path())
    }

    fn formatted(used: bool) -> Disk {
        let stamp = Stamp {
            cluster: ClusterId::new("ours").unwrap(),
            node: NodeId::new(0).unwrap(),
            directory: Some("9f7Q2Kx1TbeyGn1oVb3o5A".parse().unwrap()),
        };
        Disk::Formatted { stamp, used }
    }

    #[test]
    fn a_disk_may_be_replaced_in_the_pod_that_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let server = "node.id=3\nprocess.roles=controller\nlog.dirs=/nonexistent/data\n";
        for (name, text) in
            [("server.config", server), ("cluster.id", "ours"), ("metadata.version", "4.3-IV0")]
        {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let rows = [
            ("", None, false),
            ("", Some("uid-1"), false),
            ("uid-1", None, false),
            ("uid-1", Some("uid-2"), false),
            ("true", Some("uid-1"), false),
            ("uid-1", Some("uid-1"), true),
        ];
        for (named, own, replaced) in rows {
            fs::write(dir.path().join("controller.replaced"), named).unwrap();
            let config = Config::read(dir.path()).unwrap();
            assert_eq!(observe(&config, own).replaced, replaced, "{named} {own:?}");
        }
    }

    #[test]
    fn a_disk_is_empty_when_nobody_put_anything_there() {
        assert_eq!(look(Path::new("/nonexistent/data")), Disk::Empty);
        assert_eq!(look_at(&[]), Disk::Empty);
        assert_eq!(look_at(&[("lost+found/x", ""), (".snapshot", "")]), Disk::Empty);
    }

    #[test]
    fn a_formatted_disk_shows_whether_it_was_used() {
        let meta = ("meta.properties", META);
        assert_eq!(look_at(&[meta]), formatted(false));
        assert_eq!(look_at(&[meta, ("bootstrap.checkpoint", "x")]), formatted(false));
        assert_eq!(look_at(&[meta, (LIST, "x")]), formatted(false));
        assert_eq!(look_at(&[meta, (".lock", "")]), formatted(true));
        assert_eq!(look_at(&[meta, ("a-0/x.log", "")]), formatted(true));
        assert_eq!(look_at(&[meta, ("__cluster_metadata-0/quorum-state", "")]), formatted(true));
    }

    #[test]
    fn an_unfinished_format_is_told_from_what_somebody_put_there() {
        let unfinished = |has_voters| Disk::Unfinished { has_voters };
        assert_eq!(look_at(&[("bootstrap.checkpoint", "x")]), unfinished(false));
        assert_eq!(look_at(&[("meta.properties.tmp", "x")]), unfinished(false));
        assert_eq!(look_at(&[(LIST, "x")]), unfinished(true));
        let part = format!("{}-123.checkpoint.part", LIST.trim_end_matches(".checkpoint"));
        assert_eq!(look_at(&[(&part, "x")]), unfinished(false));
        let foreign = |name: &str| Disk::Foreign { example: name.to_owned() };
        assert_eq!(look_at(&[("a-0/x.log", "")]), foreign("a-0"));
        assert_eq!(
            look_at(&[(LIST, "x"), ("__cluster_metadata-0/quorum-state", "")]),
            foreign("__cluster_metadata-0")
        );
    }

    #[test]
    fn an_identity_that_cannot_be_read_is_not_taken_for_none() {
        let rows = [
            ("", "meta.properties is not of version 1"),
            ("version=0\nbroker.id=1", "meta.properties is not of version 1"),
            ("version=1\nnode.id=1", "meta.properties has no cluster.id"),
            ("version=1\ncluster.id=c\nnode.id=-1", "meta.properties has no node.id"),
            (
                "version=1\ncluster.id=c\nnode.id=1\ndirectory.id=x",
                "meta.properties has a directory.id that is none",
            ),
        ];
        for (text, why) in rows {
            let expected = Disk::Unreadable { why: why.to_owned() };
            assert_eq!(look_at(&[("meta.properties", text)]), expected, "{text}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(look(file.path()), Disk::Unreadable { .. }));
    }

    #[test]
    fn the_id_of_a_directory_is_read_from_its_identity() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(directory_id(dir.path()).unwrap(), None);
        fs::write(dir.path().join(META_FILE), META).unwrap();
        let id = directory_id(dir.path()).unwrap().unwrap();
        assert_eq!(id.to_string(), "9f7Q2Kx1TbeyGn1oVb3o5A");
    }
}
