//! The quorum of controllers on real clusters: growing, shrinking, and every way it says no.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod common;

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use common::{brokers, controllers, directory, eventually, listener, node, so, voter_ids};
use kafka_admin::{
    Admin, LevelChange, NewTopic, Outcome, Quorum, UpdateFeatureError, VoterChangeError,
    VoterListener,
};
use model::{ClusterId, DirectoryId};
use testkit::Cluster;

/// Adds a controller as soon as Kafka takes it. Kafka says 7 while the node is behind, or while the
/// change before is not committed; then the quorum is described again before the next try.
async fn add(admin: &Admin, cluster: &Cluster, id: i32) -> anyhow::Result<()> {
    let added = cluster.node(id);
    let (directory, listeners) = (directory(&added)?, [listener(&added)]);
    eventually(&format!("{id} is a voter"), async || {
        match admin.add_voter(None, node(id), directory, &listeners).await {
            Ok(()) | Err(VoterChangeError::Duplicate) => {}
            Err(error) if error.outcome() == Outcome::Unknown => {}
            Err(error) => return Err(error.into()),
        }
        let Ok(quorum) = admin.describe_quorum().await else { return so(false, Vec::new()) };
        let found =
            quorum.voters.iter().any(|v| v.id == node(id) && v.directory == Some(directory));
        so(found, voter_ids(&quorum))
    })
    .await
}

async fn remove(admin: &Admin, cluster: &Cluster, id: i32) -> anyhow::Result<()> {
    let directory = directory(&cluster.node(id))?;
    eventually(&format!("{id} is no voter"), async || {
        match admin.remove_voter(None, node(id), directory).await {
            Ok(()) | Err(VoterChangeError::NotFound) => {}
            Err(error) if error.outcome() == Outcome::Unknown => {}
            Err(error) => return Err(error.into()),
        }
        // The leader may change with this.
        let Ok(quorum) = admin.describe_quorum().await else { return so(false, Vec::new()) };
        so(!voter_ids(&quorum).contains(&id), voter_ids(&quorum))
    })
    .await
}

async fn voters(admin: &Admin) -> anyhow::Result<Vec<i32>> {
    Ok(voter_ids(&admin.describe_quorum().await?))
}

/// The quorum once all voters have caught up.
async fn caught_up(admin: &Admin) -> anyhow::Result<Quorum> {
    eventually("all voters have caught up", async || {
        let quorum = admin.describe_quorum().await?;
        let behind = quorum.voters.iter().any(|v| quorum.lag(v).is_none_or(|lag| lag > 0));
        Ok(if behind { Err(quorum) } else { Ok(quorum) })
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quorum_grows_from_one_to_five_and_shrinks_to_one() -> anyhow::Result<()> {
    let cluster = Cluster::builder().controllers(5).initial_voters(1).brokers(1).start().await?;
    // Through a broker, which passes it on, and straight to the controllers.
    let (through, direct) = (brokers(&cluster), controllers(&cluster));
    assert_eq!(voters(&direct).await?, [0]);
    refusals(&direct, &cluster).await?;
    for id in [1, 2] {
        add(&through, &cluster, id).await?;
    }
    assert_eq!(voters(&direct).await?, [0, 1, 2]);
    two_changes_at_once(&through, &direct, &cluster).await?;
    assert_eq!(voters(&through).await?, [0, 1, 2, 3, 4]);
    a_leader_change_between_describe_and_call(&direct, &cluster).await?;

    shrink(&through, &cluster, 3).await?;
    let left = shrink(&direct, &cluster, 1).await?;
    let quorum = direct.describe_quorum().await?;
    assert_eq!((voter_ids(&quorum), quorum.leader.get()), (vec![left], left));
    // The last one cannot go.
    let last = direct.remove_voter(None, node(left), directory(&cluster.node(left))?).await;
    ensure!(matches!(last, Err(VoterChangeError::NotFound)), "{last:?}");
    // And the cluster works.
    let new = NewTopic::new(common::topic("after"), 1, 1);
    let created = through.create_topics(std::slice::from_ref(&new), false).await?;
    assert!(created[&new.name].is_ok(), "{created:?}");
    Ok(())
}

/// Removes voters until `count` are left: followers first, the leader last, so that it is not among
/// those that stay. Gives one that stays.
async fn shrink(admin: &Admin, cluster: &Cluster, count: usize) -> anyhow::Result<i32> {
    let quorum = caught_up(admin).await?;
    let leader = quorum.leader.get();
    let followers: Vec<i32> = voter_ids(&quorum).into_iter().filter(|id| *id != leader).collect();
    let (stay, go) = followers.split_at(count);
    for id in go.iter().copied().chain([leader]) {
        caught_up(admin).await?;
        remove(admin, cluster, id).await?;
    }
    let quorum = eventually("one of those that stay leads", async || {
        let quorum = admin.describe_quorum().await?;
        Ok(if stay.contains(&quorum.leader.get()) { Ok(quorum) } else { Err(quorum) })
    })
    .await?;
    assert_eq!(voter_ids(&quorum), stay);
    eventually("those that went are observers, the former leader among them", async || {
        // A new leader knows of an observer when it first fetches from it.
        let quorum = admin.describe_quorum().await?;
        let observers: Vec<_> = quorum.observers.iter().map(|o| o.id.get()).collect();
        so(go.iter().chain([&leader]).all(|id| observers.contains(id)), observers)
    })
    .await?;
    stay.first().copied().context("somebody stays")
}

/// Every no that can be had without breaking anything.
async fn refusals(admin: &Admin, cluster: &Cluster) -> anyhow::Result<()> {
    let first = cluster.node(1);
    let (id, right) = (node(1), directory(&first)?);
    let listeners = [listener(&first)];
    let wrong: DirectoryId = DirectoryId::generate([7; 16]).context("an id")?;

    // A wrong directory id looks like a node that is behind, however often it is tried.
    for _ in 0..2 {
        let answer = admin.add_voter(None, id, wrong, &listeners).await;
        let Err(error @ VoterChangeError::Unknown { .. }) = answer else { bail!("{answer:?}") };
        assert_eq!(error.outcome(), Outcome::Unknown);
    }
    assert_eq!(voters(admin).await?, [0]);

    let voter = cluster.node(0);
    for of in [directory(&voter)?, wrong] {
        let answer = admin.add_voter(None, node(0), of, &[listener(&voter)]).await;
        ensure!(matches!(answer, Err(VoterChangeError::Duplicate)), "{answer:?}");
    }
    let foreign = VoterListener { name: "OTHER".to_owned(), ..listener(&first) };
    let answer = admin.add_voter(None, id, right, &[foreign]).await;
    ensure!(matches!(answer, Err(VoterChangeError::Invalid { .. })), "{answer:?}");
    let other = ClusterId::new("another-cluster-id")?;
    let answer = admin.add_voter(Some(&other), id, right, &listeners).await;
    ensure!(matches!(answer, Err(VoterChangeError::WrongCluster)), "{answer:?}");
    let answer = admin.remove_voter(Some(&other), node(0), directory(&voter)?).await;
    ensure!(matches!(answer, Err(VoterChangeError::WrongCluster)), "{answer:?}");
    for (id, of) in [(node(0), wrong), (node(1), right), (node(77), right)] {
        let answer = admin.remove_voter(None, id, of).await;
        ensure!(matches!(answer, Err(VoterChangeError::NotFound)), "{answer:?}");
    }
    assert_eq!(voters(admin).await?, [0]);
    Ok(())
}

/// Of two changes at once at most one happens at a time; what the other says is "unknown" and never
/// "done" without being done.
async fn two_changes_at_once(one: &Admin, other: &Admin, cluster: &Cluster) -> anyhow::Result<()> {
    caught_up(one).await?;
    let (third, fourth) = (cluster.node(3), cluster.node(4));
    let (listeners_3, listeners_4) = ([listener(&third)], [listener(&fourth)]);
    let (a, b) = tokio::join!(
        one.add_voter(None, node(3), directory(&third)?, &listeners_3),
        other.add_voter(None, node(4), directory(&fourth)?, &listeners_4),
    );
    for (id, answer) in [(3, &a), (4, &b)] {
        match answer {
            Ok(()) => ensure!(voters(other).await?.contains(&id), "{id} was said to be added"),
            Err(error) => assert_eq!(error.outcome(), Outcome::Unknown, "{error:?}"),
        }
    }
    for id in [3, 4] {
        add(one, cluster, id).await?;
    }
    Ok(())
}

/// The leader that we know is deposed before we call: the answer is "not leader", nothing is done
/// twice, and the next call finds the new one.
async fn a_leader_change_between_describe_and_call(
    admin: &Admin,
    cluster: &Cluster,
) -> anyhow::Result<()> {
    let before = caught_up(admin).await?.leader;
    let deposed = cluster.node(before.get());
    deposed.freeze()?;
    // Another client, which knows nothing of the old leader, sees the new one.
    let other = controllers(cluster).with_call_timeout(Duration::from_secs(5));
    let after = eventually("there is another leader", async || {
        Ok(match other.describe_quorum().await {
            Ok(quorum) if quorum.leader != before => Ok(quorum.leader),
            Ok(quorum) => Err(format!("{quorum:?}")),
            Err(error) => Err(format!("{error:?}")),
        })
    })
    .await?;
    deposed.thaw()?;
    eventually("the deposed leader follows", async || {
        let quorum = other.describe_quorum().await?;
        let it = quorum.voters.iter().find(|voter| voter.id == before);
        let follows = it.and_then(|voter| quorum.lag(voter)).is_some_and(|lag| lag == 0);
        so(quorum.leader != before && follows, format!("{quorum:?}"))
    })
    .await?;

    // Our client has not been told. A voter that does not exist, so that nothing can happen.
    let nobody = DirectoryId::generate([9; 16]).context("an id")?;
    let answer = admin.remove_voter(None, node(77), nobody).await;
    let Err(error) = answer else { bail!("nobody was removed") };
    match &error {
        VoterChangeError::NotLeader => assert_eq!(error.outcome(), Outcome::Unknown),
        // The connection to the frozen node may have been given up already.
        VoterChangeError::NotFound => {}
        error => bail!("{error:?}"),
    }
    let again = admin.remove_voter(None, node(77), nobody).await;
    ensure!(matches!(again, Err(VoterChangeError::NotFound)), "{again:?}");
    ensure!(after != before);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quorum_grows_and_shrinks_on_kafka_4_1() -> anyhow::Result<()> {
    let cluster = Cluster::builder()
        .version("4.1.2")
        .controllers(3)
        .initial_voters(1)
        .brokers(1)
        .start()
        .await?;
    let (through, direct) = (brokers(&cluster), controllers(&cluster));
    refusals(&direct, &cluster).await?;
    for id in [1, 2] {
        add(&through, &cluster, id).await?;
    }
    assert_eq!(voters(&direct).await?, [0, 1, 2]);
    shrink(&direct, &cluster, 1).await?;
    Ok(())
}

async fn a_static_quorum_becomes_dynamic(version: &str) -> anyhow::Result<()> {
    let cluster = Cluster::builder()
        .version(version)
        .quorum(testkit::Quorum::Static)
        .controllers(3)
        .brokers(1)
        .start()
        .await?;
    let admin = controllers(&cluster);
    let quorum = admin.describe_quorum().await?;
    assert_eq!(voter_ids(&quorum), [0, 1, 2]);
    assert!(quorum.voters.iter().all(|voter| voter.directory.is_none()), "not known yet");
    assert_eq!(admin.describe_features(None).await?.finalized.get("kraft.version"), None);
    let follower = voter_ids(&quorum).into_iter().find(|id| *id != quorum.leader.get());
    let follower = follower.context("a follower")?;
    let on_disk = directory(&cluster.node(follower))?;
    let refused = admin.remove_voter(None, node(follower), on_disk).await;
    ensure!(matches!(refused, Err(VoterChangeError::StaticQuorum { .. })), "{refused:?}");

    // The leader must have heard from every voter first.
    eventually("the leader knows enough for kraft.version 1", async || {
        let asked = admin.update_feature("kraft.version", 1, LevelChange::Upgrade, true).await;
        Ok(asked.map_err(|error| format!("{error:?}")))
    })
    .await?;
    admin.update_feature("kraft.version", 1, LevelChange::Upgrade, false).await?;
    let down = admin.update_feature("kraft.version", 0, LevelChange::SafeDowngrade, false).await;
    ensure!(matches!(down, Err(UpdateFeatureError::Level { .. })), "{down:?}");

    let quorum = admin.describe_quorum().await?;
    for voter in &quorum.voters {
        assert_eq!(voter.directory, Some(directory(&cluster.node(voter.id.get()))?));
    }
    remove(&admin, &cluster, follower).await?;
    add(&brokers(&cluster), &cluster, follower).await?;
    assert_eq!(voters(&admin).await?, [0, 1, 2]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_quorum_becomes_dynamic_on_kafka_4_3() -> anyhow::Result<()> {
    a_static_quorum_becomes_dynamic("4.3.1").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_quorum_becomes_dynamic_on_kafka_4_1() -> anyhow::Result<()> {
    a_static_quorum_becomes_dynamic("4.1.2").await
}
