//! `gregor topic`: the topics of a cluster as resources.
//!
//! The commands read and write Kubernetes only; the operator brings topics to Kafka.

mod plan;

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use api::names::CLUSTER_LABEL;
use api::topic::{ReplicasChange, ReplicasChangeState};
use api::{KafkaTopic, KafkaTopicSpec, Verbatim};
use clap::{Args, Subcommand};
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde::Serialize;
use serde_json::Value;

use self::plan::Plan;
use super::reach::Reach;
use crate::failure::{EXIT_CODES, OutcomeUnknown, Usage};
use crate::output::{Format, Grid, Out, View, note, optional};

/// Topics of which cluster.
#[derive(Debug, Args)]
#[command(after_long_help = after_help())]
pub(crate) struct Topic {
    /// The name of the Kafka resource
    #[arg(long, global = true, value_name = "NAME")]
    cluster: Option<String>,
    #[command(flatten)]
    reach: Reach,
    /// How to print the result
    #[arg(short, long, global = true, value_name = "FORMAT", default_value = "table")]
    output: Format,
    #[command(subcommand)]
    command: Command,
}

fn after_help() -> String {
    format!(
        "Examples:\n  \
         gregor topic list --cluster my-cluster\n  \
         gregor topic describe orders --cluster my-cluster -o json\n  \
         gregor topic plan orders --cluster my-cluster --replicas 4\n  \
         gregor topic create orders --cluster my-cluster --partitions 12 --replicas 3 --config retention.ms=604800000\n\n\
         {EXIT_CODES}"
    )
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the KafkaTopic resources of a cluster
    List,
    /// Show a KafkaTopic resource and the conditions of its topic
    Describe {
        /// The name of the resource
        name: String,
    },
    /// Create a KafkaTopic resource
    Create(Create),
    /// Show what a change of the number of replicas would move; changes nothing
    Plan(Plan),
}

/// A topic to create.
#[derive(Debug, Args)]
struct Create {
    /// The name of the resource, and of the topic
    name: String,
    /// The name of the topic, if it is not that of the resource
    #[arg(long, value_name = "NAME")]
    topic_name: Option<String>,
    /// The number of partitions; the default of the brokers if omitted
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i64).range(1..=2_147_483_647))]
    partitions: Option<i64>,
    /// The number of replicas of each partition; the default of the brokers if omitted
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i64).range(1..=32767))]
    replicas: Option<i64>,
    /// A setting of the topic; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    config: Vec<(String, String)>,
}

fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("expected NAME=VALUE".to_owned()),
    }
}

impl Topic {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let mut out = Out::new(self.output);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("cannot start the runtime")?;
        let Some(cluster) = self.cluster else {
            return Err(Usage::error("no cluster given: name it with --cluster"));
        };
        runtime.block_on(async {
            let (client, namespace) = self.reach.client().await?;
            let api: Api<KafkaTopic> = Api::namespaced(client, &namespace);
            match self.command {
                Command::Plan(plan) => plan.run(&self.reach, &cluster, &mut out).await,
                Command::List => list(&api, &cluster, &mut out).await,
                Command::Describe { name } => describe(&api, (&cluster, &name), &mut out).await,
                Command::Create(create) => {
                    let topic = create.resource(&cluster);
                    let made = api.create(&PostParams::default(), &topic).await;
                    let made = made.map_err(|error| not_created(error, &topic.name_any()))?;
                    out.view(&TopicsView(vec![TopicView::of(&made)]))
                }
            }
        })
    }
}

impl Create {
    fn resource(self, cluster: &str) -> KafkaTopic {
        let config: BTreeMap<_, _> =
            self.config.into_iter().map(|(name, value)| (name, Value::String(value))).collect();
        let spec = KafkaTopicSpec {
            topic_name: self.topic_name,
            partitions: self.partitions,
            replicas: self.replicas,
            config: (!config.is_empty()).then_some(Verbatim(config)),
            ..KafkaTopicSpec::default()
        };
        let mut topic = KafkaTopic::new(&self.name, spec);
        topic.labels_mut().insert(CLUSTER_LABEL.to_owned(), cluster.to_owned());
        topic
    }
}

/// What the API server has answered was not done, anything else may have been.
fn not_created(error: kube::Error, name: &str) -> anyhow::Error {
    let answered = matches!(error, kube::Error::Api(_));
    let error = anyhow::Error::new(error);
    match answered {
        true => error.context(format!("cannot create the KafkaTopic {name}")),
        false => error.context(OutcomeUnknown(format!(
            "it is unknown whether KafkaTopic {name} was created"
        ))),
    }
}

async fn list(api: &Api<KafkaTopic>, cluster: &str, out: &mut Out) -> anyhow::Result<()> {
    let params = ListParams::default().labels(&format!("{CLUSTER_LABEL}={cluster}"));
    let found = api.list(&params).await.context("cannot list the KafkaTopics")?;
    if found.items.is_empty() {
        note(&format!("there are no KafkaTopics of the cluster {cluster}"));
    }
    out.view(&TopicsView(found.iter().map(TopicView::of).collect()))
}

async fn describe(
    api: &Api<KafkaTopic>,
    (cluster, name): (&str, &str),
    out: &mut Out,
) -> anyhow::Result<()> {
    let found = api.get_opt(name).await.context("cannot read the KafkaTopic")?;
    let found = found.filter(|one| one.labels().get(CLUSTER_LABEL).is_some_and(|of| of == cluster));
    let Some(topic) = found else {
        bail!("there is no KafkaTopic {name} of the cluster {cluster}")
    };
    out.view(&DescribedView { topic: TopicView::of(&topic), config: config(&topic) })
}

fn config(topic: &KafkaTopic) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let config = topic.spec.config.iter().flat_map(|config| &config.0);
    config.map(|(name, value)| (name.clone(), text(value))).collect()
}

/// A topic, as it is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct TopicView {
    name: String,
    topic: String,
    partitions: Option<i64>,
    replicas: Option<i64>,
    /// `null` before the operator has written a status for the present spec.
    ready: Option<bool>,
    topic_id: Option<String>,
    replicas_change: Option<ReplicasChangeView>,
    conditions: Vec<ConditionView>,
}

/// A change of the number of replicas.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReplicasChangeView {
    target: Option<i64>,
    state: Option<&'static str>,
    message: Option<String>,
}

impl ReplicasChangeView {
    fn of(change: &ReplicasChange) -> Self {
        let state = change.state.map(|state| match state {
            ReplicasChangeState::Pending => "pending",
            ReplicasChangeState::Ongoing => "ongoing",
        });
        Self { target: change.target_replicas, state, message: change.message.clone() }
    }

    fn line(&self) -> String {
        let message = self.message.as_ref().map(|message| format!(": {message}"));
        let (target, state) = (optional(self.target), optional(self.state));
        format!("{state}, to {target} replicas{}", message.unwrap_or_default())
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ConditionView {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: Option<String>,
    message: Option<String>,
}

impl TopicView {
    fn of(topic: &KafkaTopic) -> Self {
        let status = topic.status.as_ref();
        let is_current =
            status.and_then(|status| status.observed_generation) == topic.metadata.generation;
        let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
        let conditions: Vec<_> = conditions
            .map(|one| ConditionView {
                kind: one.kind.clone().unwrap_or_default(),
                status: one.status.clone().unwrap_or_default(),
                reason: one.reason.clone(),
                message: one.message.clone(),
            })
            .collect();
        let ready = conditions.iter().find(|one| one.kind == "Ready");
        Self {
            name: topic.name_any(),
            topic: topic.spec.topic_name.clone().unwrap_or_else(|| topic.name_any()),
            partitions: topic.spec.partitions,
            replicas: topic.spec.replicas,
            ready: ready.filter(|_| is_current).map(|one| one.status == "True"),
            topic_id: status.and_then(|status| status.topic_id.clone()),
            replicas_change: status
                .and_then(|status| status.replicas_change.as_ref())
                .map(ReplicasChangeView::of),
            conditions,
        }
    }

    fn ready(&self) -> String {
        optional(self.ready.map(|ready| if ready { "True" } else { "False" }))
    }

    /// What a person should know, in one line.
    fn notes(&self) -> String {
        let told = self.conditions.iter().filter(|one| one.kind != "Ready" || one.status != "True");
        let told = told.map(|one| one.reason.clone().unwrap_or_else(|| one.kind.clone()));
        let state = self.replicas_change.as_ref().and_then(|change| change.state);
        let told = told.chain(state.map(|state| format!("replicas change {state}")));
        told.collect::<Vec<_>>().join(", ")
    }
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct TopicsView(Vec<TopicView>);

impl View for TopicsView {
    fn table(&self, width: Option<u16>) -> String {
        let header = ["NAME", "TOPIC", "PARTITIONS", "REPLICAS", "READY", "CONDITIONS"];
        let mut grid = Grid::new(&header);
        for one in &self.0 {
            let notes = one.notes();
            grid.row([
                one.name.clone(),
                one.topic.clone(),
                optional(one.partitions),
                optional(one.replicas),
                one.ready(),
                optional((!notes.is_empty()).then_some(notes)),
            ]);
        }
        grid.take(width)
    }
}

/// A topic with its configuration.
#[derive(Debug, Serialize)]
struct DescribedView {
    #[serde(flatten)]
    topic: TopicView,
    config: BTreeMap<String, String>,
}

impl View for DescribedView {
    fn table(&self, _: Option<u16>) -> String {
        let topic = &self.topic;
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            let value = if value.is_empty() { "-" } else { &value };
            text.push_str(&format!("{name:<13}{value}\n"));
        };
        line("Name:", topic.name.clone());
        line("Topic:", topic.topic.clone());
        line("Topic id:", optional(topic.topic_id.as_ref()));
        line("Partitions:", optional(topic.partitions));
        line("Replicas:", optional(topic.replicas));
        line("Ready:", topic.ready());
        if let Some(change) = &topic.replicas_change {
            line("Change:", change.line());
        }
        for (name, value) in &self.config {
            line("Config:", format!("{name}={value}"));
        }
        for one in topic.conditions.iter().filter(|one| one.message.is_some()) {
            let reason = one.reason.as_deref().unwrap_or(&one.kind);
            line("Condition:", format!("{reason}: {}", optional(one.message.as_ref())));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn topic(status: Value) -> KafkaTopic {
        serde_json::from_value(json!({
            "apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaTopic",
            "metadata": { "name": "orders", "generation": 2 },
            "spec": { "partitions": 12, "config": { "retention.ms": 7 } },
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn topics_are_shown_with_what_a_person_should_know() {
        let refused = json!({
            "observedGeneration": 2, "topicId": "id",
            "conditions": [{
                "type": "Ready", "status": "False", "reason": "NotSupported",
                "message": "Decreasing partitions not supported",
            }],
        });
        let stale = json!({
            "observedGeneration": 1,
            "conditions": [{ "type": "Ready", "status": "True" }],
            "replicasChange": { "targetReplicas": 2, "state": "pending", "message": "why" },
        });
        let views = TopicsView(
            [refused.clone(), stale.clone()].map(|one| TopicView::of(&topic(one))).into(),
        );
        let expected = "\
NAME    TOPIC   PARTITIONS  REPLICAS  READY  CONDITIONS
orders  orders  12          -         False  NotSupported
orders  orders  12          -         -      replicas change pending
";
        assert_eq!(views.table(None), expected);
        let changing = topic(stale);
        let view = DescribedView { topic: TopicView::of(&changing), config: BTreeMap::new() };
        let text = view.table(None);
        assert!(text.contains("\nChange:      pending, to 2 replicas: why\n"), "{text}");
        let one = topic(refused);
        let view = DescribedView { topic: TopicView::of(&one), config: config(&one) };
        let expected = "\
Name:        orders
Topic:       orders
Topic id:    id
Partitions:  12
Replicas:    -
Ready:       False
Config:      retention.ms=7
Condition:   NotSupported: Decreasing partitions not supported
";
        assert_eq!(view.table(None), expected);
    }

    #[test]
    fn a_resource_has_what_was_asked_for_and_nothing_else() {
        let create = |config: Vec<(String, String)>| Create {
            name: "orders".to_owned(),
            topic_name: None,
            partitions: Some(3),
            replicas: None,
            config,
        };
        let made = serde_json::to_value(create(Vec::new()).resource("c")).unwrap();
        assert_eq!(made["spec"], json!({ "partitions": 3 }), "no config is not an empty config");
        assert_eq!(made["metadata"]["labels"], json!({ "strimzi.io/cluster": "c" }));
        let config = vec![setting("cleanup.policy=a=b").unwrap()];
        let made = serde_json::to_value(create(config).resource("c")).unwrap();
        assert_eq!(made["spec"]["config"], json!({ "cleanup.policy": "a=b" }));
        assert!(setting("=1").is_err() && setting("retention.ms").is_err());
    }
}
