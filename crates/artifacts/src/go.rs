//! Finds and runs Go, and parses its output.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::environment::is_program;
use crate::lines::read_lines;
use crate::{Environment, FetchError};

/// A Go that can build the modules.
#[derive(Debug)]
pub(crate) struct Go {
    program: PathBuf,
}

/// Progress of a build.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    /// Started to download a module.
    Downloading(&'a str),
    /// Compiled a package.
    Compiled,
}

/// One call of `go build`.
pub(crate) struct Build<'a> {
    /// The directory of the module.
    pub(crate) module: &'a Path,
    /// The package with the program.
    pub(crate) package: &'a str,
    /// `-ldflags`.
    pub(crate) linker_flags: &'a str,
    /// The file to write.
    pub(crate) output: &'a Path,
}

/// Finds a Go of at least this version: `GREGOR_GO`, else the first in `PATH`, else the one that
/// `tools/prepare` installed in the cache.
///
/// An unusable `GREGOR_GO` is an error; nothing else is tried.
pub(crate) fn find(environment: &Environment, minimum: &str) -> Result<Go, FetchError> {
    if let Some(program) = &environment.go {
        return check(program.clone(), minimum);
    }
    let cached = environment.cache("go").ok().map(|dir| dir.join("bin/go"));
    let candidates = environment.find_program("go").into_iter().chain(cached);
    let mut first_error = None;
    for program in candidates.filter(|program| is_program(program)) {
        match check(program, minimum) {
            Ok(go) => return Ok(go),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.unwrap_or_else(|| FetchError::GoMissing { minimum: minimum.to_owned() }))
}

fn check(program: PathBuf, minimum: &str) -> Result<Go, FetchError> {
    let output = Command::new(&program)
        .arg("version")
        // It must print its own version, not that of a toolchain that it would download.
        .env("GOTOOLCHAIN", "local")
        .stdin(Stdio::null())
        .output()
        .map_err(FetchError::io("run", &program))?;
    let answer = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let minimum = minimum.to_owned();
    match version(&answer) {
        None => Err(FetchError::GoBroken { program, answer, minimum }),
        Some(found) if found < version(&format!("go{minimum}")).unwrap_or_default() => {
            Err(FetchError::GoTooOld { program, answer, minimum })
        }
        Some(_) => Ok(Go { program }),
    }
}

/// Parses `go version go1.26.8 linux/amd64`. The suffix of a pre-release is ignored.
fn version(answer: &str) -> Option<(u32, u32, u32)> {
    let word = answer.split_whitespace().find_map(|word| {
        word.strip_prefix("go").filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    })?;
    let mut numbers = word.split('.').map(|part| {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part[..digits].parse::<u32>().ok()
    });
    let major = numbers.next()??;
    Some((major, numbers.next().flatten()?, numbers.next().flatten().unwrap_or(0)))
}

impl Go {
    /// Builds one program and reports progress. The checksums in the module's `go.sum` are verified, and the
    /// module is not changed.
    pub(crate) fn build(
        &self,
        build: &Build<'_>,
        mut each: impl FnMut(Step<'_>),
    ) -> Result<(), FetchError> {
        let mut child = Command::new(&self.program)
            // No `-trimpath`: a change of such a flag recompiles everything, and the programs name no path of
            // ours.
            .args(["build", "-mod=readonly", "-buildvcs=false", "-v", "-ldflags"])
            .arg(build.linker_flags)
            .arg("-o")
            .arg(build.output)
            .arg(build.package)
            .env("CGO_ENABLED", "0")
            .env("GOTOOLCHAIN", "local")
            .env("GOWORK", "off")
            // Flags of the user could name another go.sum (-modfile) or other sources (-overlay).
            .env("GOFLAGS", "-mod=readonly")
            .current_dir(build.module)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(FetchError::io("run", &self.program))?;
        let output = child.stderr.take().map_or_else(Vec::new, |stream| {
            read_lines(stream, |line| {
                if let Some(step) = step(line) {
                    each(step);
                }
            })
        });
        let status = child.wait().map_err(FetchError::io("run", &self.program))?;
        tracing::debug!(package = build.package, %status, "Go finished");
        if status.success() { Ok(()) } else { Err(explain(build.package, status, &output)) }
    }
}

/// With `-v`, Go prints the path of each package that it compiled on a line of its own.
fn step(line: &str) -> Option<Step<'_>> {
    match line.strip_prefix("go: downloading ") {
        Some(module) => Some(Step::Downloading(module)),
        None if !line.is_empty() && !line.contains([' ', ':', '\t']) => Some(Step::Compiled),
        None => None,
    }
}

/// Turns Go's output into an error with a remedy.
fn explain(package: &str, status: ExitStatus, output: &[String]) -> FetchError {
    let program = package.rsplit('/').next().unwrap_or(package).to_owned();
    let telling = |line: &&String| !line.is_empty() && step(line).is_none();
    let has = |words: &[&str]| {
        output.iter().find(|line| words.iter().any(|word| line.contains(word))).cloned()
    };
    if let Some(line) = has(&["no space left on device"]) {
        return FetchError::DiskFull { program, line };
    }
    if let Some(line) = has(&["SECURITY ERROR", "checksum mismatch"]) {
        return FetchError::GoSumDiffers { program, line };
    }
    /// Substrings of Go's errors when it cannot reach a module.
    const UNREACHABLE: [&str; 7] = [
        "dial tcp",
        "no such host",
        "i/o timeout",
        "proxyconnect",
        "module lookup disabled",
        "TLS handshake",
        "connection reset",
    ];
    if let Some(line) = has(&UNREACHABLE) {
        return FetchError::GoUnreachable { program, line };
    }
    let line = output.iter().rfind(telling).cloned().unwrap_or_else(|| "nothing".to_owned());
    FetchError::GoFailed { program, status: status.to_string(), line }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn versions_are_read_from_what_gos_say() {
        let check = |answer: &str, expected| assert_eq!(version(answer), expected, "{answer}");
        check("go version go1.26.8 linux/amd64", Some((1, 26, 8)));
        check("go version go1.19 linux/amd64", Some((1, 19, 0)));
        check("go version go1.27rc1 linux/arm64", Some((1, 27, 0)));
        check("go version devel go1.27-abcdef linux/amd64", Some((1, 27, 0)));
        check("gofmt", None);
        check("", None);
    }

    #[test]
    fn lines_of_a_build_are_told_apart() {
        assert_eq!(step("k8s.io/api/core/v1"), Some(Step::Compiled));
        let line = "go: downloading k8s.io/api v0.36.3";
        assert_eq!(step(line), Some(Step::Downloading("k8s.io/api v0.36.3")));
        assert_eq!(step("# k8s.io/api"), None);
        assert_eq!(step("a.go:1:2: undefined: x"), None);
    }

    #[test]
    fn failures_say_what_to_do() {
        let check = |output: &str, expected: &str| {
            let lines: Vec<_> = output.lines().map(str::to_owned).collect();
            let error = explain("k8s.io/kubernetes/cmd/kubectl", ExitStatus::from_raw(256), &lines);
            let error = error.to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("a/b\ngo: x: Get \"https://p\": dial tcp: lookup p: no such host", "the network");
        check("verifying k8s.io/api@v0.36.3: checksum mismatch\n\tdownloaded: h1:", "go.sum");
        check("compile: writing output: write $WORK: no space left on device", "disk is full");
        check("a/b\n# a/c\nc.go:1:1: undefined: x\n", "undefined: x");
        check("", "Go said: nothing");
    }
}
