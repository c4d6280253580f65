//! What can go wrong with volumes, one variant for each thing that was attempted.

use std::io;
use std::path::PathBuf;

use super::Step;

/// Why something about a volume could not be done.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// A storage class could not be written.
    #[error("the storage class {name} could not be applied")]
    ApplyClass {
        /// Its name.
        name: &'static str,
        /// What the API server answered.
        #[source]
        source: Box<kube::Error>,
    },
    /// A volume object could not be read.
    #[error("the volume {name} could not be read")]
    ReadVolume {
        /// Its name.
        name: String,
        /// What the API server answered.
        #[source]
        source: Box<kube::Error>,
    },
    /// A volume object could not be created.
    #[error("the volume {name} could not be created")]
    CreateVolume {
        /// Its name.
        name: String,
        /// What the API server answered.
        #[source]
        source: Box<kube::Error>,
    },
    /// There is a volume of the same name that belongs to another claim.
    #[error("the volume {name} exists already and belongs to another claim; delete it to go on")]
    ForeignVolume {
        /// Its name.
        name: String,
    },
    /// The capacity of a volume object could not be changed.
    #[error("the capacity of the volume {name} could not be changed")]
    GrowVolume {
        /// Its name.
        name: String,
        /// What the API server answered.
        #[source]
        source: Box<kube::Error>,
    },
    /// The capacity in the status of a claim could not be changed.
    #[error("the capacity of the claim {claim} could not be changed")]
    GrowClaim {
        /// Namespace and name.
        claim: String,
        /// What the API server answered.
        #[source]
        source: Box<kube::Error>,
    },
    /// A volume object could not be deleted after its data was removed.
    #[error("the volume {name} could not be deleted")]
    DeleteVolume {
        /// Its name.
        name: String,
        /// What the API server answered.
        #[source]
        source: Box<kube::Error>,
    },
    /// A claim could not be read.
    #[error("the claim {claim} could not be read")]
    ReadClaim {
        /// Namespace and name.
        claim: String,
        /// What the API server answered.
        #[source]
        source: Box<kube::Error>,
    },
    /// A directory for data could not be made.
    #[error("the directory {} could not be made; check free space and permissions", path.display())]
    MakeDirectory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A directory could not be read.
    #[error("the directory {} could not be read", path.display())]
    ReadDirectory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The data of a volume could not be removed.
    #[error("the data in {} could not be removed", path.display())]
    RemoveData {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A directory is not marked as the data of the claim it was taken for.
    #[error(
        "the directory {} does not say that it belongs to this claim and is left alone; \
         move it away to go on", path.display()
    )]
    ForeignDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// A claim asks for something that cannot be had here.
    #[error("{0}")]
    Refused(&'static str),
    /// Work on the file system was interrupted.
    #[error("work on the file system was interrupted")]
    Interrupted(#[source] tokio::task::JoinError),
    /// A test asked to stop here, as if by a crash.
    #[error("stopped after {0:?}, as asked")]
    Stopped(Step),
}

impl StorageError {
    /// The whole chain of causes in one line, for an event that a person reads.
    pub(crate) fn words(&self) -> String {
        let mut words = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            words = format!("{words}: {error}");
            cause = error.source();
        }
        words
    }
}
