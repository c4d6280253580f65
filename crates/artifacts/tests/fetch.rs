//! Fetching Kafka with fake `java` and `mvn` scripts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, mpsc};
use std::thread;

use artifacts::kafka::{self, KafkaHome, Source};
use artifacts::{Environment, Event, FetchError, KafkaVersion, Progress, Silent};

/// Prints what a real one prints.
const JAVA_17: &str = r#"echo 'openjdk version "17.0.15" 2025-04-15' >&2"#;

/// Copies a prepared jar into the output directory, under the names that Maven would use.
const MAVEN: &str = r#"
for one in "$@"; do
    case $one in
        -Dkafka.version=*) version=${one#*=} ;;
        -DoutputDirectory=*) output=${one#*=} ;;
    esac
done
echo '[INFO] Scanning for projects...'
echo run >> "$machine/runs"
mkdir -p "$output"
for name in kafka_2.13 kafka-clients kafka-metadata kafka-raft kafka-tools; do
    cp "$machine/small.jar" "$output/$name-$version.jar"
    echo "[INFO] Downloaded from central: https://repo/$name-$version.jar (1 kB at 1 kB/s)"
done
for name in slf4j-api log4j-core log4j-slf4j-impl scala-library jmx_prometheus_javaagent; do
    cp "$machine/small.jar" "$output/$name-1.0.jar"
done
"#;

/// A machine with its own `PATH` and cache.
struct Machine {
    temp: tempfile::TempDir,
    environment: Environment,
}

impl Machine {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let path = |name: &str| temp.path().join(name);
        fs::write(path("small.jar"), small_jar()).unwrap();
        let environment = Environment {
            path: Some(path("bin").into_os_string()),
            cache_dir: Some(path("cache")),
            allow_unpinned: true,
            ..Environment::default()
        };
        Self { temp, environment }
    }

    /// A machine with working tools.
    fn whole() -> Self {
        Self::new().program("bin/java", JAVA_17).program("bin/mvn", MAVEN)
    }

    fn program(self, name: &str, script: &str) -> Self {
        let file = self.path(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let text = self.script(script);
        fs::write(file.with_file_name(format!("{}.script", file_name(&file))), text).unwrap();
        symlink(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program.sh"), file).unwrap();
        self
    }

    /// The script, with the machine's directory in a variable.
    fn script(&self, script: &str) -> String {
        format!("machine={}\n{script}\n", self.temp.path().display())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    fn fetch(&self) -> Result<KafkaHome, FetchError> {
        kafka::ensure(&self.environment, None, &Silent)
    }

    fn error(&self) -> String {
        self.fetch().unwrap_err().to_string()
    }

    fn maven_runs(&self) -> usize {
        fs::read_to_string(self.path("runs")).unwrap_or_default().lines().count()
    }

    /// The content of the cache, without the lock file.
    fn cached(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("cache/kafka")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| file_name(&entry.unwrap().path())).collect();
        names.retain(|name| !name.ends_with(".lock"));
        names.sort();
        names
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// The smallest archive with one entry: an empty file called `a`.
fn small_jar() -> Vec<u8> {
    let header = b"\x14\0\0\0\0\0\0\0\x21\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0";
    let mut zip = [b"PK\x03\x04".as_slice(), header, b"a"].concat();
    let offset = u32::try_from(zip.len()).unwrap();
    zip.extend([b"PK\x01\x02\x14\0".as_slice(), header, &[0; 14], b"a"].concat());
    let length = u32::try_from(zip.len()).unwrap() - offset;
    zip.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
    zip.extend([length.to_le_bytes(), offset.to_le_bytes()].concat());
    zip.extend([0, 0]);
    zip
}

/// Records progress events.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Progress for Heard {
    fn report(&self, event: Event<'_>) {
        let name = match event {
            Event::Damaged { reason, .. } => format!("damaged: {reason}"),
            Event::Resolving { version } => format!("resolving {version}"),
            Event::Downloaded { count, file } => format!("{count} {file}"),
            Event::Verifying { files } => format!("verifying {files}"),
            other => panic!("{other:?}"),
        };
        self.0.lock().unwrap().push(name);
    }
}

#[test]
fn a_home_is_assembled_once_and_found_afterwards() {
    let machine = Machine::whole();
    let heard = Heard::default();
    let home = kafka::ensure(&machine.environment, None, &heard).unwrap();
    assert_eq!(home.version, KafkaVersion::default_version());
    assert_eq!(home.root, machine.path("cache/kafka/4.3.1"));
    assert_eq!(home.source, Source::Cache);
    assert_eq!(home.class_path(), format!("{}/libs/*", home.root.display()));
    assert!(fs::read_to_string(home.log4j_config()).unwrap().contains("gregor.log.level"));
    let agent = home.jmx_agent().unwrap();
    assert_eq!(agent, home.root.join("agents/jmx_prometheus_javaagent-1.0.jar"));
    assert!(!home.root.join("libs/jmx_prometheus_javaagent-1.0.jar").exists());
    let heard = heard.0.into_inner().unwrap();
    assert_eq!(heard[..2], ["resolving 4.3.1", "1 kafka_2.13-4.3.1.jar"]);
    assert_eq!(heard.last().unwrap(), "verifying 10");

    assert_eq!(machine.fetch().unwrap(), home);
    assert_eq!(machine.maven_runs(), 1);
    assert_eq!(machine.cached(), ["4.3.1"]);
    home.verify(&Silent).unwrap();
}

#[test]
fn another_version_gets_a_home_of_its_own() {
    let machine = Machine::whole();
    machine.fetch().unwrap();
    let version = "4.1.2".parse().unwrap();
    let home = kafka::ensure(&machine.environment, Some(version), &Silent).unwrap();
    assert!(home.root.join("libs/kafka-clients-4.1.2.jar").exists());
    assert_eq!(machine.cached(), ["4.1.2", "4.3.1"]);
}

#[test]
fn a_damaged_home_is_replaced() {
    let machine = Machine::whole();
    let home = machine.fetch().unwrap();
    fs::write(home.root.join("libs/kafka-raft-4.3.1.jar"), b"").unwrap();
    let heard = Heard::default();
    kafka::ensure(&machine.environment, None, &heard).unwrap();
    let first = heard.0.into_inner().unwrap().remove(0);
    assert!(first.starts_with("damaged: libs/kafka-raft-4.3.1.jar has 0 bytes"), "{first}");
    home.verify(&Silent).unwrap();
    assert_eq!(machine.cached(), ["4.3.1"]);
}

#[test]
fn a_changed_jar_of_the_same_size_is_found_when_asked_for() {
    let machine = Machine::whole();
    let home = machine.fetch().unwrap();
    let mut jar = small_jar();
    jar[10] ^= 1;
    fs::write(home.root.join("libs/kafka-raft-4.3.1.jar"), jar).unwrap();
    machine.fetch().unwrap();
    let error = home.verify(&Silent).unwrap_err().to_string();
    assert!(
        error.contains("libs/kafka-raft-4.3.1.jar is not the jar that was downloaded"),
        "{error}"
    );
    assert!(error.ends_with("delete it and fetch it again"), "{error}");
}

#[test]
fn what_an_interrupted_run_left_is_removed() {
    let machine = Machine::whole();
    let left = machine.path("cache/kafka/.staging-4.3.1-12345");
    fs::create_dir_all(left.join("libs")).unwrap();
    fs::write(left.join("libs/kafka_2.13-4.3.1.jar"), b"half").unwrap();
    machine.fetch().unwrap();
    assert_eq!(machine.cached(), ["4.3.1"]);
}

#[test]
fn of_two_at_once_one_fetches_and_the_other_waits() {
    struct Tell(mpsc::Sender<String>);
    impl Progress for Tell {
        fn report(&self, event: Event<'_>) {
            let _ = self.0.send(format!("{event:?}"));
        }
    }
    // Maven continues only after the other process has reported that it waits.
    let gated = format!("while [ ! -e \"$machine/gate\" ]; do sleep 0.05; done\n{MAVEN}");
    let machine = Machine::new().program("bin/java", JAVA_17).program("bin/mvn", &gated);
    let (sender, events) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..2 {
            let (environment, tell) = (&machine.environment, Tell(sender.clone()));
            scope.spawn(move || kafka::ensure(environment, None, &tell).unwrap());
        }
        let mut seen = [events.recv().unwrap(), events.recv().unwrap()];
        fs::write(machine.path("gate"), "").unwrap();
        seen.sort();
        assert!(seen[0].starts_with("Resolving") && seen[1].starts_with("Waiting"), "{seen:?}");
    });
    assert_eq!(machine.maven_runs(), 1);
    assert_eq!(machine.cached(), ["4.3.1"]);
}

#[test]
fn a_missing_java_is_named_with_what_to_do() {
    assert_eq!(
        Machine::new().program("bin/mvn", MAVEN).error(),
        "Java was not found: install a JDK 17 or newer (Debian: apt-get install \
         openjdk-17-jre-headless) or set JAVA_HOME"
    );
}

#[test]
fn a_java_that_will_not_do_is_refused_with_the_reason() {
    let check = |script: &str, expected: &str| {
        let machine = Machine::new().program("bin/java", script).program("bin/mvn", MAVEN);
        let error = machine.error();
        assert!(error.contains(expected), "{error}");
    };
    check(r#"echo 'openjdk version "11.0.2"' >&2"#, "is Java 11, and Kafka needs 17 or newer");
    check("echo oops >&2; exit 1", "printed no version (\"oops\")");
}

#[test]
fn java_home_wins_over_the_path_and_must_be_right() {
    let mut machine = Machine::new().program("bin/java", "exit 1");
    machine.environment.java_home = Some(machine.path("jdk"));
    let error = artifacts::java::find(&machine.environment).unwrap_err().to_string();
    assert!(error.contains("has no bin/java"), "{error}");
    let machine = machine.program("jdk/bin/java", JAVA_17);
    let java = artifacts::java::find(&machine.environment).unwrap();
    assert_eq!((java.program, java.major), (machine.path("jdk/bin/java"), 17));
}

#[test]
fn a_missing_maven_is_named_with_what_to_do() {
    let error = Machine::new().program("bin/java", JAVA_17).error();
    assert!(error.starts_with("Maven was not found"), "{error}");
    assert!(error.contains("apt-get install maven"), "{error}");
}

#[test]
fn a_failing_maven_leaves_nothing_behind() {
    let script = "echo '[ERROR] Could not transfer artifact x: Unknown host repo'; exit 1";
    let machine = Machine::new().program("bin/java", JAVA_17).program("bin/mvn", script);
    let error = machine.error();
    assert!(error.contains("check the network"), "{error}");
    assert!(error.ends_with("(Maven said: Could not transfer artifact x: Unknown host repo)"));
    assert!(machine.cached().is_empty());
}

#[test]
fn a_jar_that_was_cut_short_is_not_accepted() {
    let machine = Machine::whole();
    let whole = small_jar();
    fs::write(machine.path("small.jar"), &whole[..whole.len() - 1]).unwrap();
    assert!(machine.error().contains("is not a complete jar"));
    assert!(machine.cached().is_empty());
}

#[test]
fn a_maven_that_copies_too_little_is_not_believed() {
    let machine = Machine::new().program("bin/java", JAVA_17).program("bin/mvn", "exit 0");
    let error = machine.error();
    assert!(error.contains("Maven copied no libs/kafka_2.13-4.3.1.jar"), "{error}");
}

#[test]
fn a_given_home_is_used_as_it_is() {
    let mut machine = Machine::new();
    let root = machine.path("opt/kafka");
    fs::create_dir_all(root.join("libs")).unwrap();
    machine.environment.kafka_home = Some(root.clone());
    assert!(machine.error().contains("it has no libs/kafka_2.13-*.jar"));
    fs::write(root.join("libs/kafka_2.13-4.2.1.jar"), small_jar()).unwrap();
    assert!(machine.error().contains("it has no libs/kafka-clients-4.2.1.jar"));
    fs::write(root.join("libs/kafka-clients-4.2.1.jar"), small_jar()).unwrap();

    let home = machine.fetch().unwrap();
    assert_eq!((home.version.to_string().as_str(), home.source), ("4.2.1", Source::Given));
    assert_eq!((&home.root, home.jmx_agent()), (&root, None));
    assert!(home.log4j_config().exists() && !home.log4j_config().starts_with(&root));
    home.verify(&Silent).unwrap();

    let wanted = Some("4.3.1".parse().unwrap());
    let error = kafka::ensure(&machine.environment, wanted, &Silent).unwrap_err().to_string();
    assert!(error.contains("Kafka 4.3.1 was requested") && error.contains("is Kafka 4.2.1"));
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let mut machine = Machine::whole();
    fs::write(machine.path("file"), "").unwrap();
    machine.environment.cache_dir = Some(machine.path("file"));
    assert!(machine.error().contains("cannot create"));
    machine.environment.cache_dir = None;
    assert!(machine.error().contains("set GREGOR_CACHE_DIR"));
}

/// A machine whose Maven copies the pinned jars; unpinned versions are not allowed.
fn pinned_machine() -> Machine {
    let open = Machine::whole();
    let sums = open.fetch().unwrap().sums().unwrap();
    let mut machine = Machine::whole();
    machine.environment.allow_unpinned = false;
    machine.environment.pinned_jars = vec![("4.3.1".to_owned(), sums)];
    machine
}

#[test]
fn jars_that_are_as_pinned_are_accepted() {
    let machine = pinned_machine();
    machine.fetch().unwrap();
    assert_eq!(machine.cached(), ["4.3.1"]);
}

#[test]
fn a_jar_that_differs_from_its_pin_is_named_and_nothing_is_kept() {
    let machine = pinned_machine();
    let check = |change: &str, expected: &str| {
        let script = format!("{MAVEN}\n{change}");
        fs::write(machine.path("bin/mvn.script"), machine.script(&script)).unwrap();
        let error = machine.error();
        assert!(error.contains(expected), "{error}");
        assert!(error.starts_with("the downloaded jars of Kafka 4.3.1 do not match"), "{error}");
        assert!(machine.cached().is_empty(), "{:?}", machine.cached());
    };
    // Still a complete archive, with another timestamp.
    let mut tampered = small_jar();
    tampered[10] ^= 1;
    fs::write(machine.path("tampered.jar"), tampered).unwrap();
    check(
        r#"/bin/cp "$machine/tampered.jar" "$output/kafka-raft-4.3.1.jar""#,
        "libs/kafka-raft-4.3.1.jar has SHA-256",
    );
    check(
        r#"/bin/cp "$machine/tampered.jar" "$output/jmx_prometheus_javaagent-1.0.jar""#,
        "agents/jmx_prometheus_javaagent-1.0.jar has SHA-256",
    );
    check(
        r#"/bin/cp "$machine/small.jar" "$output/more-1.0.jar""#,
        "libs/more-1.0.jar is not pinned",
    );
}

#[test]
fn a_pinned_jar_that_does_not_arrive_is_named() {
    let mut machine = pinned_machine();
    let [(_, sums)] = machine.environment.pinned_jars.as_mut_slice() else { panic!("one version") };
    *sums += &format!("{}  libs/zstd-jni-1.5.jar\n", "0".repeat(64));
    let error = machine.error();
    assert!(error.contains("libs/zstd-jni-1.5.jar is missing"), "{error}");
    assert!(machine.cached().is_empty());
}

#[test]
fn a_version_without_pins_is_refused_unless_it_is_asked_for() {
    let mut machine = pinned_machine();
    let fetch = |machine: &Machine| {
        kafka::ensure(&machine.environment, Some("4.1.2".parse().unwrap()), &Silent)
    };
    let error = fetch(&machine).unwrap_err().to_string();
    assert!(error.starts_with("no checksums of Kafka 4.1.2 are pinned in this gregor"), "{error}");
    assert!(error.contains("--allow-unpinned"), "{error}");
    assert_eq!((machine.maven_runs(), machine.cached().len()), (0, 0));
    machine.environment.allow_unpinned = true;
    fetch(&machine).unwrap();
    // A version that was downloaded deliberately is used afterwards.
    machine.environment.allow_unpinned = false;
    fetch(&machine).unwrap();
}

#[test]
fn a_home_that_was_fetched_before_it_was_pinned_is_fetched_again_if_it_differs() {
    let mut machine = pinned_machine();
    let pinned = std::mem::take(&mut machine.environment.pinned_jars);
    machine.environment.allow_unpinned = true;
    let mut tampered = small_jar();
    tampered[10] ^= 1;
    fs::write(machine.path("small.jar"), tampered).unwrap();
    machine.fetch().unwrap();
    fs::write(machine.path("small.jar"), small_jar()).unwrap();
    machine.environment.pinned_jars = pinned;
    let heard = Heard::default();
    let home = kafka::ensure(&machine.environment, None, &heard).unwrap();
    let first = heard.0.into_inner().unwrap().remove(0);
    assert!(
        first.starts_with("damaged: agents/jmx_prometheus_javaagent-1.0.jar has SHA-256"),
        "{first}"
    );
    home.verify(&Silent).unwrap();
}

#[test]
fn maven_is_told_to_refuse_files_whose_checksums_differ() {
    let strict = format!("case \" $* \" in *' -C '*) ;; *) exit 9 ;; esac\n{MAVEN}");
    let machine = Machine::new().program("bin/java", JAVA_17).program("bin/mvn", &strict);
    machine.fetch().unwrap();
}
