//! Images, and the programs of this machine that stand for them where there is no registry.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use artifacts::KafkaVersion;
use local::kubelet::image::{Images, parse_image};

/// A program that stands for an image, as on the command line.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    name: String,
    program: Vec<String>,
}

impl Image {
    /// A program with its first arguments for an image.
    pub(crate) fn new(name: &str, program: Vec<String>) -> Self {
        Self { name: name.to_owned(), program }
    }
}

impl FromStr for Image {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_image(text).map(|(name, program)| Self { name, program })
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.program.join(" "))
    }
}

/// The programs that stand for images; the last of a name counts.
pub(crate) fn image_table<'a>(own: &Path, images: impl Iterator<Item = &'a Image>) -> Images {
    images.fold(Images::with_own_program(own), |all, image| {
        all.with(&image.name, image.program.clone())
    })
}

/// The default image of the operator.
pub(crate) fn operator_image() -> String {
    format!("gregor-operator:{}", env!("CARGO_PKG_VERSION"))
}

/// The default image of a Kafka node.
pub(crate) fn kafka_image(version: KafkaVersion) -> String {
    format!("gregor-kafka:{}-kafka-{version}", env!("CARGO_PKG_VERSION"))
}

/// The default image of the agent.
pub(crate) fn agent_image() -> String {
    format!("gregor-agent:{}", env!("CARGO_PKG_VERSION"))
}
