//! Feature levels: what is agreed on, what a node could do, and raising one.

use std::collections::BTreeMap;

use kafka_protocol::messages::update_features_request::FeatureUpdateKey;
use kafka_protocol::messages::{ApiVersionsRequest, UpdateFeaturesRequest};
use kafka_protocol::protocol::StrBytes;
use model::NodeId;

use super::{Admin, plain_error, wire};
use crate::code::{Code, Refusal};
use crate::net::{CallError, Effect, Outcome, Route};
use crate::proto::Api;

/// Feature levels, as one node sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    /// What the cluster has agreed on. A feature that is not there is at level 0.
    pub finalized: BTreeMap<String, i16>,
    /// The version of that agreement; not known to a node that has not caught up.
    pub finalized_epoch: Option<u64>,
    /// What the node that answered could do: lowest and highest level.
    pub supported: BTreeMap<String, (i16, i16)>,
}

/// Which way a level may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LevelChange {
    /// Only up.
    Upgrade,
    /// Down, if nothing is lost.
    SafeDowngrade,
    /// Down, also if metadata is lost.
    UnsafeDowngrade,
}

plain_error!(
    /// Why the features could not be described.
    DescribeFeaturesError,
    "describe the features"
);

/// Why a feature's level was not changed, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum UpdateFeatureError {
    /// No answer came.
    #[error("cannot change the level of {feature}")]
    Call {
        /// The feature.
        feature: String,
        /// Why not.
        #[source]
        source: CallError,
    },
    /// The level cannot be had: a node does not support it, or it would go down.
    #[error("{feature} cannot be at level {level}: {}", message.as_deref().unwrap_or("no reason given"))]
    Level {
        /// The feature.
        feature: String,
        /// The level that was asked for.
        level: i16,
        /// What Kafka said, for people: it names the node that is in the way.
        message: Option<String>,
    },
    /// Kafka said no for another reason.
    #[error("Kafka refused to change the level of {feature}")]
    Refused {
        /// The feature.
        feature: String,
        /// What Kafka said.
        #[source]
        refusal: Refusal,
    },
}

impl UpdateFeatureError {
    /// Whether the level may have changed.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            UpdateFeatureError::Call { source, .. } => source.outcome(),
            UpdateFeatureError::Level { .. } => Outcome::NotDone,
            UpdateFeatureError::Refused { refusal, .. } => refusal.outcome(),
        }
    }
}

impl Admin {
    /// The features, as `node` sees them, or any node.
    pub async fn describe_features(
        &self,
        node: Option<NodeId>,
    ) -> Result<Features, DescribeFeaturesError> {
        let request = ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str("gregor"))
            .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
        let route = node.map_or(Route::Any, Route::Node);
        let code = |answer: &<ApiVersionsRequest as Api>::Answer| Code(answer.error_code);
        let answer = self.client.call(route, Effect::Reads, &request, code).await?;
        Refusal::check_code(answer.error_code)?;
        let finalized = answer.finalized_features.iter();
        let supported = answer.supported_features.iter();
        Ok(Features {
            finalized: finalized.map(|f| (f.name.to_string(), f.max_version_level)).collect(),
            finalized_epoch: wire::known(answer.finalized_features_epoch),
            supported: supported
                .map(|f| (f.name.to_string(), (f.min_version, f.max_version)))
                .collect(),
        })
    }

    /// Brings one feature to a level, or only says whether it could be. One at a time: several in one
    /// request, or a whole release's worth, would move `kraft.version` along unasked.
    pub async fn update_feature(
        &self,
        feature: &str,
        level: i16,
        change: LevelChange,
        validate_only: bool,
    ) -> Result<(), UpdateFeatureError> {
        let upgrade_type = match change {
            LevelChange::Upgrade => 1,
            LevelChange::SafeDowngrade => 2,
            LevelChange::UnsafeDowngrade => 3,
        };
        let update = FeatureUpdateKey::default()
            .with_feature(wire::text(feature))
            .with_max_version_level(level)
            .with_upgrade_type(upgrade_type);
        let request = UpdateFeaturesRequest::default()
            .with_timeout_ms(self.client.server_timeout_ms())
            .with_feature_updates(vec![update])
            .with_validate_only(validate_only);
        let code = |answer: &<UpdateFeaturesRequest as Api>::Answer| Code(answer.error_code);
        let answer = self.client.call(Route::Controller, Effect::Changes, &request, code).await;
        let named = || feature.to_owned();
        let answer =
            answer.map_err(|source| UpdateFeatureError::Call { feature: named(), source })?;
        // Older versions answer per feature, newer ones only as a whole.
        let mut outcome = Refusal::check(answer.error_code, answer.error_message);
        for result in answer.results {
            outcome = outcome.and(Refusal::check(result.error_code, result.error_message));
        }
        outcome.map_err(|refusal| match refusal.code {
            Code::INVALID_UPDATE_VERSION => {
                UpdateFeatureError::Level { feature: named(), level, message: refusal.message }
            }
            _ => UpdateFeatureError::Refused { feature: named(), refusal },
        })
    }
}
