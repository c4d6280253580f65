//! The operator in a local Kubernetes: the same installation as anywhere, with programs of this machine in
//! place of images.

use std::path::{Path, PathBuf};

use artifacts::{Environment, KafkaVersion, Progress, kafka};
use control::life::coexist::Selector;
use local::manifests::Manifest;
use operator::install::{self, Installation};

use super::images::{Image, kafka_image, operator_image};
use crate::output::note;

/// Where the installed objects come from, where files have their path.
const PLACE: &str = "gregor install";

/// The operator that is to be installed.
#[derive(Debug)]
pub(crate) struct Operator {
    homes: Vec<(KafkaVersion, PathBuf)>,
    /// The Java of the nodes; pods do not get our environment.
    java_home: Option<PathBuf>,
    /// Where the class archives of the nodes are.
    class_archives: Option<PathBuf>,
}

impl Operator {
    /// Gets the Kafkas that are needed: the usual one, those that were asked for, and those that the
    /// manifests name.
    pub(crate) fn prepare(
        asked: &[KafkaVersion],
        manifests: &[Manifest],
        progress: &dyn Progress,
    ) -> anyhow::Result<Self> {
        let environment = Environment::from_process();
        let first = kafka::ensure(&environment, None, progress)?;
        let mut homes = vec![(first.version, first.root)];
        for version in asked.iter().copied().chain(manifests.iter().filter_map(kafka_version)) {
            if homes.iter().any(|(there, _)| *there == version) {
                continue;
            }
            match kafka::ensure(&environment, Some(version), progress) {
                Ok(home) => homes.push((version, home.root)),
                // The operator says so of the cluster; the others need not suffer.
                Err(error) => note(&format!("cannot get Kafka {version}: {error}")),
            }
        }
        let class_archives = environment.cache_dir.map(|cache| cache.join("class-archives"));
        let operator = Self { homes, java_home: environment.java_home, class_archives };
        operator.make_class_archives();
        Ok(operator)
    }

    /// Makes what lets Kafka start quicker, once for each version. Without it, it starts too.
    fn make_class_archives(&self) {
        let Some(dir) = &self.class_archives else { return };
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
            return;
        };
        for (version, kafka_home) in &self.homes {
            let options = node::ArchiveOptions {
                kafka_home: kafka_home.clone(),
                java_home: self.java_home.clone(),
                dir: dir.clone(),
            };
            if let Err(error) = runtime.block_on(node::make_class_archive(&options)) {
                let error = anyhow::Error::from(error);
                note(&format!("Kafka {version} starts without a class archive: {error:#}"));
            }
        }
    }

    /// The versions of Kafka, as arguments for another `gregor up`.
    pub(crate) fn versions(&self) -> impl Iterator<Item = KafkaVersion> {
        self.homes.iter().map(|(version, _)| *version)
    }

    /// What runs in the pods of the operator and of Kafka nodes.
    pub(crate) fn images(&self, own: &Path) -> Vec<Image> {
        let own = own.display().to_string();
        let mut images = vec![Image::new(&operator_image(), vec![own.clone(), "operator".into()])];
        images.extend(self.homes.iter().map(|(version, home)| {
            let home = home.display().to_string();
            let mut program = vec![own.clone(), "node".into(), "--kafka-home".into(), home];
            let java = self.java_home.iter().map(|dir| ("--java-home", dir));
            let archives = self.class_archives.iter().map(|dir| ("--class-archive", dir));
            for (flag, dir) in java.chain(archives) {
                program.extend([flag.to_owned(), dir.display().to_string()]);
            }
            Image::new(&kafka_image(*version), program)
        }));
        images
    }

    /// What is applied before anything of the user.
    pub(crate) fn manifests(&self) -> anyhow::Result<Vec<Manifest>> {
        let images = self.versions().map(|version| (version.to_string(), kafka_image(version)));
        let installation = Installation {
            namespace: install::NAMESPACE.to_owned(),
            image: operator_image(),
            kafka_images: images.collect(),
            watch_namespaces: Vec::new(),
            replicas: 1,
            operation_timeout_ms: None,
            selector: Selector::default(),
            console: false,
        };
        let objects = install::manifest(&installation);
        Ok(local::manifests::from_objects(PLACE, objects)?)
    }
}

/// Whether an object is part of the installation.
pub(crate) fn is_ours(manifest: &Manifest) -> bool {
    manifest.location.path == Path::new(PLACE)
}

/// Whether a manifest is a Kafka cluster.
pub(crate) fn is_kafka(manifest: &Manifest) -> bool {
    manifest.is("kafka.strimzi.io", "Kafka")
}

/// The version of Kafka that a manifest asks for. What is no version the operator says.
fn kafka_version(manifest: &Manifest) -> Option<KafkaVersion> {
    let version = manifest.object().pointer("/spec/kafka/version")?.as_str()?;
    is_kafka(manifest).then(|| version.parse().ok()).flatten()
}
