//! Errors of the storage provisioner, one variant per attempted operation.

use std::io;
use std::path::PathBuf;

use super::Step;

/// Why a storage operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    #[error("cannot apply the storage class {name}")]
    ApplyClass {
        /// Its name.
        name: &'static str,
        /// What the API server answered.
        #[source]
        source: Box<kube::Error>,
    },
    #[error("cannot read the volume {name}")]
    ReadVolume {
        /// Its name.
        name: String,
        /// What the API server answered.
        #[source]
        source: Box<kube::Error>,
    },
    #[error("cannot create the volume {name}")]
    CreateVolume {
        /// Its name.
        name: String,
        /// What the API server answered.
        #[source]
        source: Box<kube::Error>,
    },
    /// A volume of the same name belongs to another claim.
    #[error("the volume {name} exists already and belongs to another claim; delete it to continue")]
    ForeignVolume {
        /// Its name.
        name: String,
    },
    #[error("cannot change the capacity of the volume {name}")]
    GrowVolume {
        /// Its name.
        name: String,
        /// What the API server answered.
        #[source]
        source: Box<kube::Error>,
    },
    #[error("cannot change the capacity of the claim {claim}")]
    GrowClaim {
        /// Namespace and name.
        claim: String,
        /// What the API server answered.
        #[source]
        source: Box<kube::Error>,
    },
    /// The data was removed, but the volume object could not be deleted.
    #[error("cannot delete the volume {name}")]
    DeleteVolume {
        /// Its name.
        name: String,
        /// What the API server answered.
        #[source]
        source: Box<kube::Error>,
    },
    #[error("cannot read the claim {claim}")]
    ReadClaim {
        /// Namespace and name.
        claim: String,
        /// What the API server answered.
        #[source]
        source: Box<kube::Error>,
    },
    #[error("cannot create the directory {}; check free space and permissions", path.display())]
    MakeDirectory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    #[error("cannot read the directory {}", path.display())]
    ReadDirectory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    #[error("cannot remove the data in {}", path.display())]
    RemoveData {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A directory is not marked as the data of the expected claim.
    #[error(
        "the directory {} is not marked as the data of this claim and is left unchanged; \
         move it away to go on", path.display()
    )]
    ForeignDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// A claim requests something unsupported.
    #[error("{0}")]
    Refused(&'static str),
    /// A file system task was aborted.
    #[error("a file system operation was interrupted")]
    Interrupted(#[source] tokio::task::JoinError),
    /// A test requested to stop here, like a crash.
    #[error("stopped after {0:?}, as requested")]
    Stopped(Step),
}
