//! Which optional tools are on this machine. A missing one changes how a task is done, never
//! silently.

use std::process::{Command, Stdio};

use crate::root;

/// Whether `cargo deny` is there.
pub(crate) fn has_deny() -> bool {
    answers(&["deny", "--version"])
}

/// Whether `cargo nextest` is there.
pub(crate) fn has_nextest() -> bool {
    answers(&["nextest", "--version"])
}

/// Whether `cargo fuzz` is there.
pub(crate) fn has_fuzz() -> bool {
    answers(&["fuzz", "--version"])
}

/// Whether a nightly toolchain is installed: fuzzing needs the sanitizers of nightly.
///
/// Asked of rustup's list and not by `cargo +nightly`, which would install what is missing.
pub(crate) fn has_nightly() -> bool {
    let listed = Command::new("rustup").args(["toolchain", "list"]).output();
    listed.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).lines().any(|line| line.starts_with("nightly"))
    })
}

fn answers(args: &[&str]) -> bool {
    let mut command = Command::new("cargo");
    command.args(args).current_dir(root()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
