//! Waves in rows, and whole executions in a simulated cluster that breaks at any point.

use proptest::prelude::*;

use super::sim::{Cluster, SIZE, broker, ids, partition};
use super::*;

/// A job that gives partitions, by their number, new brokers.
pub(super) fn job(tasks: &[(i32, &[i32])], limits: Limits) -> Job {
    let task = |(number, target): &(i32, &[i32])| Task {
        partition: partition(*number),
        target: ids(target),
        bytes: SIZE,
    };
    Job { limits, tasks: tasks.iter().map(task).collect(), ..Job::default() }
}

/// One pass: decides, records, acts.
pub(super) fn pass(job: &Job, recorded: &mut Recorded, cluster: &mut Cluster) -> Vec<Act> {
    let decision = decide(job, recorded, &cluster.facts());
    *recorded = decision.recorded;
    decision.acts.iter().for_each(|act| cluster.act(act));
    cluster.reads = decision.reads;
    decision.acts
}

/// Lives it through to its end.
pub(super) fn live(job: &Job, recorded: &mut Recorded, cluster: &mut Cluster) {
    for _ in 0..500 {
        pass(job, recorded, cluster);
        if recorded.phase == Ended {
            return;
        }
        cluster.tick();
    }
    panic!("it does not end: {recorded:?}");
}

pub(super) fn begin(job: &Job) -> Recorded {
    Recorded::begin(&job.limits, 1_000)
}

pub(super) fn reassigned(acts: &[Act]) -> Vec<TopicPartition> {
    let which = |act: &Act| match act {
        Act::Reassign(which, _) => Some(which.clone()),
        Act::Configure(..) | Act::Cancel(_) | Act::Shift(..) | Act::Elect(_) => None,
    };
    acts.iter().filter_map(which).collect()
}

#[test]
fn a_plan_is_carried_out_and_its_leaders_lead() {
    let mut cluster = Cluster::new(5, &[vec![0, 1, 2], vec![1, 2, 3], vec![0, 1, 2]]);
    // One goes to another broker, one changes its leader only, one both.
    let job = job(&[(0, &[4, 1, 2]), (1, &[3, 1, 2]), (2, &[2, 4, 3])], Limits::default());
    let mut recorded = begin(&job);
    live(&job, &mut recorded, &mut cluster);
    assert_eq!(recorded.outcome, Some(Outcome::Finished));
    for task in &job.tasks {
        let now = &cluster.partitions[&task.partition];
        assert_eq!((&now.replicas, now.leader), (&task.target, Some(task.target[0])));
    }
}

#[test]
fn limits_hold_for_each_broker_and_for_the_cluster() {
    let mut cluster = Cluster::new(8, &vec![vec![0, 1, 2]; 12]);
    let to_three: Vec<(i32, &[i32])> = (0..12).map(|number| (number, &[0, 1, 3][..])).collect();
    let mut all = job(&to_three, Limits::default());
    // Five at once go to broker 3 and come from broker 0.
    assert_eq!(reassigned(&pass(&all, &mut begin(&all), &mut cluster)).len(), 5);
    // Those of others count.
    let mut cluster = Cluster::new(8, &vec![vec![0, 1, 2]; 12]);
    let facts = Facts { others: BTreeMap::from([(broker(3), 3)]), ..cluster.facts() };
    assert_eq!(reassigned(&decide(&all, &begin(&all), &facts).acts).len(), 2);
    all.limits.moves_max = 3;
    assert_eq!(reassigned(&pass(&all, &mut begin(&all), &mut cluster)).len(), 3);
    // Another order of the same replicas moves nothing, and has a limit of its own.
    let order: Vec<(i32, &[i32])> = (0..12).map(|number| (number, &[2, 1, 0][..])).collect();
    let mut order = job(&order, Limits::default());
    let mut cluster = Cluster::new(8, &vec![vec![0, 1, 2]; 12]);
    assert_eq!(reassigned(&decide(&order, &begin(&order), &cluster.facts()).acts).len(), 12);
    order.limits.leaders_max = 7;
    assert_eq!(reassigned(&pass(&order, &mut begin(&order), &mut cluster)).len(), 7);
}

#[test]
fn a_partition_without_its_majority_in_sync_is_left_alone() {
    let rows: [(&[i32], &[i32], bool); 8] = [
        (&[0, 1, 2], &[0, 1, 3], true),
        (&[0, 1], &[0, 1, 3], true),
        (&[0, 1], &[3, 4, 5], true),
        (&[0], &[0, 1, 3], false),
        // It would keep the one that is behind and lose one that is not.
        (&[0, 1], &[2, 3, 4], true),
        (&[0, 1], &[0, 2, 3], true),
        (&[1, 2], &[0, 3, 4], true),
        (&[], &[0, 1, 3], false),
    ];
    for (isr, target, safe) in rows {
        let now = PartitionNow {
            replicas: ids(&[0, 1, 2]),
            isr: ids(isr),
            leader: isr.first().map(|id| broker(*id)),
            ..PartitionNow::default()
        };
        let target = ids(target).into_iter().collect();
        assert_eq!(wave::is_safe(&now, &target), safe, "{isr:?} {target:?}");
    }
    // Two replicas, of which the one in sync would go and the other stay.
    let now = PartitionNow {
        replicas: ids(&[0, 1]),
        isr: ids(&[0, 1]),
        leader: Some(broker(0)),
        ..PartitionNow::default()
    };
    assert!(wave::is_safe(&now, &ids(&[1, 2]).into_iter().collect()));
    let now = PartitionNow { isr: ids(&[0]), ..now };
    assert!(!wave::is_safe(&now, &ids(&[1, 2]).into_iter().collect()));
}

#[test]
fn a_throttle_is_recorded_then_set_then_taken_back() {
    let mut cluster = Cluster::new(5, &[vec![0, 1, 2], vec![1, 2, 3]]);
    let before = cluster.settings.clone();
    let limits = Limits { rate_bytes_max: Some(50_000_000), ..Limits::default() };
    let job = job(&[(0, &[4, 1, 2]), (1, &[1, 2, 4])], limits);
    let mut recorded = begin(&job);
    // What is there has not been read: nothing is done yet.
    assert!(pass(&job, &mut recorded, &mut cluster).is_empty());
    let acts = pass(&job, &mut recorded, &mut cluster);
    let moves = acts.iter().position(|act| matches!(act, Act::Reassign(..))).unwrap();
    assert!(acts[..moves].iter().all(|act| matches!(act, Act::Configure(..))));
    let rates =
        Values { leader: Some("50000000".to_owned()), follower: Some("50000000".to_owned()) };
    assert_eq!(cluster.settings[&Subject::Broker(broker(1))], rates);
    let topic = &cluster.settings[&Subject::Topic(partition(0).topic)];
    assert_eq!(topic.leader.as_deref(), Some("*"));
    assert_eq!(topic.follower.as_deref(), Some("0:4,1:4"));
    // What was set before is in the record, also for a next life.
    let text = serde_json::to_string(&recorded).unwrap();
    let mut recorded: Recorded = serde_json::from_str(&text).unwrap();
    assert_eq!(recorded.former[&Subject::Broker(broker(1))].leader.as_deref(), Some("77777777"));
    live(&job, &mut recorded, &mut cluster);
    assert_eq!(cluster.settings, before);
    assert!(recorded.former.is_empty());
}

#[test]
fn the_rate_follows_what_is_seen() {
    let limits = Limits { rate_bytes_max: Some(64 << 20), ..Limits::default() };
    let after = |rate: Option<u64>, limits: &Limits, distress: Option<bool>, moved: u64| {
        let mut recorded =
            Recorded { rate_bytes: rate, measured: Some((0, 0)), ..begin(&Job::default()) };
        let facts = Facts {
            distress,
            now_ms: 30_000,
            partitions: Some(BTreeMap::new()),
            ..Facts::default()
        };
        let progress = Progress { bytes_done: moved, moves_in_flight: 1, ..Progress::default() };
        throttle::adapt(&mut recorded, limits, &facts, &progress);
        recorded.rate_bytes.map(|rate| rate >> 20)
    };
    let (mb, free) = (1_u64 << 20, Limits::default());
    assert_eq!(after(Some(40 * mb), &limits, Some(true), mb), Some(20));
    assert_eq!(after(Some(40 * mb), &limits, Some(false), mb), Some(50));
    assert_eq!(after(Some(60 * mb), &limits, Some(false), mb), Some(64));
    assert_eq!(after(Some(10 * mb), &limits, Some(false), 0), Some(20));
    assert_eq!(after(Some(10 * mb), &limits, None, 0), Some(10));
    assert_eq!(after(Some(mb), &limits, Some(true), mb), Some(1));
    // Without a limit there is none until others fall behind.
    assert_eq!(after(None, &free, Some(false), mb), None);
    assert_eq!(after(None, &free, Some(true), 600 * mb), Some(10));
}

#[test]
fn a_stop_gives_back_what_was_taken() {
    let mut cluster = Cluster::new(5, &[vec![0, 1, 2], vec![1, 2, 3]]);
    let before = cluster.partitions.clone();
    let job = job(&[(0, &[4, 1, 2]), (1, &[1, 2, 4])], Limits::default());
    let mut recorded = begin(&job);
    pass(&job, &mut recorded, &mut cluster);
    assert!(cluster.partitions.values().all(PartitionNow::is_moving));
    for _ in 0..4 {
        let decision = decide(&job, &recorded, &Facts { stop: true, ..cluster.facts() });
        recorded = decision.recorded;
        decision.acts.iter().for_each(|act| cluster.act(act));
    }
    assert_eq!((recorded.phase, recorded.outcome), (Ended, Some(Outcome::Stopped)));
    assert_eq!(cluster.partitions, before);
}

#[test]
fn nobody_who_asks_is_a_stop_and_a_pause_begins_nothing() {
    let cluster = Cluster::new(5, &[vec![0, 1, 2]]);
    let job = job(&[(0, &[4, 1, 2])], Limits::default());
    let decide = |facts: &Facts| decide(&job, &begin(&job), facts);
    assert_eq!(decide(&Facts { claimed: Some(false), ..cluster.facts() }).event, Some(StopAsked));
    let unknown = decide(&Facts { claimed: None, ..cluster.facts() });
    assert_eq!((unknown.event, unknown.acts.len()), (None, 1));
    assert!(decide(&Facts { hold: true, ..cluster.facts() }).acts.is_empty());
    assert!(decide(&Facts { partitions: None, ..cluster.facts() }).acts.is_empty());
    assert!(decide(&Facts { live: None, ..cluster.facts() }).acts.is_empty());
}

#[test]
fn an_execution_begins_at_a_time_and_measures_now_and_then_while_it_moves() {
    let limits = Limits { rate_bytes_max: Some(7), ..Limits::default() };
    let begun = Recorded::begin(&limits, 1_000);
    assert_eq!((begun.since_ms, begun.began_ms, begun.rate_bytes), (1_000, 1_000, Some(7)));
    let rows = [
        (Moving, Some((0, 0)), 30_000, true),
        (Moving, Some((0, 0)), 29_999, false),
        (Moving, None, 30_000, false),
        (Restoring, Some((0, 0)), 30_000, false),
    ];
    for (phase, measured, now_ms, expected) in rows {
        let recorded = Recorded { phase, measured, ..begun.clone() };
        assert_eq!(recorded.measures(now_ms), expected, "{phase:?} {measured:?} {now_ms}");
    }
}

#[test]
fn a_broker_that_stays_away_is_done_without() {
    let mut cluster = Cluster::new(6, &[vec![0, 1, 2], vec![1, 2, 3]]);
    let job = job(&[(0, &[4, 1, 2]), (1, &[1, 2, 5])], Limits::default());
    let mut recorded = begin(&job);
    pass(&job, &mut recorded, &mut cluster);
    cluster.kill(broker(4));
    // For a while it is waited for.
    cluster.tick();
    assert!(pass(&job, &mut recorded, &mut cluster).is_empty());
    live(&job, &mut recorded, &mut cluster);
    assert_eq!(recorded.outcome, Some(Outcome::Outdated));
    assert_eq!(cluster.partitions[&partition(0)].replicas, ids(&[0, 1, 2]));
    assert_eq!(cluster.partitions[&partition(1)].replicas, ids(&[1, 2, 5]));
}

#[test]
fn one_that_is_restarted_is_waited_for() {
    let mut cluster = Cluster::new(6, &[vec![0, 1, 2]]);
    let job = job(&[(0, &[4, 1, 2])], Limits::default());
    let mut recorded = begin(&job);
    pass(&job, &mut recorded, &mut cluster);
    cluster.kill(broker(4));
    for _ in 0..10 {
        cluster.tick();
        pass(&job, &mut recorded, &mut cluster);
    }
    cluster.live.insert(broker(4));
    live(&job, &mut recorded, &mut cluster);
    assert_eq!(recorded.outcome, Some(Outcome::Finished));
    assert!(recorded.away.is_empty());
}

#[test]
fn moves_of_others_are_left_alone_and_topics_may_go() {
    let mut cluster = Cluster::new(6, &[vec![0, 1, 2], vec![0, 1, 2]]);
    let job = job(&[(0, &[4, 1, 2]), (1, &[4, 1, 2])], Limits::default());
    cluster.reassign(&partition(0), &ids(&[5, 1, 2]));
    cluster.partitions.remove(&partition(1));
    let mut recorded = begin(&job);
    assert!(pass(&job, &mut recorded, &mut cluster).is_empty());
    live(&job, &mut recorded, &mut cluster);
    assert_eq!(cluster.partitions[&partition(0)].replicas, ids(&[4, 1, 2]));
    assert_eq!(recorded.outcome, Some(Outcome::Finished));
}

#[test]
fn replicas_change_their_disks_two_at_a_time() {
    let mut cluster = Cluster::new(1, &[]);
    let replica = |number| Disk { partition: partition(number), broker: broker(0) };
    for number in 0..5 {
        let now = DiskNow { path: "/a".to_owned(), future: None };
        cluster.disks.insert(replica(number), now);
    }
    let task = |number| DiskTask { replica: replica(number), path: "/b".to_owned(), bytes: SIZE };
    let job = Job { disks: (0..5).map(task).collect(), ..Job::default() };
    let mut recorded = begin(&job);
    pass(&job, &mut recorded, &mut cluster);
    let shifting = cluster.disks.values().filter(|now| now.future.is_some()).count();
    assert_eq!((recorded.phase, shifting), (Shifting, 2));
    live(&job, &mut recorded, &mut cluster);
    assert!(cluster.disks.values().all(|now| now.path == "/b"));
}

#[test]
fn a_broker_that_is_away_holds_up_no_throttle_and_gets_its_values_back_when_all_is_over() {
    let mut cluster = Cluster::new(6, &[vec![0, 1, 2], vec![0, 1, 2], vec![0, 1, 2]]);
    let limits = Limits { rate_bytes_max: Some(5 << 20), moves_max: 1, ..Limits::default() };
    let job = job(&[(0, &[0, 1, 3]), (1, &[0, 1, 4]), (2, &[0, 1, 5])], limits);
    let mut recorded = begin(&job);
    while !recorded.former.contains_key(&Subject::Broker(broker(2))) {
        pass(&job, &mut recorded, &mut cluster);
        cluster.tick();
    }
    // It dies with the throttle on it, and never says a word again.
    cluster.kill(broker(2));
    let mut told = BTreeMap::new();
    for _ in 0..200 {
        cluster.reads.remove(&Subject::Broker(broker(2)));
        for act in pass(&job, &mut recorded, &mut cluster) {
            if let Act::Configure(Subject::Broker(of), values) = act
                && of == broker(2)
            {
                assert_eq!(recorded.phase, Restoring, "nothing waits for it before");
                told.insert(of, values);
            }
        }
        // Kafka has acknowledged it.
        told.keys().for_each(|broker| recorded.forget_former(*broker));
        cluster.tick();
    }
    assert_eq!((recorded.phase, recorded.outcome), (Ended, Some(Outcome::Finished)));
    assert_eq!(told, BTreeMap::from([(broker(2), Values::default())]));
}

#[test]
fn nobody_waits_for_one_that_is_lost_to_lead() {
    let mut cluster = Cluster::new(4, &[vec![1, 2, 3]]);
    let job = job(&[(0, &[3, 1, 2])], Limits::default());
    let mut recorded = begin(&job);
    pass(&job, &mut recorded, &mut cluster);
    cluster.kill(broker(3));
    cluster.clock_ms += AWAY_MS_MAX;
    recorded.away.insert(broker(3), 1_000);
    recorded.phase = Electing;
    recorded.since_ms = cluster.clock_ms;
    pass(&job, &mut recorded, &mut cluster);
    assert_eq!(recorded.phase, Restoring);
}

#[test]
fn another_number_of_replicas_than_planned_for_needs_another_plan() {
    let mut cluster = Cluster::new(5, &[vec![0, 1], vec![0, 1]]);
    let job = job(&[(0, &[0, 2]), (1, &[0, 2])], Limits::default());
    cluster.partitions.insert(partition(1), {
        let now = ids(&[0, 1, 3]);
        PartitionNow {
            replicas: now.clone(),
            isr: now,
            leader: Some(broker(0)),
            ..Default::default()
        }
    });
    // Right after a move a broker may still tell of the replica that went.
    let mut moved = begin(&job);
    moved.in_flight.insert(partition(1));
    let decision = decide(&job, &moved, &cluster.facts());
    assert!(!decision.recorded.in_flight.contains(&partition(1)));
    assert_eq!(decision.progress.moves_waiting, 1);
    let mut recorded = begin(&job);
    live(&job, &mut recorded, &mut cluster);
    assert_eq!(recorded.outcome, Some(Outcome::Outdated));
    assert_eq!(cluster.partitions[&partition(1)].replicas, ids(&[0, 1, 3]));
    assert_eq!(cluster.partitions[&partition(0)].replicas, ids(&[0, 2]));
}

#[test]
fn disks_of_a_broker_that_stays_away_are_done_without() {
    let mut cluster = Cluster::new(3, &[vec![0, 1, 2]]);
    let replica = |id| Disk { partition: partition(0), broker: broker(id) };
    let task = |id| DiskTask { replica: replica(id), path: "/b".to_owned(), bytes: SIZE };
    let job = Job { disks: vec![task(0), task(1)], ..Job::default() };
    let now = DiskNow { path: "/a".to_owned(), future: None };
    cluster.disks.insert(replica(1), now);
    cluster.kill(broker(0));
    let mut recorded = begin(&job);
    for _ in 0..50 {
        let facts = Facts { silent: BTreeSet::from([broker(0)]), ..cluster.facts() };
        let decision = decide(&job, &recorded, &facts);
        recorded = decision.recorded;
        decision.acts.iter().for_each(|act| cluster.act(act));
        let waits = facts.now_ms < 1_000 + AWAY_MS_MAX;
        assert!(!waits || recorded.phase <= Shifting, "{recorded:?}");
        cluster.tick();
    }
    assert_eq!((recorded.phase, recorded.outcome), (Ended, Some(Outcome::Outdated)));
    assert_eq!(cluster.disks[&replica(1)].path, "/b");
}

#[test]
fn a_request_hears_that_it_runs_until_the_throttle_is_back() {
    let rows = [
        (Moving, None, Execution::Running),
        (Restoring, Some(Outcome::Stopped), Execution::Running),
        (Ended, Some(Outcome::Stopped), Execution::Stopped),
        (Ended, Some(Outcome::Finished), Execution::Finished),
        (Ended, Some(Outcome::Outdated), Execution::Lost),
    ];
    for (phase, outcome, expected) in rows {
        assert_eq!(Recorded { phase, outcome, ..Recorded::default() }.execution(), expected);
    }
}

#[test]
fn progress_is_told_in_bytes() {
    let mut cluster = Cluster::new(5, &[vec![0, 1, 2], vec![1, 2, 3]]);
    let limits = Limits { moves_max: 1, ..Limits::default() };
    let job = job(&[(0, &[4, 1, 2]), (1, &[1, 2, 4])], limits);
    let mut recorded = begin(&job);
    let mut percents = Vec::new();
    while recorded.phase == Moving {
        let decision = decide(&job, &recorded, &cluster.facts());
        percents.push(decision.progress.percent());
        recorded = decision.recorded;
        decision.acts.iter().for_each(|act| cluster.act(act));
        cluster.tick();
    }
    assert_eq!(percents, [0, 25, 50, 75, 100]);
}

/// Something that happens between passes.
#[derive(Debug, Clone)]
enum Happening {
    Pass,
    /// The operator dies after its record and so many acts.
    Crash(usize),
    /// Nothing can be read of the partitions, or of the brokers.
    Blind(bool),
    Tick,
    Kill(i32),
    Revive(i32),
    Distress,
    Stop,
}

fn any_happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => Just(Happening::Pass),
        3 => (0_usize..4).prop_map(Happening::Crash),
        1 => any::<bool>().prop_map(Happening::Blind),
        6 => Just(Happening::Tick),
        1 => (0..6).prop_map(Happening::Kill),
        2 => (0..6).prop_map(Happening::Revive),
        1 => Just(Happening::Distress),
        1 => Just(Happening::Stop),
    ]
}

/// A partition on some of six brokers, and where it is to go.
fn any_move() -> impl Strategy<Value = (Vec<i32>, Vec<i32>)> {
    let all = || Just((0..6).collect::<Vec<i32>>()).prop_shuffle();
    (all(), all(), 1_usize..4)
        .prop_map(|(from, to, replicas)| (from[..replicas].to_vec(), to[..replicas].to_vec()))
}

/// What must hold after everything that happens.
fn holds(job: &Job, recorded: &Recorded, cluster: &Cluster, before: &BTreeMap<Subject, Values>) {
    // Whatever is set otherwise than before is in the record as it was before (4).
    let subjects: BTreeSet<&Subject> = cluster.settings.keys().chain(before.keys()).collect();
    for subject in subjects {
        if cluster.settings.get(subject) != before.get(subject) {
            let former = recorded.former.get(subject).cloned();
            assert_eq!(former, Some(before.get(subject).cloned().unwrap_or_default()));
        }
    }
    // Limits (2), counted in another way.
    for id in &cluster.brokers {
        let receives = |now: &&PartitionNow| now.adding.contains(id);
        let count = cluster.partitions.values().filter(receives).count();
        assert!(count <= job.limits.moves_per_broker_max, "{count} moves to {id}");
    }
    // No move has cost a partition its majority (3).
    assert_eq!(cluster.weakened, 0);
}

/// Lives it through to its end, where everything is set as before.
fn end(
    job: &Job,
    recorded: &mut Recorded,
    cluster: &mut Cluster,
    (stop, settings): (bool, &BTreeMap<Subject, Values>),
) {
    for _ in 0..500 {
        if recorded.phase == Ended {
            break;
        }
        let decision = decide(job, recorded, &Facts { stop, ..cluster.facts() });
        *recorded = decision.recorded;
        decision.acts.iter().for_each(|act| cluster.act(act));
        cluster.reads = decision.reads;
        holds(job, recorded, cluster, settings);
        cluster.tick();
    }
    assert_eq!(recorded.phase, Ended);
    assert_eq!(&cluster.settings, settings);
    assert!(recorded.former.is_empty() && recorded.in_flight.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn whatever_happens_it_ends_with_nothing_left_behind(
        moves in prop::collection::vec(any_move(), 1..12),
        happenings in prop::collection::vec(any_happening(), 0..60),
        throttled: bool,
    ) {
        let before: Vec<Vec<i32>> = moves.iter().map(|(from, _)| from.clone()).collect();
        let mut cluster = Cluster::new(6, &before);
        let (partitions, settings) = (cluster.partitions.clone(), cluster.settings.clone());
        let limits = Limits {
            moves_per_broker_max: 2,
            rate_bytes_max: throttled.then_some(50_000_000),
            ..Limits::default()
        };
        let tasks: Vec<(i32, &[i32])> =
            moves.iter().zip(0..).map(|((_, to), number)| (number, &to[..])).collect();
        let job = job(&tasks, limits);
        let mut recorded = begin(&job);
        let mut stop = false;
        for happening in happenings {
            let mut facts = Facts { stop, ..cluster.facts() };
            let mut acts_max = usize::MAX;
            match happening {
                Happening::Pass => {}
                Happening::Crash(acts) => acts_max = acts,
                Happening::Blind(true) => facts.partitions = None,
                Happening::Blind(false) => facts.live = None,
                Happening::Distress => facts.distress = Some(true),
                Happening::Tick => {
                    cluster.tick();
                    continue;
                }
                Happening::Kill(id) => {
                    // One at a time, as a cluster survives it.
                    if cluster.live.len() == 6 {
                        cluster.kill(broker(id));
                    }
                    continue;
                }
                Happening::Revive(id) => {
                    cluster.live.insert(broker(id));
                    continue;
                }
                Happening::Stop => {
                    stop = true;
                    continue;
                }
            }
            let decision = decide(&job, &recorded, &facts);
            for act in &decision.acts {
                if let Act::Reassign(which, target) = act {
                    let now = &cluster.partitions[which];
                    prop_assert!(2 * now.isr.len() > now.replicas.len());
                    let lives = |b: &&NodeId| !now.replicas.contains(b);
                    prop_assert!(target.iter().filter(lives).all(|b| cluster.live.contains(b)));
                }
            }
            // A crash: recorded, and some of it done. What was read is forgotten.
            recorded = decision.recorded;
            decision.acts.iter().take(acts_max).for_each(|act| cluster.act(act));
            cluster.reads = if acts_max == usize::MAX { decision.reads } else { BTreeSet::new() };
            holds(&job, &recorded, &cluster, &settings);
        }
        // All comes back, and it goes on to its end.
        cluster.live = cluster.brokers.clone();
        end(&job, &mut recorded, &mut cluster, (stop, &settings));
        for task in &job.tasks {
            let now = &cluster.partitions[&task.partition];
            prop_assert!(!now.is_moving());
            let there = now.replicas == task.target;
            let here = now.replicas == partitions[&task.partition].replicas;
            match recorded.outcome {
                Some(Outcome::Finished) => prop_assert!(there),
                Some(Outcome::Stopped | Outcome::Outdated) => prop_assert!(there || here),
                None => prop_assert!(false, "it ended without an outcome"),
            }
        }
    }
}

#[test]
fn the_table_has_no_pair_twice_and_ends_are_final() {
    let pairs: BTreeSet<_> = TRANSITIONS.iter().map(|(from, event, _)| (*from, *event)).collect();
    assert_eq!(pairs.len(), TRANSITIONS.len());
    assert!(TRANSITIONS.iter().all(|(from, ..)| *from != Ended));
}

#[test]
fn moves_begin_and_end_on_facts_of_ten_seconds_and_not_on_older_ones() {
    let (partition, broker) = (|| partition(0), broker(1));
    let replica = Disk { partition: partition(), broker };
    let rows = [
        (Act::Reassign(partition(), vec![broker]), true),
        (Act::Cancel(partition()), true),
        (Act::Shift(replica, "/b".to_owned()), true),
        (Act::Configure(Subject::Broker(broker), Values::default()), false),
        (Act::Elect([partition()].into()), false),
    ];
    let facts = Facts { now_ms: 1_000_000, ..Facts::default() };
    for (act, hurts) in rows {
        assert!(!act.is_stale(&facts, 1_010_000), "{act:?}");
        assert_eq!(act.is_stale(&facts, 1_010_001), hurts, "{act:?}");
    }
}
