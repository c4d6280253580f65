//! The steps that every version of Kafka must pass, in order: a later one may rest on what an
//! earlier one left.

mod groups;
mod moves;
mod registration;
mod settings;
mod topics;
mod users;
mod view;

use testkit::Cluster;

/// All of them.
pub(crate) async fn run(cluster: &Cluster) -> anyhow::Result<()> {
    view::cluster_as_brokers_and_controllers_see_it(cluster).await?;
    view::quorum_with_directories_and_endpoints(cluster).await?;
    view::features_one_at_a_time(cluster).await?;
    topics::life_of_a_topic(cluster).await?;
    topics::offsets_from_the_leaders(cluster).await?;
    groups::of_both_protocols(cluster).await?;
    settings::of_nodes_topics_and_the_cluster(cluster).await?;
    settings::of_controllers(cluster).await?;
    users::scram_credentials(cluster).await?;
    users::access_control_lists(cluster).await?;
    users::many_credentials_rules_and_quotas_in_one_request(cluster).await?;
    moves::between_the_disks_of_a_broker(cluster).await?;
    moves::under_a_throttle_cancelled_half_way(cluster).await?;
    moves::throttle_of_a_broker_through_controllers(cluster).await?;
    moves::leaders_are_elected(cluster).await?;
    registration::of_a_stopped_broker(cluster).await?;
    registration::of_a_running_broker(cluster).await
}
