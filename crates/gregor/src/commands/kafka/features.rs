//! `gregor kafka features`: feature levels, and raising one.

use std::collections::BTreeSet;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use kafka_admin::{LevelChange, Outcome};
use serde::Serialize;

use super::after_change;
use super::connection::Session;
use crate::output::{Grid, Out, View, optional};

pub(super) const EXAMPLE: &str = "\
Examples:
  gregor kafka features
  gregor kafka features set metadata.version 29 --dry-run";

/// Show features or upgrade one.
#[derive(Debug, Args)]
pub(super) struct Features {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Upgrade a feature to a level. Levels cannot be lowered
    Set {
        /// Name of the feature, such as metadata.version
        name: String,
        /// The level
        #[arg(value_parser = clap::value_parser!(i16).range(0..))]
        level: i16,
        /// Only validate the upgrade
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FeatureView {
    name: String,
    /// Finalized level of the cluster; 0 is disabled.
    finalized: i16,
    /// Levels that the queried node supports; other nodes may differ.
    supported_min: Option<i16>,
    supported_max: Option<i16>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FeaturesView {
    epoch: Option<u64>,
    features: Vec<FeatureView>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RaisedView {
    feature: String,
    level: i16,
    dry_run: bool,
}

impl Features {
    pub(super) async fn run(self, session: &Session, out: &mut Out) -> anyhow::Result<()> {
        let Some(Action::Set { name, level, dry_run }) = self.action else {
            let features = session.admin.describe_features(None).await?;
            return out.view(&FeaturesView::new(&features));
        };
        let change = LevelChange::Upgrade;
        let updated = session.admin.update_feature(&name, level, change, dry_run).await;
        updated.map_err(|error| {
            let outcome = if dry_run { Outcome::NotDone } else { error.outcome() };
            after_change(anyhow!(error), outcome, &format!("{name} is at level {level} now"))
        })?;
        out.view(&RaisedView { feature: name, level, dry_run })
    }
}

impl FeaturesView {
    fn new(features: &kafka_admin::Features) -> Self {
        let names: BTreeSet<_> =
            features.finalized.keys().chain(features.supported.keys()).cloned().collect();
        let view = |name: String| {
            let supported = features.supported.get(&name);
            FeatureView {
                finalized: features.finalized.get(&name).copied().unwrap_or(0),
                supported_min: supported.map(|(min, _)| *min),
                supported_max: supported.map(|(_, max)| *max),
                name,
            }
        };
        Self { epoch: features.finalized_epoch, features: names.into_iter().map(view).collect() }
    }
}

impl View for FeaturesView {
    fn table(&self, width: Option<u16>) -> String {
        let mut grid = Grid::new(&["FEATURE", "FINALIZED", "SUPPORTED"]);
        for feature in &self.features {
            let supported = feature.supported_min.zip(feature.supported_max);
            let supported = optional(supported.map(|(min, max)| format!("{min} to {max}")));
            grid.row([feature.name.clone(), feature.finalized.to_string(), supported]);
        }
        grid.take(width)
    }
}

impl View for RaisedView {
    fn table(&self, _: Option<u16>) -> String {
        let Self { feature, level, dry_run } = self;
        match dry_run {
            true => format!("{feature} could be raised to {level}; nothing was changed\n"),
            false => format!("{feature} is at level {level}\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_is_shown_that_only_one_side_knows() {
        let features = kafka_admin::Features {
            finalized: [("metadata.version".to_owned(), 27), ("new".to_owned(), 3)].into(),
            finalized_epoch: Some(12),
            supported: [
                ("metadata.version".to_owned(), (7, 29)),
                ("kraft.version".to_owned(), (0, 1)),
            ]
            .into(),
        };
        let view = FeaturesView::new(&features);
        let expected = "\
FEATURE           FINALIZED  SUPPORTED
kraft.version     0          0 to 1
metadata.version  27         7 to 29
new               3          -
";
        assert_eq!(view.table(None), expected);
        let json = serde_json::to_value(&view).unwrap();
        assert_eq!(json["features"][1]["supportedMax"], 29);
    }
}
