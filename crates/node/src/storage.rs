//! Runs Kafka's own storage tool.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use control::quorum::format::{Format, Voters};

use crate::config::Config;
use crate::home::KafkaHome;

/// The tool's main class.
pub(crate) const TOOL: &str = "kafka.tools.StorageTool";

/// The tool runs for a second: little memory, no optimizing compiler.
const JVM_OPTIONS: [&str; 3] = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];

/// Lines of its output in the error.
const LINES_MAX: usize = 10;

/// Why the disks are not formatted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StorageError {
    #[error("cannot start Java for Kafka's storage tool")]
    Start(#[source] io::Error),
    #[error("Kafka's storage tool failed ({status}): {said}")]
    Failed {
        /// How it ended.
        status: ExitStatus,
        /// What it said at the end.
        said: String,
    },
}

/// Formats the unformatted disks.
pub(crate) async fn format(
    home: &KafkaHome,
    config: &Config,
    format: &Format,
    log4j_file: &Path,
) -> Result<(), StorageError> {
    let options = JVM_OPTIONS.map(str::to_owned).into_iter();
    let options = options.chain([format!("-Dlog4j2.configurationFile={}", log4j_file.display())]);
    let command = home.command(options.collect(), TOOL, arguments(config, format));
    let output = tokio::process::Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(StorageError::Start)?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let all = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&all);
            // Stack frames do not help to correct a configuration.
            let tells = |line: &&str| !line.is_empty() && !line.starts_with("at ");
            let lines: Vec<_> = text.lines().map(str::trim).filter(tells).collect();
            let said = lines[lines.len().saturating_sub(LINES_MAX)..].join(" / ");
            Err(StorageError::Failed { status: output.status, said })
        }
    }
}

/// With `=`, because an id may start with a dash.
fn arguments(config: &Config, format: &Format) -> Vec<OsString> {
    let mut file = OsString::from("--config=");
    file.push(&config.server_file);
    let mut arguments = vec![
        "format".into(),
        format!("--cluster-id={}", config.cluster).into(),
        format!("--release-version={}", config.metadata_version).into(),
        file,
    ];
    match &format.voters {
        Voters::Static => {}
        Voters::NoInitialControllers => arguments.push("--no-initial-controllers".into()),
        Voters::InitialControllers(list) => {
            arguments.push(format!("--initial-controllers={list}").into());
        }
    }
    if format.ignore_formatted {
        arguments.push("--ignore-formatted".into());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use control::node::Roles;
    use control::quorum::format::QuorumMode;
    use model::{ClusterId, NodeId};

    use super::*;

    #[test]
    fn the_tool_is_told_what_was_decided() {
        let list = "0@h:1:9f7Q2Kx1TbeyGn1oVb3o5A";
        let config = Config {
            server_file: "/c/server.config".into(),
            roles: Roles::Controller,
            node: NodeId::new(0).unwrap(),
            metadata_dir: "/d".into(),
            other_dirs: Vec::new(),
            beat_ms: None,
            cluster: ClusterId::new("-ours").unwrap(),
            metadata_version: "4.3-IV0".to_owned(),
            mode: QuorumMode::Dynamic,
            initial: list.parse().unwrap(),
            seen: None,
            replaced: None,
            log4j_file: None,
            jvm_options: Vec::new(),
            metrics_file: None,
        };
        let check = |voters: Voters, ignore_formatted: bool, expected: &[&str]| {
            let all = arguments(&config, &Format { voters, ignore_formatted });
            let common = [
                "format",
                "--cluster-id=-ours",
                "--release-version=4.3-IV0",
                "--config=/c/server.config",
            ];
            assert_eq!(all, [&common, expected].concat());
        };
        check(Voters::Static, false, &[]);
        check(
            Voters::NoInitialControllers,
            true,
            &["--no-initial-controllers", "--ignore-formatted"],
        );
        let initial = Voters::InitialControllers(config.initial.clone());
        check(initial, false, &[&format!("--initial-controllers={list}")]);
    }
}
