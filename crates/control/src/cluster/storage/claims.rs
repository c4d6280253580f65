//! When a claim grows.

use std::fmt;

use crate::cluster::spec::Size;

/// What is known of a claim that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimFacts {
    /// How much it asks for.
    pub requested_bytes: u64,
    /// Whether it has its volume. Until then nothing of it is changed.
    pub bound: bool,
    /// Whether it is growing (its condition `Resizing`).
    pub resizing: bool,
    /// Whether its file system grows when the pod starts anew (its condition `FileSystemResizePending`).
    pub file_system_pending: bool,
    /// Whether its class lets claims grow: `Some(false)` also if it has no class, `None` if the class could
    /// not be read.
    pub expandable: Option<bool>,
}

/// What to do about the size of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resize {
    /// Nothing.
    Keep,
    /// Ask for this many bytes.
    Grow(u64),
    /// It has no volume yet.
    WaitForVolume,
    /// It is growing.
    WaitForResize,
    /// Its volume has grown; the pod has to be restarted for the file system.
    RestartPod,
    /// It is larger than was asked for, and stays so.
    CannotShrink,
    /// Its class does not let it grow.
    CannotGrow,
    /// Its class could not be read.
    Unknown,
}

/// Decides about the size of a claim.
#[must_use]
pub fn resize(desired: &Size, claim: &ClaimFacts) -> Resize {
    if !claim.bound {
        return Resize::WaitForVolume;
    }
    // While it grows it takes no other size; the file system's turn comes after the volume's.
    if claim.resizing {
        return Resize::WaitForResize;
    }
    match (claim.requested_bytes.cmp(&desired.bytes()), claim.expandable) {
        (std::cmp::Ordering::Less, Some(true)) => Resize::Grow(desired.bytes()),
        _ if claim.file_system_pending => Resize::RestartPod,
        (std::cmp::Ordering::Equal, _) => Resize::Keep,
        (std::cmp::Ordering::Greater, _) => Resize::CannotShrink,
        (std::cmp::Ordering::Less, Some(false)) => Resize::CannotGrow,
        (std::cmp::Ordering::Less, None) => Resize::Unknown,
    }
}

impl Resize {
    /// What to tell of it under `PvcResizingWarning`, with the name of the claim.
    #[must_use]
    pub fn warning(self, claim: &str) -> Option<String> {
        let text = |why: &dyn fmt::Display| Some(format!("claim {claim} is not resized: {why}"));
        match self {
            Self::CannotShrink => text(&"a claim cannot shrink; set its size back"),
            Self::CannotGrow => text(&"its storage class does not allow volumes to grow"),
            Self::Unknown => text(&"its storage class could not be read"),
            Self::Keep
            | Self::Grow(_)
            | Self::WaitForVolume
            | Self::WaitForResize
            | Self::RestartPod => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIM: ClaimFacts = ClaimFacts {
        requested_bytes: 10 << 30,
        bound: true,
        resizing: false,
        file_system_pending: false,
        expandable: Some(true),
    };

    #[test]
    fn claims_grow_and_never_shrink() {
        let rows = [
            ("10Gi", CLAIM, Resize::Keep),
            ("10240Mi", CLAIM, Resize::Keep),
            ("11Gi", CLAIM, Resize::Grow(11 << 30)),
            ("9Gi", CLAIM, Resize::CannotShrink),
            ("11Gi", ClaimFacts { bound: false, ..CLAIM }, Resize::WaitForVolume),
            ("9Gi", ClaimFacts { bound: false, ..CLAIM }, Resize::WaitForVolume),
            ("11Gi", ClaimFacts { resizing: true, ..CLAIM }, Resize::WaitForResize),
            ("10Gi", ClaimFacts { resizing: true, ..CLAIM }, Resize::WaitForResize),
            ("10Gi", ClaimFacts { file_system_pending: true, ..CLAIM }, Resize::RestartPod),
            // Growing again first saves a restart.
            ("11Gi", ClaimFacts { file_system_pending: true, ..CLAIM }, Resize::Grow(11 << 30)),
            ("11Gi", ClaimFacts { expandable: Some(false), ..CLAIM }, Resize::CannotGrow),
            ("11Gi", ClaimFacts { expandable: None, ..CLAIM }, Resize::Unknown),
            ("10Gi", ClaimFacts { expandable: None, ..CLAIM }, Resize::Keep),
            ("9Gi", ClaimFacts { expandable: None, ..CLAIM }, Resize::CannotShrink),
        ];
        for (desired, claim, expected) in rows {
            let desired = Size::parse(desired).unwrap();
            assert_eq!(resize(&desired, &claim), expected, "{desired} {claim:?}");
        }
    }

    #[test]
    fn what_is_not_done_is_said() {
        let rows = [
            (Resize::Keep, None),
            (Resize::Grow(1), None),
            (Resize::WaitForVolume, None),
            (Resize::WaitForResize, None),
            (Resize::RestartPod, None),
            (Resize::CannotShrink, Some("a claim cannot shrink; set its size back")),
            (Resize::CannotGrow, Some("its storage class does not allow volumes to grow")),
            (Resize::Unknown, Some("its storage class could not be read")),
        ];
        for (decision, expected) in rows {
            let expected = expected.map(|why| format!("claim c is not resized: {why}"));
            assert_eq!(decision.warning("c"), expected);
        }
    }
}
