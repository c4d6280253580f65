//! Finds a Java for Kafka.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::environment::is_program;
use crate::{Environment, FetchError};

/// Kafka 4 is compiled for this version.
const MAJOR_MIN: u32 = 17;

/// A Java that can run Kafka.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Java {
    /// The `java` program.
    pub program: PathBuf,
    /// The major version, 17 or more.
    pub major: u32,
    /// The exact build, such as `17.0.15+6-Debian-1deb12u1`, reduced to characters for file names: compiled
    /// classes and archives fit one build only.
    pub build: String,
}

/// Finds a Java of version 17 or newer: the one in `JAVA_HOME`, else the first in `PATH`.
///
/// An unusable `JAVA_HOME` is an error; nothing else is tried.
pub fn find(environment: &Environment) -> Result<Java, FetchError> {
    let program = match &environment.java_home {
        Some(home) => {
            let program = home.join("bin/java");
            if !is_program(&program) {
                return Err(FetchError::JavaHomeWrong(home.clone()));
            }
            program
        }
        None => environment.find_program("java").ok_or(FetchError::JavaMissing)?,
    };
    let answer = ask_version(&program)?;
    let Some(major) = major_version(&answer) else {
        let answer = answer.lines().next().unwrap_or_default().to_owned();
        return Err(FetchError::JavaBroken { program, answer });
    };
    if major < MAJOR_MIN {
        return Err(FetchError::JavaTooOld { program, major });
    }
    Ok(Java { program, major, build: build(&answer) })
}

/// Output of `java -version`, which is on stderr.
fn ask_version(program: &Path) -> Result<String, FetchError> {
    let output = Command::new(program)
        .arg("-version")
        .stdin(Stdio::null())
        .output()
        .map_err(FetchError::io("run", program))?;
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Parses `openjdk version "17.0.15" 2025-04-15` on any line: a JVM may first print options that it picked up
/// from the environment. Up to Java 8 the major version came second ("1.8.0").
fn major_version(answer: &str) -> Option<u32> {
    let quoted =
        answer.lines().find_map(|line| line.split_once("version \"")).map(|(_, rest)| rest)?;
    let mut numbers = quoted.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match numbers.next()?.ok()? {
        1 => numbers.next()?.ok(),
        major => Some(major),
    }
}

/// The build in `OpenJDK Runtime Environment (build 17.0.15+6-Debian-1deb12u1)`; that of the virtual machine
/// follows and may differ. Without one, the whole output serves the purpose.
fn build(answer: &str) -> String {
    let named = answer.split_once("(build ").and_then(|(_, rest)| rest.split([',', ')']).next());
    let fit = |c: char| if c.is_ascii_alphanumeric() || "+-.".contains(c) { c } else { '_' };
    named.unwrap_or(answer).chars().take(80).map(fit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read_from_what_javas_say() {
        let check =
            |answer: &str, expected| assert_eq!(major_version(answer), expected, "{answer}");
        check("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime", Some(17));
        check("java version \"1.8.0_392\"", Some(8));
        check("openjdk version \"25-ea\" 2025-09-16", Some(25));
        check("openjdk version \"21\" 2023-09-19", Some(21));
        check("Picked up JAVA_TOOL_OPTIONS: -Dx=y\nopenjdk version \"21.0.1\"", Some(21));
        check("command not found", None);
        check("", None);
    }

    #[test]
    fn a_build_can_be_a_file_name() {
        let check = |answer: &str, expected: &str| assert_eq!(build(answer), expected);
        check(
            "openjdk version \"17.0.15\"\nOpenJDK Runtime Environment (build 17.0.15+6-Debian-1)\n\
             OpenJDK 64-Bit Server VM (build 17.0.15+6-Debian-1, mixed mode, sharing)",
            "17.0.15+6-Debian-1",
        );
        check("Some VM (build 21/x y, mixed)", "21_x_y");
        check("version \"21\"", "version__21_");
    }
}
