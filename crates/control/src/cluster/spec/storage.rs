//! Storage as it was asked for.

use std::collections::BTreeMap;
use std::fmt;

use crate::cluster::quantity::{self, InvalidQuantity};

/// Where the nodes of a pool keep their data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    /// One volume without a number.
    Single(Volume),
    /// Volumes with numbers, in the order in which they were written.
    Jbod(Vec<Volume>),
}

impl Storage {
    /// All volumes.
    #[must_use]
    pub fn volumes(&self) -> &[Volume] {
        match self {
            Self::Single(volume) => std::slice::from_ref(volume),
            Self::Jbod(volumes) => volumes,
        }
    }

    /// Whether any volume is deleted with the pod.
    #[must_use]
    pub fn has_ephemeral(&self) -> bool {
        self.volumes().iter().any(|volume| matches!(volume.disk, Disk::Ephemeral { .. }))
    }
}

/// One volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// Its number; 0 and of no meaning for [`Storage::Single`].
    pub id: u32,
    /// Whether it was asked for that the metadata log is here.
    pub kraft_metadata: bool,
    /// What it is.
    pub disk: Disk,
}

/// What a volume is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disk {
    /// Gone with the pod.
    Ephemeral {
        /// The most that it may hold.
        size_limit: Option<Size>,
    },
    /// Outlives the pod.
    Claim(Claim),
}

impl Disk {
    /// As users write its type.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Ephemeral { .. } => "ephemeral",
            Self::Claim(_) => "persistent-claim",
        }
    }
}

/// A claim for a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// How large.
    pub size: Size,
    /// The storage class; the cluster's default if `None`.
    pub class: Option<String>,
    /// The volume attributes class.
    pub attributes_class: Option<String>,
    /// Labels of the volume to claim.
    pub selector: BTreeMap<String, String>,
    /// Whether it goes with the node.
    pub delete: bool,
}

/// An amount of bytes and how it was written. Two are equal if they are the same amount.
#[derive(Debug, Clone)]
pub struct Size {
    text: String,
    bytes: u64,
}

impl Size {
    /// Reads an amount such as `100Gi`.
    ///
    /// # Errors
    /// If the text is no amount.
    pub fn parse(text: impl Into<String>) -> Result<Self, InvalidQuantity> {
        let text = text.into();
        let bytes = quantity::bytes(&text)?;
        Ok(Self { text, bytes })
    }

    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// In bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl PartialEq for Size {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Size {}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}
