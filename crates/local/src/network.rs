//! The loopback addresses of a local Kubernetes.
//!
//! Several of them on one machine must not share addresses for services and pods, so each has a network
//! number, stored in its state directory. A number is claimed by listening on one of its addresses: the claim
//! ends with the process, in any way.

use std::fs::{self, DirBuilder};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use host::file::{self, Survives};

use crate::kubelet::address::Range;

/// Maximum number of networks on a machine.
const NETWORKS: u8 = 32;

/// Services of network n are in 127.(160+n).0.0/16, nodes and pods in 127.(192+n).0.0/16.
const SERVICES: u8 = 160;
const PODS: u8 = 192;

/// A network is claimed by listening on this port: nothing else uses it on this address.
const CLAIM_PORT: u16 = 64_999;

/// Many times what a process needs to execute another program.
const CLAIM_PATIENCE: Duration = Duration::from_secs(2);

/// The addresses of a local Kubernetes, claimed until drop.
#[derive(Debug)]
pub struct Network {
    number: u8,
    _claim: TcpListener,
}

/// Why no network could be claimed.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    #[error("cannot read or write {path}")]
    File {
        /// Where it is kept.
        path: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    #[error("{path} does not contain a network number; delete it if nothing runs here")]
    NotANumber {
        /// Where it is kept.
        path: String,
    },
    /// The addresses of this state directory are in use.
    #[error(
        "the addresses {services} of this state directory are in use by another gregor; stop it first"
    )]
    Taken {
        /// The range of its services.
        services: String,
    },
    #[error("{NETWORKS} local Kubernetes run on this machine already, and no addresses are left")]
    AllTaken,
}

impl Network {
    /// Claims the network of a state directory, or assigns it a free one.
    pub fn claim(state_dir: &Path) -> Result<Self, NetworkError> {
        let path = state_dir.join("network");
        let shown = || path.display().to_string();
        match fs::read_to_string(&path) {
            Ok(text) => {
                let number = text.trim().parse().ok().filter(|number| *number < NETWORKS);
                let number = number.ok_or_else(|| NetworkError::NotANumber { path: shown() })?;
                let taken = || NetworkError::Taken { services: service_range(number) };
                let claim = listen_again(number).ok_or_else(taken)?;
                Ok(Self { number, _claim: claim })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let free = |number| Some((number, listen(number)?));
                // Prefer one that no other state directory has, even if nothing runs there now.
                let notes = Notes::of_user();
                let unknown = (0..NETWORKS).filter(|number| !notes.is_used(*number));
                let found = unknown.chain(0..NETWORKS).find_map(free);
                let (number, claim) = found.ok_or(NetworkError::AllTaken)?;
                write_number(&path, number)
                    .map_err(|source| NetworkError::File { path: shown(), source })?;
                notes.write(number, state_dir);
                Ok(Self { number, _claim: claim })
            }
            Err(source) => Err(NetworkError::File { path: shown(), source }),
        }
    }

    /// The service range, in the API server's format.
    #[must_use]
    pub fn service_range(&self) -> String {
        service_range(self.number)
    }

    /// The address of the API server for programs in pods: the first one of the service range.
    #[must_use]
    pub fn api_server(&self) -> Ipv4Addr {
        Ipv4Addr::new(127, SERVICES + self.number, 0, 1)
    }

    /// The address of a node; nodes are counted from 1.
    #[must_use]
    pub fn node(&self, node: u8) -> Ipv4Addr {
        Ipv4Addr::new(127, PODS + self.number, 0, node)
    }

    /// The pod addresses of a node.
    #[must_use]
    pub fn pods(&self, node: u8) -> Range {
        Range::of(Ipv4Addr::new(127, PODS + self.number, node, 0), 24)
    }
}

fn write_number(path: &Path, number: u8) -> io::Result<()> {
    file::write(path, format!("{number}\n").as_bytes(), file::PRIVATE, Survives::Machine)
}

fn service_range(number: u8) -> String {
    format!("127.{}.0.0/16", SERVICES + number)
}

/// Which state directory has which network: a stopped one, or one whose `gregor` was just killed, should find
/// its addresses free. Best effort: if the notes cannot be read or written, the listening socket decides.
struct Notes(PathBuf);

impl Notes {
    fn of_user() -> Self {
        let user = rustix::process::getuid().as_raw();
        Self(std::env::temp_dir().join(format!("gregor-networks-{user}")))
    }

    /// Whether an existing state directory has this network.
    fn is_used(&self, number: u8) -> bool {
        let Ok(dir) = fs::read_to_string(self.0.join(number.to_string())) else {
            return false;
        };
        let there = fs::read_to_string(Path::new(&dir).join("network"));
        there.is_ok_and(|text| text.trim().parse() == Ok(number))
    }

    fn write(&self, number: u8, state_dir: &Path) {
        let dir = fs::canonicalize(state_dir).unwrap_or_else(|_| state_dir.to_owned());
        let made = DirBuilder::new().mode(0o700).recursive(true).create(&self.0);
        // A path that is not UTF-8 cannot be noted; see above.
        if let (Ok(()), Some(dir)) = (made, dir.to_str()) {
            let _ = fs::write(self.0.join(number.to_string()), dir);
        }
    }
}

/// Retries for a predecessor that was killed while it started a process: its socket lives on in the child for
/// a moment.
fn listen_again(number: u8) -> Option<TcpListener> {
    let until = Instant::now() + CLAIM_PATIENCE;
    loop {
        match listen(number) {
            None if Instant::now() < until => thread::sleep(Duration::from_millis(20)),
            claim => return claim,
        }
    }
}

fn listen(number: u8) -> Option<TcpListener> {
    let address = Ipv4Addr::new(127, SERVICES + number, 255, 254);
    TcpListener::bind(SocketAddrV4::new(address, CLAIM_PORT)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_beside_each_other_have_different_addresses_and_keep_them() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let first = Network::claim(one.path()).unwrap();
        let second = Network::claim(other.path()).unwrap();
        assert_ne!(first.service_range(), second.service_range());
        assert_ne!(first.node(1), second.node(1));
        let range = first.service_range();
        let again = Network::claim(one.path()).unwrap_err();
        assert!(matches!(again, NetworkError::Taken { .. }), "{again}");
        drop(first);
        assert_eq!(Network::claim(one.path()).unwrap().service_range(), range);
    }

    #[test]
    fn a_network_is_kept_for_a_directory_in_which_nothing_runs() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let range = Network::claim(one.path()).unwrap().service_range();
        let second = Network::claim(other.path()).unwrap();
        assert_ne!(second.service_range(), range);
        assert_eq!(Network::claim(one.path()).unwrap().service_range(), range);
    }

    #[test]
    fn one_that_is_just_ending_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let first = Network::claim(dir.path()).unwrap();
        let ends = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            drop(first);
        });
        Network::claim(dir.path()).unwrap();
        ends.join().unwrap();
    }

    #[test]
    fn a_file_with_something_else_is_said() {
        let dir = tempfile::tempdir().unwrap();
        for wrong in ["", "x", "32", "-1"] {
            fs::write(dir.path().join("network"), wrong).unwrap();
            let error = Network::claim(dir.path()).unwrap_err();
            assert!(matches!(error, NetworkError::NotANumber { .. }), "{wrong}: {error}");
        }
    }
}
