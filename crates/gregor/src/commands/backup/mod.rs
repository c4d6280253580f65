//! `gregor backup` writes everything of a cluster that cannot be created again, encrypted; `gregor restore` puts it back.

mod collect;
mod content;
mod portable;
mod put;
mod seal;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use api::names::Names;
use clap::Args;
use control::life::restore::{self, Act, Facts, Id, Kind, Request};
use host::file::{self, Survives};
use serde::Serialize;
use serde_json::Value;

use super::reach::Reach;
use crate::output::{Format, Grid, Out, View, note};
use content::{Content, id};

pub(crate) const BACKUP_HELP: &str = "\
Examples:
  gregor backup my-cluster -n kafka --password-file password.txt
  gregor backup my-cluster -n kafka --password-file - --file /backup/my-cluster.gregor

The backup has the resources of the cluster (Kafka, node pools, topics, users, templates of rebalances), its record, the
keys of its certificate authorities, the credentials of its users, Secrets and ConfigMaps that the resources refer to, and
the claims with their volumes. It has no data of Kafka. It is encrypted with a key from the password (AES-256-GCM,
PBKDF2-HMAC-SHA512); without the password it cannot be read.

Exit codes:
  0  success
  1  error, see stderr: no backup was written";

pub(crate) const RESTORE_HELP: &str = "\
Examples:
  gregor restore my-cluster.gregor --password-file password.txt --dry-run
  gregor restore my-cluster.gregor --password-file password.txt
  gregor restore my-cluster.gregor --password-file password.txt --only Secret/my-cluster-cluster-ca
  gregor restore my-cluster.gregor --password-file password.txt --without-data

Nothing is overwritten: the command refuses if an object exists with different content, and can be repeated after an
interruption. The cluster is restored in its namespace, which has to exist. Volumes that were kept are bound to the new
claims; owners, statuses and uids of the former Kubernetes cluster are not restored.

Exit codes:
  0  success
  1  error, or something has to be resolved first: see stderr. With --dry-run: nothing would be restored";

/// A cluster, and where to write its backup.
#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// Name of the Kafka resource
    #[arg(value_name = "KAFKA")]
    cluster: String,
    /// File with the password in its first line, at least 12 characters; - for standard input
    #[arg(long, value_name = "FILE")]
    password_file: PathBuf,
    /// File to write, which must not exist [default: KAFKA.gregor]
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    reach: Reach,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// A backup, and what to restore of it.
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// File of the backup
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// File with the password in its first line; - for standard input
    #[arg(long, value_name = "FILE")]
    password_file: PathBuf,
    /// Restore this object only, such as Secret/my-cluster-cluster-ca; may be repeated
    #[arg(long, value_name = "KIND/NAME", value_parser = parse_id)]
    only: Vec<Id>,
    /// Leave out the record: the operator rebuilds it from the claims
    #[arg(long, conflicts_with = "only")]
    rebuild_record: bool,
    /// Leave out record, claims and volumes: the cluster begins without data, with its authorities and users
    #[arg(long, conflicts_with_all = ["only", "rebuild_record"])]
    without_data: bool,
    /// Show what would be restored, without restoring it
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    reach: Reach,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// What a backup has.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    file: String,
    cluster: String,
    /// Names by kind.
    objects: BTreeMap<&'static str, Vec<String>>,
    notes: Vec<String>,
}

/// What was restored, or would be.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Restored {
    cluster: String,
    dry_run: bool,
    objects: Vec<Row>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    object: String,
    act: &'static str,
}

impl Backup {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let file = self.file.clone().unwrap_or_else(|| format!("{}.gregor", self.cluster).into());
        ensure!(!file.exists(), "{} exists, and a backup is not overwritten", file.display());
        let password = password(&self.password_file)?;
        let (content, notes) = runtime()?.block_on(self.collect())?;
        let of = format!("{}/{}", content.namespace, content.cluster);
        let bytes = serde_json::to_vec(&content).context("cannot serialize the backup")?;
        let sealed = seal::seal(&of, &password, &bytes)?;
        file::write(&file, &sealed, file::PRIVATE, Survives::Machine)
            .with_context(|| format!("cannot write {}", file.display()))?;
        let mut objects: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
        for Id { kind, name } in content.objects.iter().filter_map(id) {
            objects.entry(kind.name()).or_default().push(name);
        }
        for text in &notes {
            note(text);
        }
        let written = Written { file: file.display().to_string(), cluster: of, objects, notes };
        Out::new(self.output).view(&written)
    }

    async fn collect(&self) -> anyhow::Result<(Content, Vec<String>)> {
        let (client, namespace) = self.reach.client().await?;
        let names = Names::new(&namespace, &self.cluster);
        let collected = collect::all(&client, &names).await?;
        let content = Content {
            gregor: env!("CARGO_PKG_VERSION").to_owned(),
            taken_ms: host::clock::now_ms(),
            namespace,
            cluster: self.cluster.clone(),
            record_format: collected.record_format.map(|format| format.to_string()),
            objects: collected.objects,
        };
        Ok((content, collected.notes))
    }
}

impl Restore {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let password = password(&self.password_file)?;
        let path = self.file.display();
        let sealed = fs::read(&self.file).with_context(|| format!("cannot read {path}"))?;
        let opened = seal::open(&sealed, &password).with_context(|| format!("cannot read {path}"));
        let content = Content::from_slice(&opened?)?;
        let restored = runtime()?.block_on(self.restore(&content))?;
        Out::new(self.output).view(&restored)
    }

    async fn restore(&self, content: &Content) -> anyhow::Result<Restored> {
        if self.reach.namespace().is_some_and(|namespace| namespace != content.namespace) {
            bail!(
                "the backup is of namespace {}, and names of nodes contain it: restore it there",
                content.namespace
            );
        }
        let (client, _) = self.reach.client().await?;
        let place = put::observe(&client, content).await?;
        let facts = Facts {
            request: Request {
                only: self.only.iter().cloned().collect(),
                rebuilds_record: self.rebuild_record,
                is_without_data: self.without_data,
            },
            objects: place.objects,
            record: content.names().record(),
            format: content.format(),
            has_namespace: place.has_namespace,
            unknown_claims: place.unknown_claims,
        };
        let steps = restore::decide(&facts).or_else(|blockers| {
            for blocker in &blockers {
                note(&blocker.to_string());
            }
            bail!("nothing was restored: {} of these have to be resolved first", blockers.len())
        })?;
        let written: BTreeMap<Id, &Value> =
            content.objects.iter().filter_map(|object| Some((id(object)?, object))).collect();
        let mut objects = Vec::new();
        for (id, act) in &steps {
            if let Some(object) = written.get(id).filter(|_| !self.dry_run) {
                put::put(&client, (id, *act), object).await?;
            }
            objects.push(Row { object: id.to_string(), act: word(*act) });
        }
        let cluster = format!("{}/{}", content.namespace, content.cluster);
        Ok(Restored { cluster, dry_run: self.dry_run, objects })
    }
}

const fn word(act: Act) -> &'static str {
    match act {
        Act::Create => "create",
        Act::Release => "release",
        Act::Keep => "keep",
    }
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime")
}

fn password(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = match path.as_os_str() == "-" {
        true => std::io::stdin().read_to_string(&mut text).map(drop),
        false => fs::read_to_string(path).map(|read| text = read),
    };
    read.with_context(|| format!("cannot read the password from {}", path.display()))?;
    seal::password(&text)
}

fn parse_id(text: &str) -> Result<Id, String> {
    let kinds = || Kind::ALL.map(Kind::name).join(", ");
    let id = text.split_once('/').filter(|(_, name)| !name.is_empty());
    let (kind, name) = id.ok_or_else(|| "expected KIND/NAME, such as Secret/a".to_owned())?;
    let kind = Kind::named(kind).ok_or_else(|| format!("a backup has these kinds: {}", kinds()))?;
    Ok(Id { kind, name: name.to_owned() })
}

impl View for Written {
    fn table(&self, width: Option<u16>) -> String {
        let mut grid = Grid::new(&["KIND", "OBJECTS", "NAMES"]).wrap(2);
        for (kind, names) in &self.objects {
            grid.row([(*kind).to_owned(), names.len().to_string(), names.join(", ")]);
        }
        grid.take(width) + &format!("\nwrote {} of cluster {}\n", self.file, self.cluster)
    }
}

impl View for Restored {
    fn table(&self, width: Option<u16>) -> String {
        let mut grid = Grid::new(&["ACT", "OBJECT"]);
        for Row { object, act } in &self.objects {
            grid.row([(*act).to_owned(), object.clone()]);
        }
        let kept = self.objects.iter().filter(|row| row.act == word(Act::Keep)).count();
        let (count, cluster) = (self.objects.len() - kept, &self.cluster);
        let end = match self.dry_run {
            true => format!("\n{count} objects of cluster {cluster} would be restored\n"),
            false => format!("\nrestored {count} objects of cluster {cluster}\n"),
        };
        grid.take(width) + &end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_by_kind_and_name() {
        let id = parse_id("secret/my-cluster-cluster-ca").unwrap();
        assert_eq!((id.kind, id.name.as_str()), (Kind::Secret, "my-cluster-cluster-ca"));
        for bad in ["secret", "secret/", "/a", "pod/a"] {
            assert!(parse_id(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_was_restored_is_counted_without_what_existed() {
        let row = |object: &str, act| Row { object: object.to_owned(), act: word(act) };
        let objects = vec![row("Secret/a", Act::Keep), row("Kafka/c", Act::Create)];
        let mut restored = Restored { cluster: "n/c".to_owned(), dry_run: true, objects };
        let text = restored.table(None);
        assert!(text.ends_with("\n1 objects of cluster n/c would be restored\n"), "{text}");
        restored.dry_run = false;
        assert!(restored.table(None).ends_with("\nrestored 1 objects of cluster n/c\n"));
    }
}
