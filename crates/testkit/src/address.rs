//! Loopback networks that no other cluster on this machine uses.

use std::fs::{self, File};
use std::path::PathBuf;

use anyhow::{Context as _, bail};

/// The networks are 127.80.0.0/24 to 127.80.255.0/24: far from 127.0.0.1 and from the service and pod
/// addresses of other tests.
const SECOND_OCTET: u8 = 80;

/// A network `127.80.n.0/24`, reserved while the lock file is open.
#[derive(Debug)]
pub struct Network {
    third_octet: u8,
    lock: File,
}

impl Network {
    /// Reserves the first free network, across processes.
    pub fn take() -> anyhow::Result<Self> {
        let dir = lock_dir()?;
        for third_octet in 0..=u8::MAX {
            let path = dir.join(format!("127.{SECOND_OCTET}.{third_octet}.0"));
            // A file that cannot be opened belongs to another user, and so does the network.
            let Ok(lock) = File::options().create(true).truncate(false).write(true).open(&path)
            else {
                continue;
            };
            if lock.try_lock().is_ok() {
                return Ok(Self { third_octet, lock });
            }
        }
        bail!("all networks of 127.{SECOND_OCTET}.0.0/16 are taken; see the locks in {dir:?}")
    }

    /// The address with this last octet.
    #[must_use]
    pub fn host(&self, octet: u8) -> String {
        format!("127.{SECOND_OCTET}.{}.{octet}", self.third_octet)
    }

    /// A second handle on the lock, which is released with the last handle.
    pub fn share_lock(&self) -> anyhow::Result<File> {
        self.lock.try_clone().context("cannot share the lock of a network")
    }
}

/// One directory for all users, because addresses are shared by the whole machine.
fn lock_dir() -> anyhow::Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = std::env::temp_dir().join("gregor-testkit-networks");
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {dir:?}"))?;
    // Fails for everyone except the owner, who has done it.
    let _ = fs::set_permissions(&dir, fs::Permissions::from_mode(0o1777));
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_taken_once_and_free_again_after_the_last_handle() {
        let first = Network::take().unwrap();
        let second = Network::take().unwrap();
        assert_ne!(first.host(1), second.host(1));
        let shared = first.share_lock().unwrap();
        let octet = first.third_octet;
        drop(first);
        assert_ne!(Network::take().unwrap().third_octet, octet);
        drop(shared);
    }
}
