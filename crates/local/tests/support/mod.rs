//! What the tests with a real control plane share.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::path::Path;
use std::process::{Command, Output};

use artifacts::Environment;
use artifacts::kubernetes::{self, Binaries, Program};

/// The programs, which are built by the first test on a machine.
pub(crate) fn binaries() -> anyhow::Result<Binaries> {
    Ok(kubernetes::ensure(&Environment::from_process(), None, &artifacts::Silent)?)
}

/// The real kubectl.
pub(crate) fn kubectl(binaries: &Binaries, kubeconfig: &Path, arguments: &[&str]) -> Output {
    Command::new(binaries.program(Program::Kubectl))
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(arguments)
        // Its discovery cache must not be shared between clusters at the same address.
        .arg("--cache-dir")
        .arg(kubeconfig.with_file_name("kubectl-cache"))
        .output()
        .unwrap()
}

/// What kubectl prints, if it succeeds.
pub(crate) fn kubectl_ok(binaries: &Binaries, kubeconfig: &Path, arguments: &[&str]) -> String {
    let output = kubectl(binaries, kubeconfig, arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "kubectl {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}
