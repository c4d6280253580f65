//! The programs of a Kubernetes control plane: etcd, kube-apiserver, kube-controller-manager,
//! kube-scheduler, and kubectl.
//!
//! They are provided by the user (`KUBEBUILDER_ASSETS`), or cached, or built once by Go from two embedded
//! modules that pin every source by its hash. Building takes minutes, so finished programs of an interrupted
//! run are kept.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::cache::Slot;
pub use crate::cache::Source;
use crate::environment::is_program;
use crate::go::{self, Build, Go, Step};
use crate::manifest::{self, Layout};
use crate::{Environment, Event, FetchError, Progress};

/// The version that is built.
pub const VERSION: &str = "1.36.3";

/// The first line of the manifest. The number is increased when programs of an older Gregor must be built
/// again (other flags, another etcd).
const LAYOUT: Layout = Layout {
    header: "gregor kubernetes programs, layout 1",
    noun: "program",
    names: program_names,
    is_whole: is_executable_file,
};

/// A program of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Program {
    /// The API server's store.
    Etcd,
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler: assigns pods to nodes.
    Scheduler,
    /// The command line client.
    Kubectl,
}

impl Program {
    /// All programs, the quickest to build first, so that a misconfiguration shows early.
    pub const ALL: [Self; 5] =
        [Self::Etcd, Self::Kubectl, Self::ApiServer, Self::Scheduler, Self::ControllerManager];

    /// Its file name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
        }
    }

    /// Arguments to print the version.
    const fn version_arguments(self) -> &'static [&'static str] {
        match self {
            Self::Kubectl => &["version", "--client"],
            Self::Etcd | Self::ApiServer | Self::ControllerManager | Self::Scheduler => {
                &["--version"]
            }
        }
    }

    const fn module(self) -> &'static Module {
        match self {
            Self::Etcd => &ETCD,
            Self::ApiServer | Self::ControllerManager | Self::Scheduler | Self::Kubectl => &KUBE,
        }
    }

    fn package(self) -> String {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3".to_owned(),
            _ => format!("k8s.io/kubernetes/cmd/{}", self.name()),
        }
    }
}

/// A Go module that is embedded in this program.
struct Module {
    name: &'static str,
    files: [(&'static str, &'static str); 3],
}

const KUBE: Module = Module {
    name: "control-plane",
    files: [
        ("go.mod", include_str!("../kubernetes/control-plane/go.mod")),
        ("go.sum", include_str!("../kubernetes/control-plane/go.sum")),
        ("tools.go", include_str!("../kubernetes/control-plane/tools.go")),
    ],
};

const ETCD: Module = Module {
    name: "etcd",
    files: [
        ("go.mod", include_str!("../kubernetes/etcd/go.mod")),
        ("go.sum", include_str!("../kubernetes/etcd/go.sum")),
        ("tools.go", include_str!("../kubernetes/etcd/tools.go")),
    ],
};

/// A directory with the five programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    /// The version that kube-apiserver reports, without `v`.
    pub version: String,
    /// The directory.
    pub dir: PathBuf,
    /// Whether Gregor built them or the user provided them.
    pub source: Source,
}

impl Binaries {
    /// The path of a program.
    #[must_use]
    pub fn program(&self, program: Program) -> PathBuf {
        self.dir.join(program.name())
    }

    /// Reads every file and compares it with the manifest. Programs of the user have none; [`ensure`] has run
    /// them.
    pub fn verify(&self, progress: &dyn Progress) -> Result<(), FetchError> {
        progress.report(Event::Verifying { files: Program::ALL.len() });
        match (self.source, self.dir.parent()) {
            (Source::Cache, Some(root)) => manifest::verify(root, &LAYOUT),
            _ => Ok(()),
        }
    }
}

/// Returns the programs, which are built if they are neither provided nor cached.
///
/// Blocks until then. Of two concurrent processes one builds, and the other waits and uses the result.
pub fn ensure(
    environment: &Environment,
    version: Option<&str>,
    progress: &dyn Progress,
) -> Result<Binaries, FetchError> {
    let wanted = version.map(|text| text.trim_start_matches('v'));
    if let Some(dir) = &environment.kubernetes_assets {
        return given(dir, wanted);
    }
    if let Some(wanted) = wanted.filter(|wanted| *wanted != VERSION) {
        return Err(FetchError::NotThePinnedKubernetes { wanted: wanted.to_owned() });
    }
    let slot = Slot {
        dir: environment.cache("kubernetes")?,
        what: &format!("Kubernetes {VERSION}"),
        version: VERSION,
        layout: &LAYOUT,
        sums: None,
        progress,
    };
    let root = slot.ensure(|| {
        let go = go::find(environment, minimum_go())?;
        let staging = slot.lasting_staging()?;
        build_all(&go, &staging, progress)?;
        Ok(staging)
    })?;
    Ok(Binaries { version: VERSION.to_owned(), dir: root.join("bin"), source: Source::Cache })
}

/// Checks the directory that the user provided.
fn given(dir: &Path, wanted: Option<&str>) -> Result<Binaries, FetchError> {
    let refuse = |reason: String| FetchError::NotKubernetesAssets { dir: dir.to_owned(), reason };
    let root = std::path::absolute(dir).map_err(FetchError::io("find", dir))?;
    let mut version = None;
    for program in Program::ALL {
        let file = root.join(program.name());
        if !is_program(&file) {
            return Err(refuse(format!("it has no program {}", program.name())));
        }
        let answer = ask_version(&file, program.version_arguments())
            .map_err(|reason| refuse(format!("{} does not run: {reason}", program.name())))?;
        if program == Program::ApiServer {
            let named = answer.lines().find_map(|line| line.strip_prefix("Kubernetes v"));
            version = named.map(|version| version.trim().to_owned());
        }
    }
    let version =
        version.ok_or_else(|| refuse("kube-apiserver --version printed no version".to_owned()))?;
    match wanted {
        Some(wanted) if wanted != version => Err(FetchError::KubernetesVersionDiffers {
            wanted: wanted.to_owned(),
            found: version,
            dir: root,
        }),
        _ => Ok(Binaries { version, dir: root, source: Source::Given }),
    }
}

fn ask_version(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(output.status.to_string());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Builds missing programs. A program appears in `bin` by one rename, so existing ones are complete.
fn build_all(go: &Go, staging: &Path, progress: &dyn Progress) -> Result<(), FetchError> {
    let (bin, source) = (staging.join("bin"), staging.join("source"));
    // An earlier run may have had other modules: its programs are discarded.
    if write_modules(&source)? == Modules::Changed && bin.exists() {
        fs::remove_dir_all(&bin).map_err(FetchError::io("remove", &bin))?;
    }
    fs::create_dir_all(&bin).map_err(FetchError::io("create", &bin))?;
    let begun = Instant::now();
    let mut downloads = 0;
    for (index, program) in Program::ALL.into_iter().enumerate() {
        let file = bin.join(program.name());
        if file.exists() {
            continue;
        }
        let mut packages = 0;
        let report = |packages| {
            progress.report(Event::Building {
                program: program.name(),
                number: index + 1,
                of: Program::ALL.len(),
                packages,
                elapsed: begun.elapsed(),
            });
        };
        report(packages);
        // With the process id: a Go that outlived a killed process must not write to the same file.
        let output = source.join(format!("{}.{}", program.name(), std::process::id()));
        let build = Build {
            module: &source.join(program.module().name),
            package: &program.package(),
            linker_flags: &linker_flags(program),
            output: &output,
        };
        go.build(&build, |step| match step {
            Step::Downloading(module) => {
                downloads += 1;
                progress.report(Event::Downloaded { count: downloads, file: module });
            }
            Step::Compiled => {
                packages += 1;
                report(packages);
            }
        })?;
        fs::rename(&output, &file).map_err(FetchError::io("create", &file))?;
    }
    fs::remove_dir_all(&source).map_err(FetchError::io("remove", &source))
}

#[derive(PartialEq, Eq)]
enum Modules {
    Same,
    Changed,
}

/// Writes the modules; returns whether they were already there.
fn write_modules(source: &Path) -> Result<Modules, FetchError> {
    let mut modules = Modules::Same;
    for module in [&KUBE, &ETCD] {
        let dir = source.join(module.name);
        fs::create_dir_all(&dir).map_err(FetchError::io("create", &dir))?;
        for (name, text) in module.files {
            let file = dir.join(name);
            if fs::read_to_string(&file).is_ok_and(|there| there == text) {
                continue;
            }
            modules = Modules::Changed;
            fs::write(&file, text).map_err(FetchError::io("write", &file))?;
        }
    }
    Ok(modules)
}

/// Without symbols a program is a third smaller. The linker sets Kubernetes' version; without it the server
/// reports v0.0.0, which breaks clients that compare versions.
fn linker_flags(program: Program) -> String {
    if program == Program::Etcd {
        return "-s -w".to_owned();
    }
    let mut numbers = VERSION.split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let mut flags = "-s -w".to_owned();
    for package in ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"] {
        flags.push_str(&format!(
            " -X {package}.gitVersion=v{VERSION} -X {package}.gitMajor={major} \
             -X {package}.gitMinor={minor} -X {package}.gitTreeState=clean"
        ));
    }
    flags
}

/// The Go version that the module requires, such as `1.26.0`.
fn minimum_go() -> &'static str {
    let (_, text) = KUBE.files[0];
    text.lines().find_map(|line| line.strip_prefix("go ")).unwrap_or("1.26.0")
}

fn program_names(root: &Path) -> Result<Vec<String>, FetchError> {
    let name = |program: Program| format!("bin/{}", program.name());
    let mut names: Vec<_> =
        Program::ALL.into_iter().map(name).filter(|name| root.join(name).exists()).collect();
    if names.len() < Program::ALL.len() {
        let reason = format!("only {} of its programs were built", names.len());
        return Err(FetchError::Damaged { root: root.to_owned(), reason });
    }
    names.sort();
    Ok(names)
}

/// Magic numbers of executables on the systems that Go builds for.
pub(crate) fn is_executable_file(file: &mut File) -> std::io::Result<bool> {
    const ELF: &[u8; 4] = b"\x7fELF";
    const MACH_O: &[u8; 4] = b"\xcf\xfa\xed\xfe";
    let mut begin = [0; 4];
    let read = file.read_exact(&mut begin);
    Ok(read.is_ok() && (&begin == ELF || &begin == MACH_O))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_one_that_the_module_pins() {
        let (_, text) = KUBE.files[0];
        assert!(text.contains(&format!("k8s.io/kubernetes v{VERSION}")));
        assert_eq!(minimum_go().split('.').count(), 3);
    }

    #[test]
    fn the_linker_is_told_the_version() {
        assert_eq!(linker_flags(Program::Etcd), "-s -w");
        let flags = linker_flags(Program::Kubectl);
        assert!(flags.contains("-X k8s.io/component-base/version.gitVersion=v1.36.3 "), "{flags}");
        assert!(flags.contains(".gitMajor=1 ") && flags.contains(".gitMinor=36 "), "{flags}");
        assert!(!flags.contains("  "), "{flags}");
    }
}
