//! Configuration of nodes, topics and the cluster as a whole.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult,
};
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{DescribeConfigsRequest, IncrementalAlterConfigsRequest};
use kafka_protocol::protocol::StrBytes;
use model::{NodeId, TopicName};

use super::{Admin, wire};
use crate::code::{Code, Refusal};
use crate::net::{Bootstrap, CallError, Effect, Outcome, Route};
use crate::proto::Api;

const TYPE_TOPIC: i8 = 2;
const TYPE_NODE: i8 = 4;

/// What has a configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigResource {
    /// One node: a broker if the client began with brokers, a controller if with controllers.
    Node(NodeId),
    /// What holds for all nodes that have no value of their own.
    ClusterDefault,
    /// A topic.
    Topic(TopicName),
}

impl std::fmt::Display for ConfigResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ConfigResource::Node(id) => write!(f, "node {id}"),
            ConfigResource::ClusterDefault => f.write_str("the cluster's default"),
            ConfigResource::Topic(name) => write!(f, "topic {name}"),
        }
    }
}

impl ConfigResource {
    fn wire_type(&self) -> i8 {
        match self {
            ConfigResource::Node(_) | ConfigResource::ClusterDefault => TYPE_NODE,
            ConfigResource::Topic(_) => TYPE_TOPIC,
        }
    }

    fn wire_name(&self) -> StrBytes {
        match self {
            ConfigResource::Node(id) => wire::text(&id.to_string()),
            ConfigResource::ClusterDefault => StrBytes::new(),
            ConfigResource::Topic(name) => wire::text(name.as_str()),
        }
    }
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Its name.
    pub name: String,
    /// Its value in force; none if it has none, or if it is sensitive.
    pub value: Option<String>,
    /// Where that value comes from.
    pub source: ConfigSource,
    /// Whether it can be changed only by a restart.
    pub read_only: bool,
    /// Whether Kafka hides the value.
    pub sensitive: bool,
    /// All values that could be in force, the one that is first; behind it what would be, were it
    /// deleted. Empty if they were not asked for.
    pub synonyms: Vec<(ConfigSource, Option<String>)>,
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigSource {
    /// Set on the topic.
    Topic,
    /// Set on the node while it ran.
    DynamicNode,
    /// Set for all nodes while they ran.
    DynamicDefault,
    /// In the node's file.
    StaticNode,
    /// Built in.
    Default,
    /// Something that this client does not know.
    Other(i8),
}

impl ConfigSource {
    fn from_wire(source: i8) -> Self {
        match source {
            1 => ConfigSource::Topic,
            2 => ConfigSource::DynamicNode,
            3 => ConfigSource::DynamicDefault,
            4 => ConfigSource::StaticNode,
            5 => ConfigSource::Default,
            other => ConfigSource::Other(other),
        }
    }
}

/// A change to one setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigChange {
    /// Gives it this value.
    Set(String, String),
    /// Takes the value back, so that the next in line holds.
    Delete(String),
    /// Adds to a list.
    Append(String, String),
    /// Takes out of a list.
    Subtract(String, String),
}

impl ConfigChange {
    /// The setting's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            ConfigChange::Set(name, _)
            | ConfigChange::Delete(name)
            | ConfigChange::Append(name, _)
            | ConfigChange::Subtract(name, _) => name,
        }
    }

    fn to_wire(&self) -> AlterableConfig {
        let (operation, value) = match self {
            ConfigChange::Set(_, value) => (0, Some(value)),
            ConfigChange::Delete(_) => (1, None),
            ConfigChange::Append(_, value) => (2, Some(value)),
            ConfigChange::Subtract(_, value) => (3, Some(value)),
        };
        AlterableConfig::default()
            .with_name(wire::text(self.name()))
            .with_config_operation(operation)
            .with_value(value.map(|value| wire::text(value)))
    }
}

/// Why a configuration could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DescribeConfigsError {
    /// No answer came.
    #[error("cannot read the configuration of {resource}")]
    Call {
        /// Whose.
        resource: ConfigResource,
        /// Why not.
        #[source]
        source: CallError,
    },
    /// Kafka said no.
    #[error("Kafka refused to show the configuration of {resource}")]
    Refused {
        /// Whose.
        resource: ConfigResource,
        /// What Kafka said.
        #[source]
        refusal: Refusal,
    },
}

/// Why a configuration was not changed, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum AlterConfigsError {
    /// No answer came.
    #[error("cannot change the configuration of {resource}")]
    Call {
        /// Whose.
        resource: ConfigResource,
        /// Why not.
        #[source]
        source: CallError,
    },
    /// What is there could not be read, so it was not changed.
    #[error("the configuration of {resource} was not changed")]
    Check {
        /// Whose.
        resource: ConfigResource,
        /// Why not.
        #[source]
        source: Box<DescribeConfigsError>,
    },
    /// A setting that does not exist. Controllers would store it without a word.
    #[error("{resource} has no setting {name}")]
    NoSuchSetting {
        /// Whose.
        resource: ConfigResource,
        /// The name.
        name: String,
    },
    /// A setting that only a restart changes. Controllers would store it without a word.
    #[error("{name} of {resource} can be changed only in its file, with a restart")]
    ReadOnly {
        /// Whose.
        resource: ConfigResource,
        /// The name.
        name: String,
    },
    /// Kafka said no.
    #[error("Kafka refused to change the configuration of {resource}")]
    Refused {
        /// Whose.
        resource: ConfigResource,
        /// What Kafka said.
        #[source]
        refusal: Refusal,
    },
}

impl AlterConfigsError {
    /// Whether the settings may have changed.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            AlterConfigsError::Call { source, .. } => source.outcome(),
            AlterConfigsError::Refused { refusal, .. } => refusal.outcome(),
            AlterConfigsError::Check { .. }
            | AlterConfigsError::NoSuchSetting { .. }
            | AlterConfigsError::ReadOnly { .. } => Outcome::NotDone,
        }
    }
}

impl Admin {
    /// The settings of one resource, by name; all of them, or those named in `only`.
    pub async fn describe_configs(
        &self,
        resource: &ConfigResource,
        only: Option<&[&str]>,
    ) -> Result<BTreeMap<String, ConfigEntry>, DescribeConfigsError> {
        let named = || resource.clone();
        let results = self.describe(std::slice::from_ref(resource), only, true).await;
        let results =
            results.map_err(|source| DescribeConfigsError::Call { resource: named(), source })?;
        let result = results.into_iter().next().unwrap_or_default();
        Refusal::check(result.error_code, result.error_message)
            .map_err(|refusal| DescribeConfigsError::Refused { resource: named(), refusal })?;
        Ok(result.configs.into_iter().map(entry).map(|e| (e.name.clone(), e)).collect())
    }

    /// The settings of several topics at once.
    pub async fn describe_topic_configs(
        &self,
        topics: &BTreeSet<TopicName>,
        only: Option<&[&str]>,
    ) -> Result<BTreeMap<TopicName, Result<Vec<ConfigEntry>, Refusal>>, CallError> {
        self.describe_topics_configs(topics, only, true).await
    }

    /// All settings of several topics, each with the value in force only. The answer has about 3 KB for each topic;
    /// with synonyms it is three times as long.
    pub async fn describe_topic_values(
        &self,
        topics: &BTreeSet<TopicName>,
    ) -> Result<BTreeMap<TopicName, Result<Vec<ConfigEntry>, Refusal>>, CallError> {
        self.describe_topics_configs(topics, None, false).await
    }

    async fn describe_topics_configs(
        &self,
        topics: &BTreeSet<TopicName>,
        only: Option<&[&str]>,
        with_synonyms: bool,
    ) -> Result<BTreeMap<TopicName, Result<Vec<ConfigEntry>, Refusal>>, CallError> {
        let resources: Vec<_> = topics.iter().cloned().map(ConfigResource::Topic).collect();
        if resources.is_empty() {
            return Ok(BTreeMap::new());
        }
        let api = DescribeConfigsRequest::ID;
        let mut all = BTreeMap::new();
        for result in self.describe(&resources, only, with_synonyms).await? {
            let name = TopicName::new(result.resource_name.to_string());
            let name = name.map_err(|error| wire::nonsense(api, error))?;
            let outcome = Refusal::check(result.error_code, result.error_message)
                .map(|()| result.configs.into_iter().map(entry).collect());
            all.insert(name, outcome);
        }
        match topics.iter().find(|topic| !all.contains_key(*topic)) {
            Some(topic) => Err(wire::nonsense(api, format!("no answer for topic {topic}"))),
            None => Ok(all),
        }
    }

    /// Changes settings of one resource while it runs, or only says whether it could.
    ///
    /// Controllers validate nothing, so there the names are checked here first.
    pub async fn alter_configs(
        &self,
        resource: &ConfigResource,
        changes: &[ConfigChange],
        validate_only: bool,
    ) -> Result<(), AlterConfigsError> {
        let named = || resource.clone();
        if let Bootstrap::Controllers(_) = self.client.bootstrap() {
            self.check_alterable(resource, changes).await?;
        }
        let route = match (resource, self.client.bootstrap()) {
            (ConfigResource::Node(id), Bootstrap::Brokers(_)) => Route::Node(*id),
            _ => Route::Controller,
        };
        let results = self.alter(route, [(resource, changes)], validate_only).await;
        let results =
            results.map_err(|source| AlterConfigsError::Call { resource: named(), source })?;
        results
            .into_iter()
            .try_for_each(|(_, result)| result)
            .map_err(|refusal| AlterConfigsError::Refused { resource: named(), refusal })
    }

    /// Changes settings of a node through the controller, for names that are known to be good: of a
    /// broker that is down it is unknown which it has.
    pub(super) async fn alter_unchecked(
        &self,
        resource: &ConfigResource,
        changes: &[ConfigChange],
    ) -> Result<(), AlterConfigsError> {
        let named = || resource.clone();
        let results = self.alter(Route::Controller, [(resource, changes)], false).await;
        let results =
            results.map_err(|source| AlterConfigsError::Call { resource: named(), source })?;
        results
            .into_iter()
            .try_for_each(|(_, result)| result)
            .map_err(|refusal| AlterConfigsError::Refused { resource: named(), refusal })
    }

    /// Changes settings of several topics in one request.
    pub async fn alter_topic_configs(
        &self,
        changes: &BTreeMap<TopicName, Vec<ConfigChange>>,
    ) -> Result<BTreeMap<TopicName, Result<(), Refusal>>, CallError> {
        if changes.is_empty() {
            return Ok(BTreeMap::new());
        }
        let resources: Vec<(ConfigResource, &[ConfigChange])> = changes
            .iter()
            .map(|(name, changes)| (ConfigResource::Topic(name.clone()), changes.as_slice()))
            .collect();
        let resources = resources.iter().map(|(resource, changes)| (resource, *changes));
        let results = self.alter(Route::Controller, resources, false).await?;
        let api = IncrementalAlterConfigsRequest::ID;
        let named = |(name, result): (String, _)| {
            let name = TopicName::new(name).map_err(|error| wire::nonsense(api, error))?;
            Ok((name, result))
        };
        results.into_iter().map(named).collect()
    }

    async fn describe(
        &self,
        resources: &[ConfigResource],
        only: Option<&[&str]>,
        with_synonyms: bool,
    ) -> Result<Vec<DescribeConfigsResult>, CallError> {
        let keys = only.map(|keys| keys.iter().map(|key| wire::text(key)).collect::<Vec<_>>());
        let describe = |resource: &ConfigResource| {
            DescribeConfigsResource::default()
                .with_resource_type(resource.wire_type())
                .with_resource_name(resource.wire_name())
                .with_configuration_keys(keys.clone())
        };
        let request = DescribeConfigsRequest::default()
            .with_resources(resources.iter().map(describe).collect())
            .with_include_synonyms(with_synonyms);
        // A node answers for itself only. For the rest, brokers and followers answer with what they have
        // heard of; the active controller knows of every change that it has acknowledged.
        let route = match (resources, self.client.bootstrap()) {
            ([ConfigResource::Node(id)], _) => Route::Node(*id),
            (_, Bootstrap::Controllers(_)) => Route::Controller,
            (_, Bootstrap::Brokers(_)) => Route::Any,
        };
        let answer = self.client.call(route, Effect::Reads, &request, |_| Code::NONE).await?;
        if answer.results.len() != resources.len() {
            let reason = format!("{} results for {}", answer.results.len(), resources.len());
            return Err(wire::nonsense(DescribeConfigsRequest::ID, reason));
        }
        Ok(answer.results)
    }

    async fn alter<'a>(
        &self,
        route: Route,
        changes: impl IntoIterator<Item = (&'a ConfigResource, &'a [ConfigChange])>,
        validate_only: bool,
    ) -> Result<Vec<(String, Result<(), Refusal>)>, CallError> {
        let alter = |(resource, changes): (&ConfigResource, &[ConfigChange])| {
            AlterConfigsResource::default()
                .with_resource_type(resource.wire_type())
                .with_resource_name(resource.wire_name())
                .with_configs(changes.iter().map(ConfigChange::to_wire).collect())
        };
        let request = IncrementalAlterConfigsRequest::default()
            .with_resources(changes.into_iter().map(alter).collect())
            .with_validate_only(validate_only);
        let code = |answer: &<IncrementalAlterConfigsRequest as Api>::Answer| {
            // A node that is not responsible says so for each resource.
            Code(answer.responses.first().map_or(0, |response| response.error_code))
        };
        let answer = self.client.call(route, Effect::Changes, &request, code).await?;
        if answer.responses.len() != request.resources.len() {
            let reason = format!("{} results", answer.responses.len());
            return Err(wire::nonsense(IncrementalAlterConfigsRequest::ID, reason));
        }
        let result = |response: AlterConfigsResourceResponse| {
            let outcome = Refusal::check(response.error_code, response.error_message);
            (response.resource_name.to_string(), outcome)
        };
        Ok(answer.responses.into_iter().map(result).collect())
    }

    /// What a broker would refuse but a controller stores: names that are none, and settings that only
    /// a restart changes.
    async fn check_alterable(
        &self,
        resource: &ConfigResource,
        changes: &[ConfigChange],
    ) -> Result<(), AlterConfigsError> {
        let named = || resource.clone();
        let known = match resource {
            ConfigResource::Topic(_) => return Ok(()),
            ConfigResource::Node(_) => self.describe_configs(resource, None).await,
            // The default has only what was set; what could be set is what a node has.
            ConfigResource::ClusterDefault => match self.some_node().await {
                Ok(node) => self.describe_configs(&ConfigResource::Node(node), None).await,
                Err(source) => Err(DescribeConfigsError::Call { resource: named(), source }),
            },
        };
        let known = known.map_err(|source| AlterConfigsError::Check {
            resource: named(),
            source: Box::new(source),
        })?;
        for change in changes {
            let name = change.name().to_owned();
            match known.get(&name) {
                None => return Err(AlterConfigsError::NoSuchSetting { resource: named(), name }),
                Some(entry) if entry.read_only => {
                    return Err(AlterConfigsError::ReadOnly { resource: named(), name });
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    async fn some_node(&self) -> Result<NodeId, CallError> {
        let cluster = self.describe_cluster().await.map_err(|error| match error {
            super::DescribeClusterError::Call(error) => error,
            super::DescribeClusterError::Refused(refusal) => {
                wire::nonsense(DescribeConfigsRequest::ID, refusal)
            }
        })?;
        let what = "node";
        let none = CallError::NoLeader { api: DescribeConfigsRequest::ID, what };
        cluster.active_controller.or(cluster.nodes.first().map(|node| node.id)).ok_or(none)
    }
}

fn entry(result: DescribeConfigsResourceResult) -> ConfigEntry {
    let synonyms = result.synonyms.into_iter();
    ConfigEntry {
        name: result.name.to_string(),
        value: result.value.map(|value| value.to_string()),
        source: ConfigSource::from_wire(result.config_source),
        read_only: result.read_only,
        sensitive: result.is_sensitive,
        synonyms: synonyms
            .map(|s| (ConfigSource::from_wire(s.source), s.value.map(|value| value.to_string())))
            .collect(),
    }
}
