//! `e2e`: tests in containers, on a Kubernetes cluster of several nodes on this machine.
//!
//! The images are built from the Dockerfiles, and the nodes have a real kubelet, containerd and kube-proxy. Nothing of it
//! outlives this task: the cluster is the content of a PID namespace, whose first process ends when its input does, and
//! then the kernel kills the others. Nothing leaves the machine either: the nodes have no uplink.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::images::{self, EPOCH, Engine, output};
use crate::run::{Line, Run, target};
use crate::{console, root, tools};

/// The registry of all images. It does not exist: the nodes have all images, and a pod with another one cannot start.
const REGISTRY: &str = "registry.example/gregor";

/// The base image; a name with a registry is not searched elsewhere.
const BASE: &str = "localhost/debian:e2e";

/// The Debian that the base consists of.
const DEBIAN: &str = "bookworm";

/// Control groups of the nodes.
const GROUP: &str = "gregor-e2e";

/// Until all nodes are Ready, on a machine that does other things as well.
const READY_TIMEOUT: Duration = Duration::from_secs(600);

/// The test program.
pub(crate) const TESTS: &str = "e2e_stories";

/// What to run.
#[derive(Debug, Args)]
pub(crate) struct E2e {
    /// Program to use instead of a release build
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Leave the cluster running after the tests, until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Only tests whose name contains this
    filter: Option<String>,
}

impl E2e {
    pub(crate) fn run(&self) -> Result<()> {
        let dir = target()?.join("e2e");
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {dir:?}"))?;
        let mut run = Run::new("e2e");
        let program = self.program(&mut run)?;
        let helm = tools::program("helm", "e2e")?;
        build_images(&mut run, &dir, &program)?;
        run.step("build-tests", &test_line(&Line::new("cargo test"), &["--no-run"]))?;
        let mut ground = None;
        run.inline("nodes", "tools/e2e/ground", || {
            ground = Some(Ground::start(&dir, &program)?);
            Ok(())
        })?;
        let ground = ground.context("there is no cluster")?;
        let mut arguments = vec!["--", "--nocapture", "--test-threads=1"];
        arguments.extend(self.filter.as_deref());
        let line = test_line(&ground.inside().words("cargo test"), &arguments)
            .env("GREGOR_E2E_DIR", ground.dir.display().to_string())
            .env("GREGOR_E2E_REGISTRY", REGISTRY)
            .env("GREGOR_E2E_HELM", helm);
        let outcome = run.step("tests", &line);
        if self.keep {
            println!("e2e: the cluster runs until this program ends:");
            println!("  export KUBECONFIG={}/kube/admin.conf", ground.dir.display());
            println!("  {}", ground.inside().words("kubectl get pods --all-namespaces"));
            loop {
                thread::park();
            }
        }
        ground.print_memory();
        drop(ground);
        outcome?;
        run.finish();
        Ok(())
    }

    fn program(&self, run: &mut Run) -> Result<PathBuf> {
        if let Some(program) = &self.program {
            return fs::canonicalize(program).with_context(|| format!("cannot find {program:?}"));
        }
        console::build_steps(run)?;
        run.step("program", &Line::new("cargo build --locked --release --package gregor"))?;
        Ok(target()?.join("release/gregor"))
    }
}

/// `cargo test` with the test program, as every part of `make soak` runs it.
fn test_line(cargo: &Line, arguments: &[&str]) -> Line {
    let line = cargo.clone().words("--package gregor --features gregor/soak --test").arg(TESTS);
    arguments.iter().fold(line, |line, argument| line.arg(*argument))
}

/// Builds all images, and those of the cluster itself, into archives.
fn build_images(run: &mut Run, dir: &Path, program: &Path) -> Result<()> {
    let kafkas = images::kafka_versions()?;
    run.inline("context", "cargo xtask e2e", || images::fill(program, &kafkas))?;
    let store = Store { dir };
    store.base(run)?;
    let archives = dir.join("state/images");
    remove(&archives)?;
    fs::create_dir_all(&archives).with_context(|| format!("cannot create {archives:?}"))?;
    for (tool, program) in [("coredns", "coredns"), ("coredns", "pause")] {
        let file = tools::program_of(tool, program, "e2e")?;
        let name = format!("localhost/{program}:e2e");
        run.inline(&name, "cargo xtask e2e", || store.single(&file, program, &name))?;
        store.save(run, &name, &archives)?;
    }
    let engine = store.engine();
    for image in images::all(BASE, &kafkas) {
        let name = format!("{REGISTRY}/{}", image.tag);
        let id = dir.join("image-id").display().to_string();
        run.step(&image.tag, &image.line(&engine, &name, &["--pull-never", "--iidfile", &id])?)?;
        let first = fs::read_to_string(&id).context("image-id")?;
        store.save(run, &name, &archives)?;
        if image.is_reproducible() {
            let options = ["--pull-never", "--no-cache", "--iidfile", &id];
            run.step("again", &image.line(&engine, "localhost/again:e2e", &options)?)?;
            let second = fs::read_to_string(&id).context("image-id")?;
            let tag = &image.tag;
            ensure!(first == second, "{tag} is {first} the first time and {second} the second");
        }
        run.inline("bill", "cargo xtask e2e", || {
            let bill = image.bill(&engine, &name)?;
            let count = bill["components"].as_array().map(Vec::len).unwrap_or_default();
            println!("e2e: {} is {first}, of {count} components", image.tag);
            Ok(())
        })?;
    }
    Ok(())
}

/// Images of these tests, apart from others on this machine.
struct Store<'a> {
    dir: &'a Path,
}

impl Store<'_> {
    fn buildah(&self) -> Line {
        let dir = self.dir.display();
        // Inside another container there are no namespaces for builds.
        Line::new("buildah")
            .words(&format!("--root {dir}/buildah/root --runroot {dir}/buildah/run"))
            .env("BUILDAH_ISOLATION", "chroot")
    }

    fn engine(&self) -> Engine {
        Engine::buildah(self.buildah())
    }

    /// A base image of Debian's packages, as there is no registry. Built once.
    fn base(&self, run: &mut Run) -> Result<()> {
        let archive = self.dir.join("base.tar");
        if !archive.exists() {
            let new = self.dir.join("base.new.tar");
            let line = Line::new("mmdebstrap --mode=root --variant=minbase")
                .arg(DEBIAN)
                .arg(new.display().to_string())
                .env("SOURCE_DATE_EPOCH", EPOCH.to_string());
            let sources = Path::new("/etc/apt/sources.list.d/debian.sources");
            let line =
                if sources.exists() { line.arg(sources.display().to_string()) } else { line };
            run.step("base", &line)?;
            fs::rename(&new, &archive).with_context(|| format!("cannot create {archive:?}"))?;
        }
        if succeeds(&self.buildah().words("inspect --type image").arg(BASE)) {
            return Ok(());
        }
        run.inline("base-image", "cargo xtask e2e", || {
            let container = self.empty()?;
            output(
                &self
                    .buildah()
                    .words("add --quiet")
                    .arg(&container)
                    .arg(archive.display().to_string())
                    .arg("/"),
            )?;
            output(&self.buildah().words("config --cmd bash").arg(&container))?;
            self.commit(&container, BASE)
        })
    }

    /// An image with one program.
    fn single(&self, file: &Path, program: &str, name: &str) -> Result<()> {
        let container = self.empty()?;
        let target = format!("/{program}");
        let copy = self.buildah().words("copy --quiet").arg(&container);
        output(&copy.arg(file.display().to_string()).arg(&target))?;
        let config = self.buildah().words("config --user 65532:65532 --entrypoint");
        output(&config.arg(format!("[\"{target}\"]")).arg(&container))?;
        self.commit(&container, name)
    }

    fn empty(&self) -> Result<String> {
        Ok(output(&self.buildah().words("from scratch"))?.trim().to_owned())
    }

    fn commit(&self, container: &str, name: &str) -> Result<()> {
        let commit = self.buildah().words("commit --quiet --rm --timestamp").arg(EPOCH.to_string());
        output(&commit.arg(container).arg(name))?;
        Ok(())
    }

    fn save(&self, run: &mut Run, name: &str, archives: &Path) -> Result<()> {
        let file = archives.join(format!("{}.tar", name.replace(['/', ':'], "_")));
        let target = format!("docker-archive:{}:{name}", file.display());
        run.step("archive", &self.buildah().words("push --quiet").arg(name).arg(target))
    }
}

fn succeeds(line: &Line) -> bool {
    line.command().output().is_ok_and(|output| output.status.success())
}

/// The cluster. Dropping it kills everything in it.
struct Ground {
    dir: PathBuf,
    process: Child,
    /// The first process of the PID namespace, as this one sees it.
    first: u32,
}

impl Ground {
    fn start(dir: &Path, program: &Path) -> Result<Self> {
        let state = dir.join("state");
        for old in ["etcd", "pki", "kube", "logs", "run", "volumes"] {
            remove(&state.join(old))?;
        }
        for n in 1..10 {
            remove(&state.join(format!("n{n}")))?;
        }
        remove_groups();
        let bin = state.join("bin");
        remove(&bin)?;
        fs::create_dir_all(&bin).with_context(|| format!("cannot create {bin:?}"))?;
        link_programs(&bin, program)?;
        let mut process = Command::new("unshare")
            .args(["--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--net", "--uts"])
            .arg(root().join("tools/e2e/ground"))
            .arg(&state)
            .env("GREGOR_E2E_GROUP", GROUP)
            .stdin(Stdio::piped())
            .spawn()
            .context("cannot run unshare; these tests need root")?;
        let begun = Instant::now();
        let mut ready = false;
        while !ready {
            if let Some(status) = process.try_wait().context("cannot wait for the cluster")? {
                bail!("the cluster did not start ({status}); its logs are in {state:?}");
            }
            if begun.elapsed() > READY_TIMEOUT {
                let _ = process.kill();
                bail!("the nodes are not Ready after {READY_TIMEOUT:?}; logs are in {state:?}");
            }
            thread::sleep(Duration::from_millis(200));
            ready = state.join("ready").exists();
        }
        let children = format!("/proc/{0}/task/{0}/children", process.id());
        let children = fs::read_to_string(children).context("cannot find the first process")?;
        let first = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
        let first = first.context("unshare has no child")?;
        Ok(Self { dir: state, process, first })
    }

    /// Runs a program on the machine of the control plane: in its network, among its processes.
    fn inside(&self) -> Line {
        Line::new("nsenter --net --target").arg(self.first.to_string())
    }

    /// Resident memory of the programs of the cluster, except pods.
    fn print_memory(&self) {
        let mut all = Vec::new();
        for entry in fs::read_dir(self.dir.join("run")).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().trim_end_matches(".pid").to_owned();
            all.push(name);
        }
        all.sort();
        println!("e2e: started {}", all.join(", "));
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // unshare kills its child when it is killed, and with the first process all others of the namespace end.
        let _ = self.process.kill();
        let _ = self.process.wait();
        // Their control groups are empty a moment later.
        for _ in 0..50 {
            if remove_groups() {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

/// The programs of the nodes and of the control plane, in one folder.
fn link_programs(bin: &Path, program: &Path) -> Result<()> {
    let mut folders = vec![images::fetch(program, &["kubernetes"])?];
    for (tool, program) in [("node", "kubelet"), ("containerd", "containerd")] {
        let file = tools::program_of(tool, program, "e2e")?;
        folders.extend(file.parent().map(Path::to_owned));
    }
    for folder in folders {
        let bins = if folder.join("bin").is_dir() { folder.join("bin") } else { folder };
        for entry in fs::read_dir(&bins).with_context(|| format!("cannot read {bins:?}"))? {
            let entry = entry?;
            let link = bin.join(entry.file_name());
            std::os::unix::fs::symlink(entry.path(), &link)
                .with_context(|| format!("cannot link {link:?}"))?;
        }
    }
    Ok(())
}

fn remove(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {dir:?}"))
        }
        _ => Ok(()),
    }
}

/// Removes the control groups of nodes that are gone; returns whether there are none left. The kernel keeps those with
/// processes.
fn remove_groups() -> bool {
    let mut clean = true;
    for controller in fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
        for group in fs::read_dir(controller.path()).into_iter().flatten().flatten() {
            if group.file_name().to_string_lossy().starts_with(GROUP) {
                clean &= remove_tree(&group.path());
            }
        }
    }
    clean
}

/// Control groups are removed by rmdir alone, the innermost first.
fn remove_tree(dir: &Path) -> bool {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    fs::remove_dir(dir).is_ok()
}
