//! The console of a local Kubernetes, in the process that runs it.

use std::path::Path;

use tempfile::NamedTempFile;
use tokio::task::AbortHandle;

use crate::commands::cluster;
use crate::output::note;

/// A console that is served until this is dropped.
pub(super) struct Served {
    pub(super) url: String,
    task: AbortHandle,
    /// What leads the browser to it.
    _page: Option<NamedTempFile>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves the console. Without it Kubernetes runs as well: why there is none is only told.
pub(super) async fn serve(kubeconfig: &Path) -> Option<Served> {
    let bound = cluster::console_of(kubeconfig.to_owned()).await;
    let server =
        bound.inspect_err(|error| note(&format!("there is no console: {error:#}"))).ok()?;
    let url = server.url();
    let task = tokio::spawn(server.serve()).abort_handle();
    Some(Served { url, task, _page: None })
}

impl Served {
    /// Opens it in the browser of the user. Where there is none, the printed address is enough.
    pub(super) fn open(&mut self) {
        self._page = cluster::open_browser(&self.url).ok();
    }
}

/// The address of a console, for the summary.
pub(super) fn line(url: Option<&str>) -> String {
    url.map(|url| format!("  console     {url}\n")).unwrap_or_default()
}
