//! `dist`: builds the release program, and images from base images that are pinned by digest.
//!
//! A tag can be moved after a review; a digest cannot. Every base image in the Dockerfiles is a build
//! argument, and an image is built only if each has a digest.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::run::{Line, Run};
use crate::{console, root};

/// The build argument of the Kafka image, which differs by version.
const KAFKA_IMAGE: &str = "KAFKA_IMAGE";

/// Programs that build images, in order of preference. All accept the same options.
const ENGINES: [&str; 3] = ["buildah", "podman", "docker"];

/// Base images.
#[derive(Debug, Args)]
pub(crate) struct Dist {
    /// Base image of an ARG of the Dockerfiles, with its digest; may be repeated
    #[arg(long = "base", value_name = "ARG=IMAGE@sha256:DIGEST")]
    bases: Vec<String>,
    /// Apache's image of a version of Kafka, with its digest; may be repeated
    #[arg(long = "kafka", value_name = "VERSION=IMAGE@sha256:DIGEST")]
    kafkas: Vec<String>,
}

/// One image to build.
#[derive(Debug, PartialEq, Eq)]
struct Image {
    file: String,
    tag: String,
    bases: BTreeMap<String, String>,
}

impl Dist {
    pub(crate) fn run(&self) -> Result<()> {
        let images = self.images(&root().join("deploy/docker"))?;
        let mut run = Run::new("dist");
        console::build_steps(&mut run)?;
        run.step("program", &Line::new("cargo build --locked --release --package gregor"))?;
        let engine = find_engine();
        let lines: Vec<_> =
            images.iter().map(|image| image.line(engine.unwrap_or(ENGINES[0]))).collect();
        if engine.is_none() {
            lines.iter().for_each(|line| println!("{line}"));
            bail!("no image was built: none of {} is installed", ENGINES.join(", "));
        }
        for (image, line) in images.iter().zip(&lines) {
            run.step(&image.tag, line)?;
        }
        run.finish();
        Ok(())
    }

    /// All images, with verified base images.
    fn images(&self, dockerfiles: &Path) -> Result<Vec<Image>> {
        let bases = pairs(&self.bases, "--base ARG=IMAGE@sha256:DIGEST")?;
        let kafkas = pairs(&self.kafkas, "--kafka VERSION=IMAGE@sha256:DIGEST")?;
        ensure!(!kafkas.is_empty(), "no Kafka image is given: --kafka VERSION=IMAGE@sha256:DIGEST");
        let version = env!("CARGO_PKG_VERSION");
        let mut images = Vec::new();
        for name in ["operator", "agent", "kafka"] {
            let file = format!("{name}.Dockerfile");
            let text = fs::read_to_string(dockerfiles.join(&file)).with_context(|| file.clone())?;
            let needed = base_arguments(&text).with_context(|| file.clone())?;
            let image = |tag: String, given: &BTreeMap<String, String>| -> Result<Image> {
                let bases = choose(&needed, given).with_context(|| file.clone())?;
                Ok(Image { file: format!("deploy/docker/{file}"), tag, bases })
            };
            if !needed.iter().any(|argument| argument == KAFKA_IMAGE) {
                images.push(image(format!("gregor-{name}:{version}"), &bases)?);
                continue;
            }
            for (kafka, base) in &kafkas {
                let mut given = bases.clone();
                given.insert(KAFKA_IMAGE.to_owned(), base.clone());
                images.push(image(format!("gregor-{name}:{version}-kafka-{kafka}"), &given)?);
            }
        }
        let is_used = |name: &&String| images.iter().any(|image| image.bases.contains_key(*name));
        if let Some(unknown) = bases.keys().find(|name| !is_used(name)) {
            bail!("no Dockerfile has a base image {unknown}");
        }
        Ok(images)
    }
}

impl Image {
    fn line(&self, engine: &str) -> Line {
        let mut line = Line::program(engine).arg("build").arg("--file").arg(&self.file);
        for (name, base) in &self.bases {
            line = line.arg("--build-arg").arg(format!("{name}={base}"));
        }
        line.arg("--tag").arg(&self.tag).arg(".")
    }
}

/// `NAME=VALUE`, by name.
fn pairs(words: &[String], form: &str) -> Result<BTreeMap<String, String>> {
    let pair = |word: &String| {
        let (name, value) =
            word.split_once('=').with_context(|| format!("{word} is not {form}"))?;
        Ok((name.to_owned(), value.to_owned()))
    };
    words.iter().map(pair).collect()
}

/// The build arguments with the base images of a Dockerfile. Every base image must be one.
fn base_arguments(dockerfile: &str) -> Result<Vec<String>> {
    let mut arguments = Vec::new();
    for line in dockerfile.lines().filter_map(|line| line.strip_prefix("FROM ")) {
        let base = line.split_whitespace().next().unwrap_or_default();
        let argument = base.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
        let argument =
            argument.with_context(|| format!("base image {base} is not a build argument"))?;
        let declared = format!("ARG {argument}=");
        let is_declared = dockerfile.lines().any(|line| line.starts_with(&declared));
        ensure!(is_declared, "{declared}… is missing");
        arguments.push(argument.to_owned());
    }
    ensure!(!arguments.is_empty(), "the Dockerfile has no base image");
    Ok(arguments)
}

/// Looks up base images, each of which must have a digest.
fn choose(needed: &[String], given: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
    let mut bases = BTreeMap::new();
    for name in needed {
        let form = format!("--base {name}=IMAGE@sha256:DIGEST");
        let image = given.get(name).with_context(|| format!("no base image is given: {form}"))?;
        let digest = image.split_once("@sha256:").filter(|(name, _)| !name.is_empty());
        let digest = digest.map(|(_, digest)| digest).with_context(|| {
            format!("the base image {image} has no digest, and a tag can be moved: {form}")
        })?;
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        ensure!(
            digest.len() == 64 && digest.bytes().all(is_hex),
            "the digest of the base image {image} is not 64 hexadecimal digits"
        );
        bases.insert(name.clone(), image.clone());
    }
    Ok(bases)
}

/// The first engine in `PATH`.
fn find_engine() -> Option<&'static str> {
    let path = env::var_os("PATH")?;
    let has = |engine: &&str| env::split_paths(&path).any(|dir| dir.join(engine).is_file());
    ENGINES.into_iter().find(|engine| has(engine))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest() -> String {
        format!("sha256:{}", "0a".repeat(32))
    }

    fn dist(bases: &[(&str, &str)]) -> Dist {
        let pinned = |(name, image): &(&str, &str)| format!("{name}={image}@{}", digest());
        let kafkas = vec![format!("4.3.1=apache/kafka:4.3.1@{}", digest())];
        Dist { bases: bases.iter().map(pinned).collect(), kafkas }
    }

    const BASES: [(&str, &str); 4] = [
        ("RUST_IMAGE", "rust"),
        ("DEBIAN_IMAGE", "debian"),
        ("MAVEN_IMAGE", "maven"),
        ("JRE_IMAGE", "jre"),
    ];

    fn images(dist: &Dist) -> Result<Vec<Image>> {
        dist.images(&root().join("deploy/docker"))
    }

    #[test]
    fn bases_with_digests_are_accepted_for_all_images() {
        let images = images(&dist(&BASES)).unwrap();
        let tags: Vec<_> = images.iter().map(|image| image.tag.clone()).collect();
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            tags,
            [
                format!("gregor-operator:{version}"),
                format!("gregor-agent:{version}"),
                format!("gregor-kafka:{version}-kafka-4.3.1"),
            ]
        );
        let line = images[2].line("podman").to_string();
        let kafka = format!("--build-arg KAFKA_IMAGE=apache/kafka:4.3.1@{}", digest());
        assert!(line.starts_with("podman build --file deploy/docker/kafka.Dockerfile"), "{line}");
        assert!(line.contains(&kafka), "{line}");
    }

    #[test]
    fn a_base_without_a_digest_is_refused() {
        let check = |base: &str, expected: &str| {
            let mut dist = dist(&BASES[1..]);
            dist.bases.push(base.to_owned());
            let error = format!("{:#}", images(&dist).unwrap_err());
            assert!(error.contains(expected), "{error}");
        };
        check(
            "RUST_IMAGE=rust:1.95.0-bookworm",
            "the base image rust:1.95.0-bookworm has no digest",
        );
        check("RUST_IMAGE=rust@sha256:0a", "is not 64 hexadecimal digits");
        check(&format!("RUST_IMAGE=@{}", digest()), "has no digest");
        check("RUST_IMAGE", "RUST_IMAGE is not --base ARG=IMAGE@sha256:DIGEST");
        check(&format!("OTHER=x@{}", digest()), "no base image is given: --base RUST_IMAGE=");
    }

    #[test]
    fn a_kafka_image_without_a_digest_and_none_at_all_are_refused() {
        let kafkas = vec!["4.3.1=apache/kafka:4.3.1".to_owned()];
        let error = images(&Dist { kafkas, ..dist(&BASES) }).unwrap_err();
        assert!(format!("{error:#}").contains("apache/kafka:4.3.1 has no digest"), "{error:#}");
        let error = images(&Dist { kafkas: Vec::new(), ..dist(&BASES) }).unwrap_err();
        assert!(error.to_string().starts_with("no Kafka image is given"), "{error}");
    }

    #[test]
    fn a_base_that_no_dockerfile_has_is_refused() {
        let mut dist = dist(&BASES);
        dist.bases.push(format!("OTHER=x@{}", digest()));
        let error = images(&dist).unwrap_err().to_string();
        assert_eq!(error, "no Dockerfile has a base image OTHER");
    }

    #[test]
    fn a_dockerfile_whose_base_is_no_argument_is_refused() {
        for text in ["FROM debian:12\n", "FROM ${A}\n", "ARG A=x\nFROM ${B}\n", "RUN true\n"] {
            assert!(base_arguments(text).is_err(), "{text}");
        }
        assert_eq!(base_arguments("ARG A=x\nFROM ${A} AS b\n").unwrap(), ["A"]);
    }
}
