//! `images`: the build context of the Dockerfiles, and images from it.
//!
//! The program is built once, Kafka is what `gregor fetch` assembles, and the Dockerfiles only put them together. Files
//! of the context have the same time and the same permissions everywhere, and layers have that time, too: the same
//! inputs are the same layers, byte by byte, except those with class archives.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};
use std::{env, io};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::run::{Line, target};
use crate::{root, sbom};

/// The time of all files in images, 1980-01-01: the first that archives of all formats can express. As in
/// kafka.Dockerfile.
pub(crate) const EPOCH: u64 = 315_532_800;

/// What is copied of a Kafka that `gregor fetch` has assembled. Local mode adds class archives of this machine's Java.
const HOME: [&str; 4] = ["agents", "config", "libs", "manifest"];

/// The Dockerfiles.
const FOLDER: &str = "deploy/docker";

/// The build argument with the base image, which all Dockerfiles have, and no other base.
pub(crate) const BASE: &str = "BASE";

/// The build argument with the version of Kafka.
const KAFKA: &str = "KAFKA";

/// One image to build.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Image {
    file: String,
    /// Name and tag, without a registry.
    pub(crate) tag: String,
    arguments: BTreeMap<&'static str, String>,
}

/// All images, from this base: operator, agent, and a Kafka node for each version.
pub(crate) fn all(base: &str, kafkas: &[String]) -> Vec<Image> {
    let version = env!("CARGO_PKG_VERSION");
    let base = BTreeMap::from([(BASE, base.to_owned())]);
    let file = |name: &str| format!("{FOLDER}/{name}.Dockerfile");
    let ours = ["operator", "agent"].map(|name| Image {
        file: file(name),
        tag: format!("gregor-{name}:{version}"),
        arguments: base.clone(),
    });
    let kafkas = kafkas.iter().map(|kafka| {
        let mut arguments = base.clone();
        arguments.insert(KAFKA, kafka.clone());
        let tag = format!("gregor-kafka:{version}-kafka-{kafka}");
        Image { file: file("kafka"), tag, arguments }
    });
    ours.into_iter().chain(kafkas).collect()
}

impl Image {
    /// Whether two builds are the same image. The JVM writes another class archive each time, so an image with Kafka
    /// differs in the layers of Java and of classes; all other layers are the same.
    pub(crate) fn is_reproducible(&self) -> bool {
        !self.arguments.contains_key(KAFKA)
    }

    /// The command that builds it under this name, with further options.
    pub(crate) fn line(&self, engine: &Engine, name: &str, options: &[&str]) -> Result<Line> {
        let mut line = engine.line.clone().arg("build");
        if engine.kind != Kind::Docker {
            // A layer per instruction, so that what has not changed is not sent again.
            line = line.words("--layers --timestamp").arg(EPOCH.to_string());
        }
        line = line.arg("--file").arg(&self.file);
        for (argument, value) in &self.arguments {
            line = line.arg("--build-arg").arg(format!("{argument}={value}"));
        }
        line = options.iter().fold(line, |line, option| line.arg(*option));
        Ok(line.arg("--tag").arg(name).arg(context()?.display().to_string()))
    }

    /// What it consists of.
    pub(crate) fn bill(&self, engine: &Engine, name: &str) -> Result<Value> {
        let query = ["dpkg-query", "--show", "--showformat", "${Package}\\t${Version}\\n"];
        let mut components = sbom::packages(&engine.output(name, &query)?);
        components.extend(sbom::crates()?);
        if let Some(kafka) = self.arguments.get(KAFKA) {
            components.extend(sbom::jars(kafka)?);
            components.extend(sbom::java(&engine.output(name, &["cat", "/opt/java/release"])?));
        }
        let (title, version) = self.tag.split_once(':').unwrap_or((&self.tag, ""));
        Ok(sbom::bill(title, version, components))
    }
}

/// A program that builds images.
#[derive(Debug)]
pub(crate) struct Engine {
    /// The program, with options for all of its commands.
    pub(crate) line: Line,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Buildah,
    Podman,
    Docker,
}

impl Engine {
    /// The first one in `PATH`.
    pub(crate) fn find() -> Result<Self> {
        let path = env::var_os("PATH").unwrap_or_default();
        let has = |program: &str| env::split_paths(&path).any(|dir| dir.join(program).is_file());
        let all = [("buildah", Kind::Buildah), ("podman", Kind::Podman), ("docker", Kind::Docker)];
        let found = all.into_iter().find(|(program, _)| has(program));
        let (program, kind) = found.context("none of buildah, podman and docker is installed")?;
        Ok(Self { line: Line::new(program), kind })
    }

    /// buildah with these options.
    pub(crate) fn buildah(line: Line) -> Self {
        Self { line, kind: Kind::Buildah }
    }

    /// What a program in an image prints.
    fn output(&self, image: &str, command: &[&str]) -> Result<String> {
        let words = |line: Line| command.iter().fold(line, |line, word| line.arg(*word));
        if self.kind != Kind::Buildah {
            let run = self.line.clone().words("run --rm --entrypoint").arg(command[0]).arg(image);
            return output(&command[1..].iter().fold(run, |line, word| line.arg(*word)));
        }
        let container = output(&self.line.clone().words("from --pull-never").arg(image))?;
        let container = container.trim();
        let printed = output(&words(self.line.clone().arg("run").arg(container).arg("--")));
        output(&self.line.clone().arg("rm").arg(container))?;
        printed
    }
}

/// What a program prints, if it succeeds.
pub(crate) fn output(line: &Line) -> Result<String> {
    let output = line.command().output().with_context(|| format!("cannot run {line}"))?;
    ensure!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The build context of all images.
pub(crate) fn context() -> Result<PathBuf> {
    Ok(target()?.join("images/context"))
}

/// The versions of Kafka with pinned jars, which are those that are tested.
pub(crate) fn kafka_versions() -> Result<Vec<String>> {
    let mut versions = Vec::new();
    for entry in fs::read_dir(root().join("crates/artifacts/kafka")).context("pinned jars")? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        let version = name.strip_prefix("jars-").and_then(|rest| rest.strip_suffix(".sha256"));
        versions.extend(version.map(str::to_owned));
    }
    versions.sort();
    ensure!(!versions.is_empty(), "no Kafka has pinned jars");
    Ok(versions)
}

/// Fills the build context with the program and the Kafka versions that it fetches.
pub(crate) fn fill(program: &Path, kafkas: &[String]) -> Result<()> {
    let context = &context()?;
    if context.exists() {
        fs::remove_dir_all(context).with_context(|| format!("cannot remove {context:?}"))?;
    }
    fs::create_dir_all(context).with_context(|| format!("cannot create {context:?}"))?;
    copy(program, &context.join("gregor"))?;
    for version in kafkas {
        let home = fetch(program, &["kafka", "--version", version])?;
        let target = context.join(format!("kafka-{version}"));
        fs::create_dir(&target).with_context(|| format!("cannot create {target:?}"))?;
        for part in HOME {
            copy(&home.join(part), &target.join(part))?;
        }
        set_time(&target).with_context(|| format!("cannot write to {target:?}"))?;
    }
    Ok(())
}

/// The directory of what `gregor fetch` has fetched.
pub(crate) fn fetch(program: &Path, what: &[&str]) -> Result<PathBuf> {
    let line = what
        .iter()
        .fold(Line::program(program.display().to_string()).arg("fetch"), |line, word| {
            line.arg(*word)
        });
    let mut command = line.words("--output json").command();
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot run {program:?}"))?;
    ensure!(output.status.success(), "gregor fetch {} failed", what.join(" "));
    let answer: Value = serde_json::from_slice(&output.stdout).context("gregor fetch")?;
    let path = answer["path"].as_str().context("gregor fetch printed no path")?;
    Ok(PathBuf::from(path))
}

/// Copies a file or a folder, with our time and without the permissions of this machine.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let failed = || format!("cannot copy {} to {}", from.display(), to.display());
    let metadata = fs::metadata(from).with_context(failed)?;
    if metadata.is_dir() {
        fs::create_dir(to).with_context(failed)?;
        for entry in fs::read_dir(from).with_context(failed)? {
            let name = entry?.file_name();
            copy(&from.join(&name), &to.join(&name))?;
        }
    } else {
        fs::copy(from, to).with_context(failed)?;
    }
    let is_program = metadata.is_dir() || metadata.permissions().mode() & 0o100 != 0;
    let mode = if is_program { 0o755 } else { 0o644 };
    fs::set_permissions(to, Permissions::from_mode(mode)).with_context(failed)?;
    set_time(to).with_context(failed)
}

fn set_time(path: &Path) -> io::Result<()> {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(EPOCH);
    File::open(path)?.set_times(FileTimes::new().set_modified(time).set_accessed(time))
}

/// The base image, which must have a digest: a tag can be moved after a review.
pub(crate) fn check_digest(image: &str) -> Result<()> {
    let digest = image.split_once("@sha256:").filter(|(name, _)| !name.is_empty());
    let Some((_, digest)) = digest else {
        bail!(
            "the base image {image} has no digest, and a tag can be moved: --base IMAGE@sha256:DIGEST"
        );
    };
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    ensure!(
        digest.len() == 64 && digest.bytes().all(is_hex),
        "the digest of the base image {image} is not 64 hexadecimal digits"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_an_image_for_every_version_of_kafka_that_is_tested() {
        let versions = kafka_versions().unwrap();
        assert_eq!(versions, ["4.1.2", "4.3.1"]);
        let images = all("debian@sha256:1", &versions);
        let version = env!("CARGO_PKG_VERSION");
        let tags: Vec<_> = images.iter().map(|image| image.tag.clone()).collect();
        assert_eq!(
            tags,
            [
                format!("gregor-operator:{version}"),
                format!("gregor-agent:{version}"),
                format!("gregor-kafka:{version}-kafka-4.1.2"),
                format!("gregor-kafka:{version}-kafka-4.3.1"),
            ]
        );
        let podman = Engine { line: Line::new("podman"), kind: Kind::Podman };
        let line = images[3].line(&podman, "r.example/kafka:1", &["--no-cache"]).unwrap();
        let expected = "podman build --layers --timestamp 315532800 --file deploy/docker/kafka.Dockerfile \
             --build-arg BASE=debian@sha256:1 --build-arg KAFKA=4.3.1 --no-cache --tag r.example/kafka:1 ";
        assert!(line.to_string().starts_with(expected), "{line}");
    }

    #[test]
    fn every_dockerfile_is_an_image_and_knows_its_arguments_and_the_time() {
        for image in all("debian", &["4.3.1".to_owned()]) {
            let text = fs::read_to_string(root().join(&image.file)).unwrap();
            for argument in image.arguments.keys() {
                assert!(text.contains(&format!("\nARG {argument}=")), "{}: {argument}", image.file);
            }
            let bases = text.lines().filter(|line| line.starts_with("FROM "));
            for base in bases {
                let words: Vec<_> = base.split_whitespace().collect();
                assert_eq!(words[1], "${BASE}", "{}: {base}", image.file);
            }
        }
        let kafka = fs::read_to_string(root().join(FOLDER).join("kafka.Dockerfile")).unwrap();
        assert!(kafka.contains(&format!("ARG SOURCE_DATE_EPOCH={EPOCH}\n")));
    }

    #[test]
    fn a_base_without_a_digest_is_refused() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        check_digest(&format!("debian@{digest}")).unwrap();
        check_digest(&format!("r.example:5000/debian:12@{digest}")).unwrap();
        let check = |base: &str, expected: &str| {
            let error = check_digest(base).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("debian:12.12-slim", "the base image debian:12.12-slim has no digest");
        check("debian@sha256:0a", "is not 64 hexadecimal digits");
        check(&format!("@{digest}"), "has no digest");
        check(&format!("debian@{}", digest.to_uppercase()), "has no digest");
    }

    #[test]
    fn a_copy_has_the_time_and_the_permissions_of_all_copies() {
        let dir = env::temp_dir().join(format!("gregor-images-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("from/libs")).unwrap();
        fs::write(dir.join("from/libs/a.jar"), "jar").unwrap();
        fs::set_permissions(dir.join("from/libs/a.jar"), Permissions::from_mode(0o600)).unwrap();
        copy(&dir.join("from"), &dir.join("to")).unwrap();
        let check = |path: &str, mode| {
            let metadata = fs::metadata(dir.join(path)).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, mode, "{path}");
            let time = metadata.modified().unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            assert_eq!(time.as_secs(), EPOCH, "{path}");
        };
        check("to", 0o755);
        check("to/libs", 0o755);
        check("to/libs/a.jar", 0o644);
        fs::remove_dir_all(dir).unwrap();
    }
}
