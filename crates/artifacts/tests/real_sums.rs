//! The embedded pins against the real Kafka in the cache: a fake Maven copies its jars, first unchanged and
//! then with one byte changed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use artifacts::{Environment, Silent, kafka};

/// Copies the jars of a home as Maven does, including agents; `$tamper` is run with the output directory.
const MAVEN: &str = r#"
for one in "$@"; do
    case $one in -DoutputDirectory=*) output=${one#*=} ;; esac
done
mkdir -p "$output"
cp "$home"/libs/*.jar "$home"/agents/*.jar "$output"
[ -e "$machine/tampered.jar" ] && cp "$machine/tampered.jar" "$output/kafka-raft-4.3.1.jar"
true
"#;

#[test]
fn one_byte_in_one_jar_of_kafka_keeps_all_of_it_out_of_the_cache() {
    let real = Environment::from_process();
    let home = kafka::ensure(&real, Some("4.3.1".parse().unwrap()), &Silent).unwrap();
    let temp = tempfile::tempdir().unwrap();
    let bin = temp.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let text = format!("machine={}\nhome={}\n{MAVEN}", temp.path().display(), home.root.display());
    fs::write(bin.join("mvn.script"), text).unwrap();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program.sh");
    symlink(program, bin.join("mvn")).unwrap();
    let mut path = bin.into_os_string();
    path.push(":");
    path.push(real.path.clone().unwrap_or_default());
    let cache = |name: &str| Environment {
        path: Some(path.clone()),
        cache_dir: Some(temp.path().join(name)),
        kafka_home: None,
        ..real.clone()
    };
    let fetch = |environment: &Environment| kafka::ensure(environment, Some(home.version), &Silent);
    fetch(&cache("whole")).unwrap().verify(&Silent).unwrap();

    let mut jar = fs::read(home.root.join("libs/kafka-raft-4.3.1.jar")).unwrap();
    let middle = jar.len() / 2;
    jar[middle] ^= 1;
    fs::write(temp.path().join("tampered.jar"), jar).unwrap();
    let error = fetch(&cache("tampered")).unwrap_err().to_string();
    assert!(error.contains("libs/kafka-raft-4.3.1.jar has SHA-256"), "{error}");
    let left = fs::read_dir(temp.path().join("tampered/kafka")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["4.3.1.lock"]);
}
