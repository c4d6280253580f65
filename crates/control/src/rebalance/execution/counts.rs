//! Changes of the number of replicas, in a simulated cluster.

use super::sim::{Cluster, ids, partition};
use super::tests::{begin, job, live, pass, reassigned};
use super::*;

#[test]
fn the_number_of_replicas_changes_only_if_the_job_is_about_that() {
    let steps: [&[i32]; 3] = [&[0, 1], &[0, 1, 3, 4], &[0, 1, 3]];
    let mut cluster = Cluster::new(5, &[vec![0, 1, 2]]);
    let limits = || Limits { rate_bytes_max: Some(50_000_000), ..Limits::default() };
    for target in steps {
        let plan = job(&[(0, target)], limits());
        let mut recorded = begin(&plan);
        live(&plan, &mut recorded, &mut cluster.clone());
        assert_eq!(recorded.outcome, Some(Outcome::Outdated), "a plan keeps the number");
        let change = Job { changes_count: true, ..plan };
        let mut recorded = begin(&change);
        let settings = cluster.settings.clone();
        live(&change, &mut recorded, &mut cluster);
        assert_eq!(recorded.outcome, Some(Outcome::Finished));
        assert_eq!(cluster.partitions[&partition(0)].replicas, ids(target));
        assert_eq!(cluster.settings, settings, "the throttle is reverted");
    }
    // With one of three in sync nothing is removed.
    let mut cluster = Cluster::new(5, &[vec![0, 1, 2]]);
    cluster.partitions.get_mut(&partition(0)).unwrap().isr = ids(&[0]);
    let change = Job { changes_count: true, ..job(&[(0, &[0, 1])], limits()) };
    let acts = pass(&change, &mut begin(&change), &mut cluster);
    assert_eq!(reassigned(&acts), []);
}

#[test]
fn a_change_of_the_number_of_replicas_is_cancelled() {
    let mut cluster = Cluster::new(5, &[vec![0, 1, 2]]);
    let change = Job { changes_count: true, ..job(&[(0, &[0, 1, 2, 3])], Limits::default()) };
    let mut recorded = begin(&change);
    pass(&change, &mut recorded, &mut cluster);
    assert!(cluster.partitions[&partition(0)].is_moving());
    for _ in 0..10 {
        let decision = decide(&change, &recorded, &Facts { stop: true, ..cluster.facts() });
        recorded = decision.recorded;
        decision.acts.iter().for_each(|act| cluster.act(act));
        cluster.reads = decision.reads;
    }
    assert_eq!((recorded.phase, recorded.outcome), (Ended, Some(Outcome::Stopped)));
    assert_eq!(cluster.partitions[&partition(0)].replicas, ids(&[0, 1, 2]));
}
