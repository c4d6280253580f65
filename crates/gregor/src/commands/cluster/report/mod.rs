//! `gregor report`: everything about a cluster that a bug report needs, in one archive, without secrets.

mod archive;
mod collect;
mod scrub;

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use api::names::Names;
use clap::Args;
use time::OffsetDateTime;

use super::{At, runtime, snapshot};
use crate::output::note;

pub(super) use archive::snapshot as snapshot_in;

pub(crate) const HELP: &str = "\
Examples:
  gregor report my-cluster -n kafka
  gregor report my-cluster -n kafka --file /tmp/report.zip --log-lines 20000
  gregor why --from-snapshot my-cluster-report.zip

The archive has a snapshot of the cluster for gregor why, status and plan, its resources, Events, logs of its pods and of the
operator, and metrics of the operator. Values of Secrets, of environment variables and of settings with passwords are
removed, wherever they occur. Parts that cannot be read are listed in missing.txt in the archive.

Exit codes:
  0  success
  1  error, see stderr";

/// Name of the archive, unless another one is requested.
const NAME: &str = "report.zip";

/// A cluster, and what to collect.
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// Name of the Kafka resource
    #[arg(value_name = "KAFKA")]
    cluster: String,
    #[command(flatten)]
    at: At,
    /// File to write [default: KAFKA-report.zip]
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Lines of each log, from its end
    #[arg(long, value_name = "N", default_value_t = 5000)]
    log_lines: u32,
}

impl Report {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let file = self.file.clone().unwrap_or_else(|| format!("{}-{NAME}", self.cluster).into());
        let (bytes, missing) = runtime()?.block_on(self.collect())?;
        host::file::write(&file, &bytes, host::file::PRIVATE, host::file::Survives::Process)
            .with_context(|| format!("cannot write {}", file.display()))?;
        for line in missing {
            note(&format!("missing in the report: {line}"));
        }
        note(&format!("wrote {} ({} KiB)", file.display(), bytes.len().div_ceil(1024)));
        Ok(())
    }

    async fn collect(&self) -> anyhow::Result<(Vec<u8>, Vec<String>)> {
        let (client, namespace) = self.at.reach.client().await?;
        let names = Names::new(&namespace, &self.cluster);
        let mut parts = collect::all(&client, &names, i64::from(self.log_lines)).await;
        if !parts.has_kafka {
            bail!("there is no Kafka {} in namespace {namespace}", self.cluster);
        }
        let now_ms = OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000_000;
        match self.at.looked(&self.cluster, true).await {
            Ok(looked) => {
                let now_ms = u64::try_from(now_ms).unwrap_or_default();
                parts.add(archive::SNAPSHOT, snapshot::bytes(&looked, now_ms)?);
            }
            Err(error) => parts.miss("the snapshot", &error),
        }
        let missing = parts.missing.clone();
        parts.add("missing.txt", missing.join("\n").into_bytes());
        let parts: Vec<_> = parts
            .all
            .into_iter()
            .map(|(name, bytes)| (name, parts.scrubber.clean(&bytes)))
            .collect();
        Ok((archive::pack(&parts)?, missing))
    }
}
