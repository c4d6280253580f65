//! Formats log directories, as `kafka-storage format` does.
//!
//! A JVM costs a second of CPU, and the tool's output differs between nodes in only two lines of
//! `meta.properties`. So when a cluster starts, the tool formats one node of each kind, and the others get
//! copies with their own ids.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio::task::JoinSet;

use crate::config::{NodeSpec, Quorum, Role};
use crate::ground::Ground;

const TOOL: &str = "kafka.tools.StorageTool";

/// Nodes of the same kind are formatted identically.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An initial voter of a dynamic quorum.
    Voter,
    /// Discovers the voters.
    Other(Role),
}

/// Formats the nodes of a new cluster; the first `voters` controllers are its voters.
pub(crate) async fn format_cluster(
    ground: &std::sync::Arc<Ground>,
    specs: &[NodeSpec],
    voters: usize,
) -> anyhow::Result<()> {
    let controllers = specs.iter().filter(|spec| spec.role.is_controller());
    let mut initial = Vec::new();
    if ground.settings.quorum == Quorum::Dynamic {
        for spec in controllers.take(voters) {
            initial.push((spec.id, random_id()?, spec.controller_address()));
        }
    }
    let kind = |spec: &NodeSpec| match initial.iter().any(|(id, ..)| *id == spec.id) {
        true => Kind::Voter,
        false => Kind::Other(spec.role),
    };
    let mut models: Vec<&NodeSpec> = Vec::new();
    let mut tools = JoinSet::new();
    for spec in specs {
        if models.iter().all(|model| kind(model) != kind(spec)) {
            models.push(spec);
            let voters: Vec<_> = initial
                .iter()
                .map(|(id, directory, at)| format!("{id}@{at}:{directory}"))
                .collect();
            let voters = (kind(spec) == Kind::Voter).then(|| voters.join(","));
            let (ground, spec) = (std::sync::Arc::clone(ground), spec.clone());
            tools.spawn(async move { run_tool(&ground, &spec, voters).await });
        }
    }
    while let Some(result) = tools.join_next().await {
        result.context("formatting a node panicked")??;
    }
    for spec in specs {
        let model = models.iter().find(|model| kind(model) == kind(spec));
        let model = model.context("a kind of node was not formatted")?;
        if model.id != spec.id {
            let directory =
                initial.iter().find(|(id, ..)| *id == spec.id).map(|(_, d, _)| d.clone());
            copy_format(model, spec, directory)?;
        }
    }
    Ok(())
}

/// Formats a node that joins a cluster, or returns with empty disks.
pub(crate) async fn format_late(ground: &Ground, spec: &NodeSpec) -> anyhow::Result<()> {
    run_tool(ground, spec, None).await
}

/// Whether the node's metadata directory is formatted.
pub(crate) fn is_formatted(spec: &NodeSpec) -> bool {
    spec.log_dirs.first().is_some_and(|dir| meta_file(dir).exists())
}

/// The id of a formatted log directory.
pub(crate) fn directory_id(dir: &Path) -> anyhow::Result<String> {
    let file = meta_file(dir);
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {file:?}"))?;
    let id = text.lines().find_map(|line| line.strip_prefix("directory.id="));
    // Java escapes some characters in properties, but none that occurs in an id.
    Ok(id.with_context(|| format!("no directory.id in {file:?}"))?.to_owned())
}

/// A new id for a cluster or a directory, in Kafka's format.
pub(crate) fn random_id() -> anyhow::Result<String> {
    let mut source = fs::File::open("/dev/urandom").context("cannot open /dev/urandom")?;
    loop {
        let mut bytes = [0; 16];
        source.read_exact(&mut bytes).context("cannot read /dev/urandom")?;
        let id = URL_SAFE_NO_PAD.encode(bytes);
        // As Kafka does: command line tools would parse such an id as an option.
        if !id.starts_with('-') {
            return Ok(id);
        }
    }
}

async fn run_tool(ground: &Ground, spec: &NodeSpec, voters: Option<String>) -> anyhow::Result<()> {
    let config = spec.properties_file().display().to_string();
    let mut arguments =
        ["format", "-t", &ground.cluster_id, "-c", &config].map(str::to_owned).to_vec();
    match (ground.settings.quorum, voters) {
        (Quorum::Static, _) => {}
        (Quorum::Dynamic, Some(voters)) => arguments.extend(["-I".to_owned(), voters]),
        (Quorum::Dynamic, None) => arguments.push("-N".to_owned()),
    }
    ground.run_tool(TOOL, &arguments).await?;
    Ok(())
}

/// Copies the formatted directories of another node of the same kind. `metadata_id` is the directory id by
/// which the voters know the node.
fn copy_format(
    from: &NodeSpec,
    to: &NodeSpec,
    mut metadata_id: Option<String>,
) -> anyhow::Result<()> {
    for (from_dir, to_dir) in from.log_dirs.iter().zip(&to.log_dirs) {
        copy_dir(from_dir, to_dir)?;
        let directory_id = match metadata_id.take() {
            Some(id) => id,
            None => random_id()?,
        };
        let file = meta_file(to_dir);
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {file:?}"))?;
        let line = |line: &str| match line.split_once('=') {
            Some(("node.id", _)) => format!("node.id={}\n", to.id),
            Some(("directory.id", _)) => format!("directory.id={directory_id}\n"),
            _ => format!("{line}\n"),
        };
        let text: String = text.lines().map(line).collect();
        fs::write(&file, text).with_context(|| format!("cannot write {file:?}"))?;
    }
    Ok(())
}

fn copy_dir(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {to:?}"))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {from:?}"))? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        if path.is_dir() {
            copy_dir(&path, &to.join(name))?;
        } else {
            fs::copy(&path, to.join(name)).with_context(|| format!("cannot copy {path:?}"))?;
        }
    }
    Ok(())
}

fn meta_file(dir: &Path) -> PathBuf {
    dir.join("meta.properties")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_22_characters_and_no_options() {
        for _ in 0..1000 {
            let id = random_id().unwrap();
            assert_eq!(id.len(), 22);
            assert!(!id.starts_with('-'));
        }
    }

    #[test]
    fn a_copied_format_has_ids_of_its_own() {
        let temp = tempfile::tempdir().unwrap();
        let spec = |id: i32| {
            let dir = temp.path().join(id.to_string());
            let log_dirs = vec![dir.join("data-0"), dir.join("data-1")];
            NodeSpec { id, role: Role::Controller, host: String::new(), dir, log_dirs }
        };
        let (from, to) = (spec(0), spec(1));
        for dir in &from.log_dirs {
            fs::create_dir_all(dir.join("__cluster_metadata-0")).unwrap();
            fs::write(dir.join("__cluster_metadata-0/0.checkpoint"), "voters").unwrap();
            let text =
                "#\nnode.id=0\ndirectory.id=aaaaaaaaaaaaaaaaaaaaaa\nversion=1\ncluster.id=c\n";
            fs::write(dir.join("meta.properties"), text).unwrap();
        }
        copy_format(&from, &to, Some("bbbbbbbbbbbbbbbbbbbbbb".to_owned())).unwrap();
        assert_eq!(directory_id(&to.log_dirs[0]).unwrap(), "bbbbbbbbbbbbbbbbbbbbbb");
        let other = directory_id(&to.log_dirs[1]).unwrap();
        assert!(!["aaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbb"].contains(&other.as_str()));
        let text = fs::read_to_string(to.log_dirs[0].join("meta.properties")).unwrap();
        assert!(text.contains("\nnode.id=1\n") && text.contains("\ncluster.id=c\n"), "{text}");
        assert!(to.log_dirs[0].join("__cluster_metadata-0/0.checkpoint").exists());
    }
}
