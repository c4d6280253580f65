//! What was observed of clusters, from the files of `gregor status --snapshot`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use console::page::{Cluster, Overview};
use console::source::{
    Acting, ClusterId, Edit as Request, Observing, Reason, Refusal, Resources, Source,
};
use operator::cluster::foresee::{Edit, Stage};
use serde_json::Value;

use super::super::{Looked, plan, snapshot};
use super::act;
use super::pages::{self, Beside};

/// Clusters from files.
pub(super) struct Files {
    overview: Overview,
    clusters: BTreeMap<ClusterId, Cluster>,
    origin: String,
}

impl Files {
    pub(super) async fn read(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let mut overview = Overview::default();
        let mut clusters = BTreeMap::new();
        for path in paths {
            let (looked, taken_ms) = snapshot::read(path)?;
            let (namespace, name) =
                (looked.found.names.namespace.clone(), looked.found.names.cluster.clone());
            let mut row = pages::row(
                &looked.found.kafka,
                Some(&looked.found.pods.iter().collect::<Vec<_>>()),
            );
            row.taken_ms = Some(taken_ms);
            overview.clusters.push(row);
            let plan = left(&looked).await;
            let beside = Beside { plan, taken_ms: Some(taken_ms), ..Beside::default() };
            let cluster = pages::cluster(&looked, &beside, taken_ms);
            let known = clusters.insert(ClusterId { namespace, name }, cluster);
            ensure!(known.is_none(), "{}: another file is of the same cluster", path.display());
        }
        overview.clusters.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        let file =
            |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let origin = paths.iter().map(file).collect::<Vec<_>>().join(", ");
        Ok(Self { overview, clusters, origin })
    }
}

/// What was left to do. Older files have nothing that it could be planned on.
async fn left(looked: &Looked) -> Vec<console::page::Line> {
    let names = &looked.found.names;
    let Some(edits) = looked.edits.clone() else { return Vec::new() };
    let restored = Stage::restored(names, edits.objects, looked.seen.observed.clone()).await;
    let Ok((stage, present)) = restored else { return Vec::new() };
    let edited = stage.edited(names, &Edit::default(), Some(&present)).await;
    let Ok(edited) = edited else { return Vec::new() };
    let sizes = edits.sizes.into_iter().collect();
    let left = plan::left((&stage, names), (&present, &edited), sizes).await;
    left.unwrap_or_default()
}

impl Source for Files {
    fn overview(&self) -> Observing<'_, Overview> {
        Box::pin(async { Ok(self.overview.clone()) })
    }

    fn cluster<'a>(&'a self, id: &'a ClusterId) -> Observing<'a, Option<Cluster>> {
        Box::pin(async { Ok(self.clusters.get(id).cloned()) })
    }

    fn interval(&self) -> Option<Duration> {
        None
    }

    fn origin(&self) -> String {
        self.origin.clone()
    }

    fn resources<'a>(&'a self, _: &'a ClusterId) -> Acting<'a, Resources> {
        Box::pin(async { Err(read_only()) })
    }

    fn plan<'a>(&'a self, _: &'a ClusterId, _: &'a Request) -> Acting<'a, Value> {
        Box::pin(async { Err(read_only()) })
    }

    fn apply<'a>(&'a self, _: &'a ClusterId, _: &'a Request) -> Acting<'a, Vec<String>> {
        Box::pin(async { Err(read_only()) })
    }

    fn command<'a>(&'a self, _: &'a ClusterId, _: &'a str, _: &'a str) -> Acting<'a, ()> {
        Box::pin(async { Err(read_only()) })
    }
}

fn read_only() -> Refusal {
    let message = "this is a snapshot in a file: `gregor plan --from-snapshot` plans edits on it";
    act::refusal(Reason::Invalid, message)
}
