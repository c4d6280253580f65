//! Brokers that come and go while a cluster serves: what is empty goes, what holds data stays until it does
//! not, and nobody goes because nothing is known.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod elastic;
mod kafka;
mod up;

use elastic::{Elastic, Shape};
#[cfg(feature = "soak")]
use kafka::wait_for;
use rustix::process::Signal;

const CONTROLLERS: &[i32] = &[3];

/// A cluster with one controller and these brokers in one pool.
fn with_brokers<'a>(pools: &'a [(&'a str, &'a [i32])]) -> Shape<'a> {
    Shape { pools, brokers: pools[0].1, voters: CONTROLLERS }
}

#[test]
fn brokers_come_and_go_and_data_stays() {
    let ground = elastic::ground();
    let elastic = Elastic::with_one_controller(&ground, "elastic");
    five_brokers_of_which_the_empty_one_goes(&elastic);
    a_scale_down_is_taken_back(&elastic);
    a_broker_without_data_goes(&elastic);
    nobody_goes_while_nothing_is_known(&elastic);
    #[cfg(feature = "soak")]
    a_pool_takes_the_place_of_another(&elastic);
    elastic.end();
}

fn five_brokers_of_which_the_empty_one_goes(elastic: &Elastic<'_>) {
    let before = elastic.place.pods();
    elastic.scale("broker", 5);
    let five = [("broker", &[0, 1, 2, 4, 5][..]), ("controller", CONTROLLERS)];
    elastic.becomes(&with_brokers(&five));
    let after = elastic.place.pods();
    assert!(before.iter().all(|pod| after.contains(pod)), "{before:?} {after:?}");
    elastic.create("held", &[&[4, 0, 1]]);
    elastic.scale("broker", 3);
    elastic.warns("ScaleDownPreventionCheck", &["KafkaNodePool broker", "broker 4", "1 partition"]);
    let four = [("broker", &[0, 1, 2, 4][..]), ("controller", CONTROLLERS)];
    elastic.becomes(&with_brokers(&four));
    // Nothing that belonged to the other one is left, but its claim, which was to be kept.
    let left = elastic.place.names("configmaps,secrets,pods");
    assert!(!left.iter().any(|name| name.ends_with("-broker-5")), "{left:?}");
    let claims = elastic.place.names("pvc");
    assert!(claims.contains(&"data-0-my-cluster-broker-5".to_owned()), "{claims:?}");
}

fn a_scale_down_is_taken_back(elastic: &Elastic<'_>) {
    elastic.scale("broker", 4);
    elastic.warns_no_more("ScaleDownPreventionCheck");
    let four = [("broker", &[0, 1, 2, 4][..]), ("controller", CONTROLLERS)];
    elastic.becomes(&with_brokers(&four));
    // It is open again: whoever asks for four replicas gets one there.
    elastic.create_with("open", 1, 4);
    assert!(elastic.replicas("open").contains(&4));
    elastic.delete("open");
}

fn a_broker_without_data_goes(elastic: &Elastic<'_>) {
    elastic.scale("broker", 3);
    elastic.warns("ScaleDownPreventionCheck", &["broker 4"]);
    elastic.empty(&[4], &[0, 1, 2]);
    let three = [("broker", &[0, 1, 2][..]), ("controller", CONTROLLERS)];
    elastic.becomes(&with_brokers(&three));
    elastic.warns_no_more("ScaleDownPreventionCheck");
}

fn nobody_goes_while_nothing_is_known(elastic: &Elastic<'_>) {
    elastic.scale("broker", 4);
    let four = [("broker", &[0, 1, 2, 4][..]), ("controller", CONTROLLERS)];
    elastic.becomes(&with_brokers(&four));
    // The id was used before, by a broker that was closed and left.
    elastic.create_with("reopened", 1, 4);
    assert!(elastic.replicas("reopened").contains(&4));
    elastic.delete("reopened");
    let before = elastic.place.pods();
    let brokers = elastic.place.javas("my-cluster-broker-");
    assert_eq!(brokers.len(), 4, "{brokers:?}");
    brokers.iter().for_each(|pid| up::signal(*pid, Signal::STOP));
    elastic.scale("broker", 3);
    elastic.warns("ScaleDownPreventionCheck", &["broker 4", "unknown whether"]);
    assert_eq!(elastic.place.pods(), before);
    brokers.iter().for_each(|pid| up::resume(*pid));
    let three = [("broker", &[0, 1, 2][..]), ("controller", CONTROLLERS)];
    elastic.becomes(&with_brokers(&three));
    let after = elastic.place.pods();
    assert!(after.iter().all(|pod| before.contains(pod)), "{before:?} {after:?}");
}

#[cfg(feature = "soak")]
fn a_pool_takes_the_place_of_another(elastic: &Elastic<'_>) {
    let before = elastic.pods("broker");
    elastic.add_pool("fresh", &["broker"], 3);
    let both = [("broker", &[0, 1, 2][..]), ("fresh", &[4, 5, 6][..]), ("controller", CONTROLLERS)];
    elastic.becomes(&Shape { pools: &both, brokers: &[0, 1, 2, 4, 5, 6], voters: CONTROLLERS });
    elastic.place.kubectl(&["delete", "kafkanodepool", "broker", "--wait=false"]);
    elastic.warns("ScaleDownPreventionCheck", &["KafkaNodePool broker", "0, 1 and 2"]);
    assert_eq!(elastic.pods("broker"), before);
    elastic.serves();
    elastic.empty(&[0, 1, 2], &[4, 5, 6]);
    wait_for(|| {
        let pools = elastic.place.names("kafkanodepools");
        if pools.iter().any(|pool| pool == "broker") { Err(conditions(elastic)) } else { Ok(()) }
    });
    let fresh = [("fresh", &[4, 5, 6][..]), ("controller", CONTROLLERS)];
    elastic.becomes(&with_brokers(&fresh));
    let sets = elastic.place.names("strimzipodsets");
    assert_eq!(sets, ["my-cluster-controller", "my-cluster-fresh"]);
}

#[cfg(feature = "soak")]
fn conditions(elastic: &Elastic<'_>) -> String {
    elastic.place.get("kafka", elastic::CLUSTER)["status"]["conditions"].to_string()
}
