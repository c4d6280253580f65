//! Cleans up after pods that no longer exist.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::attempt::Attempt;
use crate::kubelet::layout::{Layout, PodDir, PodRecord};
use crate::kubelet::shared::Shared;
use crate::kubelet::shim;
use crate::kubelet::volume::remove_memory;

/// Stops all containers of a pod and removes its files.
pub(crate) async fn end_orphan(shared: Arc<Shared>, record: PodRecord) {
    let attempts = running(&shared.layout.pod(&record.uid));
    end(&attempts, &record).await;
    remove(&shared, &record);
}

/// Stops all containers of a pod so that the next start of its node resumes them.
pub(crate) async fn pause(layout: &Layout, record: &PodRecord) {
    let mut attempts = running(&layout.pod(&record.uid));
    attempts.iter_mut().for_each(Attempt::pause);
    end(&attempts, record).await;
    remove_memory(&record.uid);
}

/// The running attempts of a pod's containers.
fn running(dir: &PodDir) -> Vec<Attempt> {
    let containers = dir.containers();
    let numbers = containers
        .iter()
        .flat_map(|name| dir.attempts(name).into_iter().map(move |number| (name.clone(), number)));
    let attempts = numbers.filter_map(|(name, number)| {
        Attempt::load(dir.attempt(&name, number), number).filter(Attempt::runs)
    });
    attempts.collect()
}

async fn end(attempts: &[Attempt], record: &PodRecord) {
    attempts.iter().for_each(|attempt| attempt.signal(shim::ASK));
    let all = || futures::future::join_all(attempts.iter().cloned().map(Attempt::ended));
    if timeout(Duration::from_secs(record.grace_seconds), all()).await.is_err() {
        attempts.iter().for_each(|attempt| attempt.signal(shim::KILL));
        all().await;
    }
}

/// Removes the files of a pod and releases its address.
pub(super) fn remove(shared: &Shared, record: &PodRecord) {
    for path in [shared.layout.logs(record), shared.layout.pod(&record.uid).path().to_owned()] {
        if let Err(error) = fs::remove_dir_all(&path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "cannot remove the files of a pod");
        }
    }
    remove_memory(&record.uid);
    if record.ip != shared.options.node_ip {
        shared.give_back(record.ip);
    }
}
