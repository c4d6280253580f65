//! A real PostgreSQL, for as long as a test runs.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use testkit::{Process, Reaper};

pub(crate) struct Postgres {
    port: u16,
    bin: PathBuf,
    // Dropped in this order: the process ends before its directory goes.
    _process: Process,
    _reaper: Arc<Reaper>,
    dir: TempDir,
}

impl Postgres {
    /// Starts one with an empty directory. What the machine loses with its power is no concern of tests.
    pub(crate) fn start() -> Self {
        Self::with(&["-F"])
    }

    /// One that waits for the disk, as where it matters.
    pub(crate) fn durable() -> Self {
        Self::with(&[])
    }

    fn with(flags: &[&str]) -> Self {
        let bin = programs();
        let dir = tempfile::Builder::new().prefix("gregor-postgres-").tempdir().unwrap();
        let data = dir.path().join("data");
        fs::create_dir(&data).unwrap();
        let as_other = privileges(&dir);
        let initdb = run(&as_other, &bin.join("initdb"))
            .args(["--auth=trust", "--username=gregor", "--no-sync", "--encoding=UTF8", "-D"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(initdb.status.success(), "{}", String::from_utf8_lossy(&initdb.stderr));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut line = as_other.clone();
        line.push(bin.join("postgres").display().to_string());
        line.extend(["-D".to_owned(), data.display().to_string()]);
        line.extend(["-h", "127.0.0.1", "-k", "", "-c", "max_connections=60"].map(str::to_owned));
        line.extend(flags.iter().map(|&flag| flag.to_owned()));
        line.push("-p".to_owned());
        line.push(port.to_string());
        let reaper = Arc::new(Reaper::start(None).unwrap());
        let log = File::create(dir.path().join("log")).unwrap();
        let process = Process::spawn(&reaper, &line, log).unwrap();
        let postgres = Self { port, bin, _process: process, _reaper: reaper, dir };
        let begun = Instant::now();
        while !postgres.psql("SELECT 1").success() {
            let log = fs::read_to_string(postgres.dir.path().join("log")).unwrap();
            assert!(begun.elapsed() < Duration::from_secs(30), "{log}");
            std::thread::sleep(Duration::from_millis(50));
        }
        postgres
    }

    /// A database of its own for each scenario.
    pub(crate) fn database(&self, name: &str) -> String {
        assert!(self.psql(&format!("CREATE DATABASE {name}")).success());
        format!("postgres://gregor@127.0.0.1:{}/{name}", self.port)
    }

    fn psql(&self, statement: &str) -> std::process::ExitStatus {
        Command::new(self.bin.join("psql"))
            .args(["-h", "127.0.0.1", "-U", "gregor", "-d", "postgres", "-p"])
            .arg(self.port.to_string())
            .args(["-q", "-c", statement])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap()
    }
}

/// Where the programs of the newest PostgreSQL are.
fn programs() -> PathBuf {
    if let Some(dir) = std::env::var_os("GREGOR_POSTGRES_BIN") {
        return dir.into();
    }
    let all = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let version = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str().map(str::to_owned));
        name.and_then(|name| name.parse::<u32>().ok())
    };
    let newest = all.map(|entry| entry.path()).max_by_key(version);
    newest.expect("PostgreSQL is not installed; run tools/prepare test").join("bin")
}

/// PostgreSQL refuses to run as root, so it runs as its own user, to whom the directory is given.
fn privileges(dir: &TempDir) -> Vec<String> {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return Vec::new();
    }
    let done = Command::new("chown").args(["-R", "postgres"]).arg(dir.path()).status().unwrap();
    assert!(done.success());
    ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"].map(str::to_owned).into()
}

fn run(prefix: &[String], program: &std::path::Path) -> Command {
    match prefix.split_first() {
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
        None => Command::new(program),
    }
}
