//! Runs Maven and parses its output.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use crate::java::Java;
use crate::lines::read_lines;
use crate::version::POM;
use crate::{Environment, Event, FetchError, KafkaVersion, Progress};

/// Copies Kafka's jars and their dependencies into `staging/libs`.
pub(crate) fn copy_dependencies(
    environment: &Environment,
    java: &Java,
    version: &KafkaVersion,
    staging: &Path,
    progress: &dyn Progress,
) -> Result<(), FetchError> {
    progress.report(Event::Resolving { version });
    let run = Run { environment, java, pom: POM, progress };
    let (status, output) = run.copy(&[format!("-Dkafka.version={version}")], staging)?;
    if status.success() { Ok(()) } else { Err(explain(*version, status, &output)) }
}

/// Copies the jars of a pom and their dependencies into `staging/libs`.
pub(crate) fn copy_libraries(
    environment: &Environment,
    java: &Java,
    pom: &str,
    staging: &Path,
    progress: &dyn Progress,
) -> Result<(), FetchError> {
    let run = Run { environment, java, pom, progress };
    let (status, output) = run.copy(&[], staging)?;
    if status.success() {
        return Ok(());
    }
    Err(FetchError::MavenFailed { status: status.to_string(), line: first_error(&output) })
}

/// One run of Maven.
struct Run<'a> {
    environment: &'a Environment,
    java: &'a Java,
    pom: &'a str,
    progress: &'a dyn Progress,
}

impl Run<'_> {
    /// Copies the dependencies of the pom. Returns Maven's exit status and its output.
    fn copy(
        &self,
        properties: &[String],
        staging: &Path,
    ) -> Result<(ExitStatus, Vec<String>), FetchError> {
        let Self { environment, java, pom: text, progress } = *self;
        let mvn = environment.find_program("mvn").ok_or(FetchError::MavenMissing)?;
        let pom = staging.join("pom.xml");
        std::fs::write(&pom, text).map_err(FetchError::io("write", &pom))?;
        let mut command = Command::new(&mvn);
        command
            // -C: a checksum that differs from the repository's is an error, not a warning.
            .args(["-B", "-U", "-C", "dependency:copy-dependencies", "-DincludeScope=runtime"])
            // Batch mode alone still ends some lines with escape codes.
            .arg("-Dstyle.color=never")
            .args(properties)
            .arg(format!("-DoutputDirectory={}", staging.join("libs").display()))
            .arg("-f")
            .arg(&pom)
            .current_dir(staging)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(path) = &environment.path {
            command.env("PATH", path);
        }
        // Maven then uses the Java that was checked, not another one that it would find first.
        if let Some(home) = java.program.parent().and_then(Path::parent)
            && environment.java_home.is_some()
        {
            command.env("JAVA_HOME", home);
        }
        let child = command.spawn().map_err(FetchError::io("run", &mvn))?;
        let (status, output) = follow(child, progress).map_err(FetchError::io("run", &mvn))?;
        tracing::debug!(%status, lines = output.len(), "Maven finished");
        std::fs::remove_file(&pom).map_err(FetchError::io("remove", &pom))?;
        Ok((status, output))
    }
}

/// Reads both output streams of the child to their end, reports downloads, and waits for it.
fn follow(mut child: Child, progress: &dyn Progress) -> std::io::Result<(ExitStatus, Vec<String>)> {
    // A second thread: a child that fills one pipe while we read the other would block forever.
    let stderr = child.stderr.take().map(|stream| thread::spawn(|| read_lines(stream, |_| ())));
    let mut count = 0;
    let mut output = child.stdout.take().map_or_else(Vec::new, |stream| {
        read_lines(stream, |line| {
            if let Some(file) = downloaded_file(line) {
                count += 1;
                progress.report(Event::Downloaded { count, file });
            }
        })
    });
    output.extend(stderr.and_then(|thread| thread.join().ok()).unwrap_or_default());
    Ok((child.wait()?, output))
}

/// The file name in `[INFO] Downloaded from central: https://…/x.jar (9 kB at 1 kB/s)`.
fn downloaded_file(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("Downloaded from ")?;
    let address = rest.split_once(": ")?.1.split(' ').next()?;
    address.rsplit('/').next()
}

/// Turns Maven's output into an error with a remedy.
fn explain(version: KafkaVersion, status: ExitStatus, output: &[String]) -> FetchError {
    let line = first_error(output);
    let names = |word: &&str| line.contains(*word);
    let lacks_kafka = line.contains("org.apache.kafka:") && line.contains(&version.to_string());
    if lacks_kafka && ["Could not find artifact", "was not found in"].iter().any(names) {
        return FetchError::UnknownVersion { version, line: cause(&line) };
    }
    /// Substrings of Maven's errors when it cannot reach a repository.
    const UNREACHABLE: [&str; 5] = [
        "Could not transfer",
        "Could not resolve",
        "could not be resolved",
        "Cannot access",
        "No plugin found for prefix",
    ];
    if UNREACHABLE.iter().any(names) {
        return FetchError::Unreachable { version, line: cause(&line) };
    }
    FetchError::MavenFailed { status: status.to_string(), line }
}

/// The first error line is the cause; later ones explain how to get more output. If a POM cannot be read,
/// lines without a cause come first.
fn first_error(output: &[String]) -> String {
    const HEADINGS: [&str; 3] =
        ["[ERROR] Some problems were encountered", "The build could not read", "The project "];
    let said = |line: &&String| !line.is_empty();
    let errors = output.iter().filter_map(|line| line.strip_prefix("[ERROR] "));
    let errors = errors.map(str::trim_start).filter(|line| !line.is_empty());
    let mut errors = errors.filter(|line| !HEADINGS.iter().any(|head| line.starts_with(head)));
    let line = errors.next().or_else(|| output.iter().rfind(said).map(String::as_str));
    line.unwrap_or("nothing").trim_end_matches(" -> [Help 1]").to_owned()
}

/// The part of a line from the cause on; each layer of Maven prepends its own sentence.
fn cause(line: &str) -> String {
    let begins = ["Could not find artifact", "Could not transfer", "Cannot access"];
    let at = begins.iter().filter_map(|begin| line.rfind(begin)).max();
    line[at.unwrap_or(0)..].to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    fn explained(output: &[&str]) -> FetchError {
        let output: Vec<_> = output.iter().map(|line| (*line).to_owned()).collect();
        explain(KafkaVersion::default_version(), ExitStatus::from_raw(1 << 8), &output)
    }

    #[test]
    fn a_pom_that_cannot_be_read_is_explained() {
        let error = explained(&[
            "[INFO] Scanning for projects...",
            "[ERROR] [ERROR] Some problems were encountered while processing the POMs:",
            "[ERROR] The build could not read 1 project -> [Help 1]",
            "[ERROR]   ",
            "[ERROR]   The project  (pom.xml) has 1 error",
            "[ERROR]     Non-parseable POM pom.xml: in comment after two dashes @ line 6 -> [Help 2]",
        ]);
        assert!(error.to_string().contains("Non-parseable POM pom.xml"), "{error}");
    }

    #[test]
    fn a_download_is_recognised_by_its_file() {
        let line = "[INFO] Downloaded from central: https://repo/org/x/1/x-1.jar (80 kB at 1 MB/s)";
        assert_eq!(downloaded_file(line), Some("x-1.jar"));
        assert_eq!(downloaded_file("[INFO] Downloading from central: https://repo/x-1.jar"), None);
        assert_eq!(downloaded_file("[INFO] BUILD SUCCESS"), None);
    }

    #[test]
    fn an_artifact_that_is_not_there_is_an_unknown_version() {
        for cause in [
            "Could not find artifact org.apache.kafka:kafka_2.13:jar:4.3.1 in central (https://repo)",
            "org.apache.kafka:kafka_2.13:jar:4.3.1 was not found in https://repo during a previous \
             attempt",
        ] {
            let line =
                format!("[ERROR] Failed to execute goal: Could not resolve: {cause} -> [Help 1]");
            let error = explained(&["[INFO] Scanning", &line, "[ERROR] ", "[ERROR] Re-run"]);
            assert!(matches!(error, FetchError::UnknownVersion { .. }), "{error:?}");
            assert!(!error.to_string().contains("Help"), "{error}");
        }
    }

    #[test]
    fn a_repository_that_does_not_answer_is_unreachable() {
        for line in [
            "[ERROR] Plugin org.apache.maven.plugins:maven-dependency-plugin:3.8.1 or one of its \
             dependencies could not be resolved: Could not transfer artifact from central: Unknown host",
            "[ERROR] Failed to execute goal on project kafka-home: Could not resolve dependencies: \
             Cannot access central in offline mode and the artifact has not been downloaded",
        ] {
            let error = explained(&[line]);
            assert!(matches!(error, FetchError::Unreachable { .. }), "{error:?}");
        }
    }

    #[test]
    fn another_failure_shows_the_last_words() {
        let error = explained(&["[INFO] Scanning", "JAVA_HOME is not defined correctly", ""]);
        let FetchError::MavenFailed { status, line } = error else { panic!("{error:?}") };
        assert_eq!(
            (status.as_str(), line.as_str()),
            ("exit status: 1", "JAVA_HOME is not defined correctly")
        );
    }
}
