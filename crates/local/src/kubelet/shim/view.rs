//! The container's file system: the host's, with the pod's volumes mounted at their paths.
//!
//! Mount points are created without modifying the host: a directory that lacks one is covered by a tmpfs,
//! into which all entries of the host's directory are bind mounted again, plus the new mount point. A pure
//! function plans the steps, which are then executed in a mount namespace of the process that becomes the
//! container's first process.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use host::error::chain;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::SigSet;
use rustix::process::Signal;

use super::{AttemptDir, Error, Mount, Spec};
use crate::kubelet::files;

/// Where the host's file system is mounted during assembly.
const HOST: &str = "/.gregor-host";

/// Type of a path on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Absent,
    Directory,
    File,
    Link(PathBuf),
}

/// The host's file system, read-only.
trait Host {
    fn kind(&self, path: &Path) -> Kind;
    fn children(&self, path: &Path) -> Vec<PathBuf>;
}

/// A step of the assembly. `at` is a path in the container.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Op {
    /// Covers a directory with a tmpfs, with the host's permissions.
    Cover { at: PathBuf },
    /// Creates a directory and its parents unless it exists.
    Directory { at: PathBuf },
    /// Creates an empty file unless it exists.
    File { at: PathBuf },
    /// Creates a symbolic link.
    Link { at: PathBuf, target: PathBuf },
    /// Bind mounts a path of the host.
    Bind { source: PathBuf, at: PathBuf, read_only: bool, must: bool },
}

/// Plans the host's file system with additional `mounts`.
fn plan(mounts: &[Mount], host: &dyn Host) -> Vec<Op> {
    let mut mounts: Vec<_> =
        mounts.iter().map(|mount| (resolve(&mount.destination, host), mount)).collect();
    // A mount inside of a volume comes after the volume.
    mounts.sort_by_key(|(at, _)| at.components().count());
    let mut covered = BTreeSet::from([PathBuf::from("/")]);
    for (index, (at, mount)) in mounts.iter().enumerate() {
        let in_volume = mounts[..index].iter().any(|(outer, _)| at.starts_with(outer));
        let fits = host.kind(at) == host.kind(&mount.source);
        if !in_volume && !fits {
            covered.insert(deepest_directory(at, host));
        }
    }
    let mut ops: Vec<Op> = covered.iter().flat_map(|directory| mirror(directory, host)).collect();
    for (at, mount) in mounts {
        let (at, source) = (at.clone(), mount.source.clone());
        ops.push(match host.kind(&mount.source) {
            Kind::Directory => Op::Directory { at: at.clone() },
            Kind::File | Kind::Link(_) | Kind::Absent => Op::File { at: at.clone() },
        });
        ops.push(Op::Bind { source, at, read_only: mount.read_only, must: true });
    }
    ops
}

/// Covers a directory and mounts all of the host's entries into it again.
fn mirror(directory: &Path, host: &dyn Host) -> Vec<Op> {
    let mut ops = Vec::new();
    if directory != Path::new("/") {
        ops.push(Op::Cover { at: directory.to_owned() });
    }
    for child in host.children(directory) {
        let at = child.clone();
        let bind =
            Op::Bind { source: child.clone(), at: at.clone(), read_only: false, must: false };
        match host.kind(&child) {
            Kind::Absent => {}
            Kind::Link(target) => ops.push(Op::Link { at, target }),
            Kind::Directory => ops.extend([Op::Directory { at }, bind]),
            Kind::File => ops.extend([Op::File { at }, bind]),
        }
    }
    ops
}

/// Resolves the host's symbolic links in a path whose end need not exist.
fn resolve(path: &Path, host: &dyn Host) -> PathBuf {
    // The kernel's limit.
    const LINKS_MAX: usize = 40;
    let mut links = 0;
    let mut todo: Vec<_> = path.components().rev().map(|c| c.as_os_str().to_owned()).collect();
    let mut done = PathBuf::from("/");
    while let Some(name) = todo.pop() {
        match Path::new(&name).components().next() {
            Some(Component::Normal(_)) => {}
            Some(Component::RootDir) => {
                done = PathBuf::from("/");
                continue;
            }
            Some(Component::ParentDir) => {
                done.pop();
                continue;
            }
            Some(Component::CurDir | Component::Prefix(_)) | None => continue,
        }
        let next = done.join(&name);
        match host.kind(&next) {
            Kind::Link(target) if links < LINKS_MAX => {
                links += 1;
                todo.extend(target.components().rev().map(|c| c.as_os_str().to_owned()));
            }
            Kind::Link(_) | Kind::Absent | Kind::Directory | Kind::File => done = next,
        }
    }
    done
}

/// The deepest existing directory above `at`.
fn deepest_directory(at: &Path, host: &dyn Host) -> PathBuf {
    let above = at.ancestors().skip(1).find(|path| host.kind(path) == Kind::Directory);
    above.unwrap_or(Path::new("/")).to_owned()
}

/// The file system of this process.
#[derive(Debug)]
struct Here;

impl Host for Here {
    fn kind(&self, path: &Path) -> Kind {
        let Ok(metadata) = fs::symlink_metadata(path) else {
            return Kind::Absent;
        };
        if metadata.is_symlink() {
            return fs::read_link(path).map_or(Kind::Absent, Kind::Link);
        }
        if metadata.is_dir() { Kind::Directory } else { Kind::File }
    }

    fn children(&self, path: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        paths
    }
}

/// Becomes the container's first process. Returns only on failure, with the reason.
///
/// Standard input is a pipe to the shim: a zero byte followed by end of file means that the program runs;
/// anything else is the reason why it does not.
#[must_use]
pub fn inner(dir: &AttemptDir) -> Error {
    let (error, pipe) = match take_pipe() {
        Ok(mut pipe) => match become_container(dir, &mut pipe) {
            Ok(never) => match never {},
            Err(error) => (error, Some(pipe)),
        },
        Err(error) => (error, None),
    };
    if let Some(mut pipe) = pipe {
        let _ = pipe.write_all(chain(&error).as_bytes());
    }
    error
}

/// Keeps the pipe, and redirects the program's standard input from /dev/null.
fn take_pipe() -> Result<fs::File, Error> {
    let pipe = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)
        .map_err(Error::system("keep the pipe to the shim"))?;
    let null = fs::File::open("/dev/null").map_err(Error::system("open /dev/null"))?;
    rustix::stdio::dup2_stdin(null).map_err(Error::system("redirect standard input"))?;
    Ok(pipe.into())
}

fn become_container(dir: &AttemptDir, pipe: &mut fs::File) -> Result<Infallible, Error> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(Error::system("set the parent death signal"))?;
    // If the shim died before the line above, the pipe has no reader, and this process exits here.
    pipe.write_all(&[0]).map_err(Error::system("write to the shim"))?;
    let spec_path = dir.spec();
    let spec: Spec = files::read_json(&spec_path)
        .map_err(Error::file(&spec_path))?
        .ok_or(Error::NoSpec(spec_path))?;
    let ops = plan(&spec.mounts, &Here);
    namespaces(&spec)?;
    build(&dir.root(), &ops)?;
    exec(&spec.argv, &spec.env, spec.working_dir.as_deref())
}

/// Replaces this process with a program.
pub(super) fn exec(
    argv: &[String],
    env: &[(String, String)],
    working_dir: Option<&str>,
) -> Result<Infallible, Error> {
    let directory = Path::new(working_dir.unwrap_or("/"));
    std::env::set_current_dir(directory).map_err(Error::file(directory))?;
    let (program, arguments) = argv.split_first().ok_or(Error::Command {
        program: String::new(),
        source: std::io::Error::other("neither the container nor its image specifies a program"),
    })?;
    // Our parent blocks signals to read them, and the mask is inherited: a program that does not clear it
    // would never receive SIGTERM.
    SigSet::empty().thread_set_mask().map_err(Error::system("unblock signals"))?;
    let error = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(env.iter().map(|(name, value)| (name, value)))
        .exec();
    Err(Error::Command { program: program.clone(), source: error })
}

fn namespaces(spec: &Spec) -> Result<(), Error> {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let mut flags = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS;
    if uid != 0 {
        flags |= CloneFlags::CLONE_NEWUSER;
    }
    unshare(flags).map_err(Error::system(
        "create a mount namespace (without root, user namespaces must be allowed)",
    ))?;
    if uid != 0 {
        let map = |file: &str, text: String| {
            let path = PathBuf::from(format!("/proc/self/{file}"));
            fs::write(&path, text).map_err(Error::file(&path))
        };
        map("setgroups", "deny".to_owned())?;
        map("uid_map", format!("{uid} {uid} 1"))?;
        map("gid_map", format!("{gid} {gid} 1"))?;
    }
    nix::unistd::sethostname(&spec.hostname).map_err(Error::system("set the host name"))?;
    // Mounts here are invisible outside; unmounts outside propagate here.
    bind_call(None, Path::new("/"), MsFlags::MS_SLAVE | MsFlags::MS_REC)
}

fn build(root: &Path, ops: &[Op]) -> Result<(), Error> {
    let tmpfs = Some("tmpfs");
    mount(tmpfs, root, tmpfs, MsFlags::empty(), Some("mode=0755"))
        .map_err(Error::system("mount an empty file system"))?;
    let host = root.join(&HOST[1..]);
    fs::create_dir(&host).map_err(Error::file(&host))?;
    nix::unistd::pivot_root(root, &host).map_err(Error::system("change the root directory"))?;
    std::env::set_current_dir("/").map_err(Error::system("go to the root directory"))?;
    for op in ops {
        apply(op)?;
    }
    umount2(HOST, MntFlags::MNT_DETACH).map_err(Error::system("unmount the host's root"))?;
    fs::remove_dir(HOST).map_err(Error::file(Path::new(HOST)))
}

fn apply(op: &Op) -> Result<(), Error> {
    match op {
        Op::Cover { at } => cover(at),
        Op::Directory { at } => fs::create_dir_all(at).map_err(Error::file(at)),
        Op::File { at } => make_file(at),
        Op::Link { at, target } => std::os::unix::fs::symlink(target, at).map_err(Error::file(at)),
        Op::Bind { source, at, read_only, must } => {
            let bound = bind(source, at, *read_only);
            // An entry of the host may have been removed since it was listed.
            if *must { bound } else { Ok(()) }
        }
    }
}

fn on_host(path: &Path) -> PathBuf {
    Path::new(HOST).join(path.strip_prefix("/").unwrap_or(path))
}

fn cover(at: &Path) -> Result<(), Error> {
    let host = on_host(at);
    let mode = fs::metadata(&host).map_err(Error::file(at))?.permissions().mode() & 0o7777;
    let options = format!("mode={mode:o}");
    mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::empty(), Some(options.as_str()))
        .map_err(Error::system("cover a directory"))
}

fn make_file(at: &Path) -> Result<(), Error> {
    if fs::symlink_metadata(at).is_ok() {
        return Ok(());
    }
    if let Some(parent) = at.parent() {
        fs::create_dir_all(parent).map_err(Error::file(parent))?;
    }
    fs::File::create(at).map(drop).map_err(Error::file(at))
}

fn bind(source: &Path, at: &Path, read_only: bool) -> Result<(), Error> {
    bind_call(Some(&on_host(source)), at, MsFlags::MS_BIND | MsFlags::MS_REC)?;
    if !read_only {
        return Ok(());
    }
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
    bind_call(None, at, flags | kept_flags(at))
}

/// In a user namespace the flags of a mount cannot be removed, not even by omitting them.
fn kept_flags(at: &Path) -> MsFlags {
    use rustix::fs::StatVfsMountFlags as Vfs;
    let has = rustix::fs::statvfs(at).map_or(Vfs::empty(), |stat| stat.f_flag);
    let pairs = [
        (Vfs::NOSUID, MsFlags::MS_NOSUID),
        (Vfs::NODEV, MsFlags::MS_NODEV),
        (Vfs::NOEXEC, MsFlags::MS_NOEXEC),
    ];
    let kept = pairs.into_iter().filter(|(vfs, _)| has.contains(*vfs));
    kept.fold(MsFlags::empty(), |flags, (_, flag)| flags | flag)
}

fn bind_call(source: Option<&Path>, at: &Path, flags: MsFlags) -> Result<(), Error> {
    mount(source, at, None::<&str>, flags, None::<&str>)
        .map_err(|errno| Error::Mount { at: at.to_owned(), source: errno.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Directories end with a slash; links have an arrow.
    struct Fake(&'static [&'static str]);

    impl Host for Fake {
        fn kind(&self, path: &Path) -> Kind {
            let path = path.to_str().unwrap();
            if path == "/" {
                return Kind::Directory;
            }
            let kinds = self.0.iter().find_map(|line| {
                let (name, target) = line.split_once(" -> ").unwrap_or((line, ""));
                match name.strip_suffix('/') {
                    Some(name) if name == path => Some(Kind::Directory),
                    None if name == path && target.is_empty() => Some(Kind::File),
                    None if name == path => Some(Kind::Link(target.into())),
                    _ => None,
                }
            });
            kinds.unwrap_or(Kind::Absent)
        }

        fn children(&self, path: &Path) -> Vec<PathBuf> {
            let paths = self.0.iter().map(|line| {
                PathBuf::from(line.split(" -> ").next().unwrap().trim_end_matches('/'))
            });
            paths.filter(|child| child.parent() == Some(path)).collect()
        }
    }

    const HOST: Fake = Fake(&[
        "/bin -> usr/bin",
        "/etc/",
        "/etc/hosts",
        "/etc/ssl/",
        "/run/",
        "/run/lock/",
        "/tmp/",
        "/usr/",
        "/var/",
        "/var/run -> /run",
        "/vol/",
        "/file",
    ]);

    fn show(op: &Op) -> String {
        let path = |path: &PathBuf| path.display().to_string();
        match op {
            Op::Cover { at } => format!("cover {}", path(at)),
            Op::Directory { at } => format!("dir {}", path(at)),
            Op::File { at } => format!("file {}", path(at)),
            Op::Link { at, target } => format!("link {} {}", path(at), path(target)),
            Op::Bind { source, at, read_only, .. } => {
                format!("bind{} {} {}", if *read_only { "-ro" } else { "" }, path(source), path(at))
            }
        }
    }

    /// The steps after those for the host's top level.
    #[track_caller]
    fn check(mounts: &[(&str, &str)], expected: &[&str]) {
        let base = plan(&[], &HOST).len();
        let mount = |(source, destination): &(&str, &str)| Mount {
            source: source.into(),
            destination: destination.into(),
            read_only: false,
        };
        let mounts: Vec<_> = mounts.iter().map(mount).collect();
        let shown: Vec<_> = plan(&mounts, &HOST)[base..].iter().map(show).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn without_mounts_the_host_is_seen() {
        let shown: Vec<_> = plan(&[], &HOST).iter().map(show).collect();
        assert_eq!(shown[..3], ["link /bin usr/bin", "dir /etc", "bind /etc /etc"]);
        assert_eq!(shown[shown.len() - 2..], ["file /file", "bind /file /file"]);
    }

    #[test]
    fn a_directory_that_is_there_is_mounted_over() {
        check(&[("/vol", "/tmp")], &["dir /tmp", "bind /vol /tmp"]);
        check(&[("/file", "/etc/hosts")], &["file /etc/hosts", "bind /file /etc/hosts"]);
    }

    #[test]
    fn a_new_directory_at_the_top_needs_no_cover() {
        check(&[("/vol", "/data/a")], &["dir /data/a", "bind /vol /data/a"]);
    }

    #[test]
    fn a_directory_that_lacks_the_mount_point_is_covered_and_shown_again() {
        #[rustfmt::skip]
        check(&[("/vol", "/etc/app/config")], &[
            "cover /etc", "file /etc/hosts", "bind /etc/hosts /etc/hosts", "dir /etc/ssl",
            "bind /etc/ssl /etc/ssl", "dir /etc/app/config", "bind /vol /etc/app/config",
        ]);
    }

    #[test]
    fn links_of_the_host_are_followed() {
        #[rustfmt::skip]
        check(&[("/vol", "/var/run/secrets/x")], &[
            "cover /run", "dir /run/lock", "bind /run/lock /run/lock", "dir /run/secrets/x",
            "bind /vol /run/secrets/x",
        ]);
    }

    #[test]
    fn a_mount_in_a_volume_comes_after_it_and_covers_nothing() {
        #[rustfmt::skip]
        check(&[("/vol", "/data/sub/deep"), ("/vol", "/data")], &[
            "dir /data", "bind /vol /data", "dir /data/sub/deep", "bind /vol /data/sub/deep",
        ]);
    }

    #[test]
    fn a_directory_over_a_file_of_the_host_covers_what_is_above() {
        let shown = plan(
            &[Mount { source: "/vol".into(), destination: "/etc/hosts".into(), read_only: true }],
            &HOST,
        );
        let shown: Vec<_> = shown.iter().map(show).collect();
        assert!(shown.contains(&"cover /etc".to_owned()), "{shown:?}");
        assert_eq!(shown.last().unwrap(), "bind-ro /vol /etc/hosts");
    }

    #[test]
    fn links_in_a_circle_end() {
        let circle = Fake(&["/a -> /b", "/b -> /a"]);
        resolve(Path::new("/a/x"), &circle);
    }
}
