//! Rows of what Kafka says, with the series that come of it.

use model::TopicPartition;

use super::*;

fn broker(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

fn key(topic: &str, number: i32) -> TopicPartition {
    TopicPartition::new(TopicName::new(topic).unwrap(), number)
}

fn patterns() -> Patterns {
    Patterns { shows_all_offsets: true, ..Patterns::default() }
}

fn filter() -> Filter {
    Filter::new(&patterns()).unwrap()
}

fn partition(number: i32) -> Partition {
    Partition {
        number,
        leader: Some(broker(1)),
        preferred: Some(broker(1)),
        replicas: 3,
        in_sync: 3,
        oldest: Some(5),
        latest: Some(100),
    }
}

/// A topic whose partitions are: as it should be, behind with another leader, and without a leader.
fn topic(name: &str) -> Topic {
    let behind = Partition { leader: Some(broker(2)), in_sync: 2, ..partition(1) };
    let dead = Partition { leader: None, in_sync: 0, oldest: None, latest: None, ..partition(2) };
    Topic { name: TopicName::new(name).unwrap(), partitions: vec![partition(0), behind, dead] }
}

fn group(committed: &[(&str, i32, u64)]) -> Group {
    let committed = committed.iter().map(|(topic, number, offset)| (key(topic, *number), *offset));
    Group { id: "g".to_owned(), members: Some(2), assigned: None, committed: committed.collect() }
}

fn lines(family: Family, picture: &Picture, filter: &Filter) -> Vec<String> {
    let text = render(family, picture, filter, "c=\"x\"");
    let prefix = format!("{}{{", family.name());
    text.lines()
        .map(|line| {
            let rest = line.strip_prefix(&prefix).unwrap();
            rest.replace(",c=\"x\"}", "").replace("c=\"x\"}", "").replace('"', "")
        })
        .collect()
}

#[test]
fn brokers_topics_and_partitions_have_the_series_of_the_exporter() {
    let brokers = vec![Broker { id: broker(4), address: "b:9091".to_owned() }];
    let picture = Picture { brokers, topics: vec![topic("t")], groups: vec![] };
    let of = |values: [Option<i64>; 3]| -> Vec<String> {
        let row = |(number, value): (usize, &Option<i64>)| {
            value.map(|value| format!("topic=t,partition={number} {value}"))
        };
        values.iter().enumerate().filter_map(row).collect()
    };
    #[rustfmt::skip]
    let rows = [
        ("X3.1",  Family::Brokers,           vec![" 1".to_owned()]),
        ("X3.2",  Family::BrokerInfo,        vec!["id=4,address=b:9091 1".to_owned()]),
        ("X3.3",  Family::Partitions,        vec!["topic=t 3".to_owned()]),
        ("X3.4",  Family::CurrentOffset,     of([Some(100), Some(100), None])),
        ("X3.5",  Family::OldestOffset,      of([Some(5), Some(5), None])),
        ("X3.6",  Family::Leader,            of([Some(1), Some(2), None])),
        ("X3.7",  Family::LeaderIsPreferred, of([Some(1), Some(0), Some(0)])),
        ("X3.8",  Family::Replicas,          of([Some(3), Some(3), Some(3)])),
        ("X3.9",  Family::InSyncReplica,     of([Some(3), Some(2), Some(0)])),
        ("X3.10", Family::UnderReplicated,   of([Some(0), Some(1), Some(1)])),
    ];
    for (row, family, expected) in rows {
        assert_eq!(lines(family, &picture, &filter()), expected, "{row}");
    }
}

/// The series of a group: offsets, their sum, lags, their sum.
fn of_group(group: Group, filter: &Filter) -> [Vec<String>; 4] {
    let groups = vec![group];
    let picture = Picture { brokers: vec![], topics: vec![topic("t"), topic("u")], groups };
    let families =
        [Family::GroupOffset, Family::GroupOffsetSum, Family::GroupLag, Family::GroupLagSum];
    families.map(|family| {
        let all = lines(family, &picture, filter).into_iter();
        all.map(|line| line.replace("consumergroup=g,topic=", "").replace(",partition=", "-"))
            .collect()
    })
}

#[test]
fn groups_have_series_for_the_topics_that_they_have_committed_to() {
    let assigned = |keys: &[(&str, i32)], group: Group| Group {
        assigned: Some(keys.iter().map(|(topic, number)| key(topic, *number)).collect()),
        ..group
    };
    let all = filter();
    let some = Filter::new(&Patterns { shows_all_offsets: false, ..patterns() }).unwrap();
    let one = || group(&[("t", 0, 90)]);
    #[rustfmt::skip]
    let rows: [(&str, &Filter, Group, [&[&str]; 4]); 8] = [
        ("X3.12 and -1 where none",    &all,  one(),
            [&["t-0 90", "t-1 -1", "t-2 -1"], &["t 88"], &["t-0 10", "t-1 -1"], &["t 10"]]),
        ("X3.13 all, X3.15",           &all,  group(&[("t", 0, 90), ("t", 1, 100), ("t", 2, 7)]),
            [&["t-0 90", "t-1 100", "t-2 7"], &["t 197"], &["t-0 10", "t-1 0"], &["t 10"]]),
        ("X3.14 negative",             &all,  group(&[("t", 0, 103)]),
            [&["t-0 103", "t-1 -1", "t-2 -1"], &["t 101"], &["t-0 -3", "t-1 -1"], &["t -3"]]),
        ("no commit",                  &all,  group(&[]), [&[], &[], &[], &[]]),
        ("topic without metadata",     &all,  group(&[("v", 0, 1)]), [&[], &[], &[], &[]]),
        ("X1.3 only what is assigned", &some, assigned(&[("t", 0), ("u", 1)], group(&[("t", 0, 90), ("t", 1, 1)])),
            [&["t-0 90"], &["t 90"], &["t-0 10"], &["t 10"]]),
        ("X1.3 assigned, none committed", &some, assigned(&[("t", 1)], one()), [&[], &[], &[], &[]]),
        ("X4.7 assignment unknown",    &some, one(), [&[], &[], &[], &[]]),
    ];
    for (row, filter, group, expected) in rows {
        let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        let expected: [Vec<String>; 4] = expected.map(owned);
        assert_eq!(of_group(group, filter), expected, "{row}");
    }
}

#[test]
fn members_are_counted_where_they_are_known() {
    let known = Group { members: Some(0), ..group(&[]) };
    let unknown = Group { id: "h".to_owned(), members: None, ..group(&[]) };
    let picture = Picture { groups: vec![known, unknown], ..Picture::default() };
    let found = lines(Family::GroupMembers, &picture, &filter());
    assert_eq!(found, ["consumergroup=g 0"], "X3.11");
}

#[test]
fn expressions_match_anywhere_and_exclusions_come_last() {
    let topics = |included: &str, excluded: &str| {
        let patterns = Patterns {
            topics: Some(included.to_owned()),
            topics_excluded: Some(excluded.to_owned()),
            ..patterns()
        };
        let filter = Filter::new(&patterns).unwrap();
        ["abc", "xabcx", "other"].map(|name| filter.wants_topic(name))
    };
    #[rustfmt::skip]
    let rows = [
        ("X1.1 all",        ".*",   "",     [true, true, true]),
        ("X1.1 unset",      "",     "",     [true, true, true]),
        ("X1.1 unanchored", "abc",  "",     [true, true, false]),
        ("anchored",        "^abc", "",     [true, false, false]),
        ("X1.2 excluded",   ".*",   "x",    [true, false, true]),
        ("X1.2 both",       "abc",  "abc$", [false, true, false]),
    ];
    for (row, included, excluded, expected) in rows {
        assert_eq!(topics(included, excluded), expected, "{row}");
    }
    let groups = Patterns {
        groups: Some("a".to_owned()),
        groups_excluded: Some("b".to_owned()),
        ..patterns()
    };
    let filter = Filter::new(&groups).unwrap();
    assert_eq!(["a", "ab", "c"].map(|id| filter.wants_group(id)), [true, false, false]);
    let wrong = Filter::new(&Patterns { groups: Some("(".to_owned()), ..patterns() }).unwrap_err();
    assert!(wrong.to_string().starts_with("groupRegex is not a valid regular expression: "));
    let huge = Patterns { topics: Some("(a{1000}){1000}".to_owned()), ..patterns() };
    assert!(Filter::new(&huge).is_err(), "an expression that takes too much memory");
}

#[test]
fn labels_are_escaped_and_name_the_cluster() {
    let expected = "namespace=\"n\",strimzi_io_cluster=\"c\",strimzi_io_kind=\"Kafka\",\
                    strimzi_io_name=\"c-kafka-exporter\"";
    assert_eq!(labels("n", "c"), expected);
    let odd = Group { id: "a\"b\\c\nd".to_owned(), ..group(&[]) };
    let picture = Picture { groups: vec![odd], ..Picture::default() };
    let text = render(Family::GroupMembers, &picture, &filter(), "x=\"y\"");
    let expected = "kafka_consumergroup_members{consumergroup=\"a\\\"b\\\\c\\nd\",x=\"y\"} 2\n";
    assert_eq!(text, expected);
    let header = Family::GroupMembers.header();
    assert!(header.contains("# TYPE kafka_consumergroup_members gauge\n"), "{header}");
}

#[test]
fn series_are_bounded_and_what_is_left_out_is_counted() {
    let named = |id: &str| Group { id: id.to_owned(), ..group(&[("t", 0, 1)]) };
    let picture = || Picture {
        brokers: vec![],
        topics: vec![topic("u"), topic("t")],
        groups: vec![named("h"), named("g")],
    };
    let count = |picture: &Picture| -> usize {
        Family::ALL.iter().map(|family| lines(*family, picture, &filter()).len()).sum()
    };
    // Each topic has 22 series at the most, each group 9.
    let rows =
        [(usize::MAX, 0, 2, 2), (62, 0, 2, 2), (61, 9, 2, 1), (44, 18, 2, 0), (43, 22, 1, 2)];
    for (most, dropped, topics, groups) in rows {
        let mut picture = picture();
        assert_eq!(bound(&mut picture, most, usize::MAX), dropped, "{most}");
        assert_eq!((picture.topics.len(), picture.groups.len()), (topics, groups), "{most}");
        assert!(count(&picture) <= most.saturating_add(1), "besides the number of brokers");
    }
    let mut long = picture();
    long.groups.push(Group { id: "i".repeat(30_000), ..named("") });
    assert_eq!(bound(&mut long, usize::MAX, 100_000), 9, "by its length");
    assert_eq!((long.topics.len(), long.groups.len()), (2, 2));
}

#[test]
fn families_are_those_of_the_exporter_and_none_is_of_zookeeper() {
    let names = Family::ALL.map(Family::name);
    assert_eq!(names.len(), 15);
    assert!(
        names.iter().all(|name| name.starts_with("kafka_") && !name.contains("zookeeper")),
        "X3.16"
    );
    for name in [
        "kafka_topic_partitions",
        "kafka_topic_partition_current_offset",
        "kafka_topic_partition_oldest_offset",
        "kafka_topic_partition_leader_is_preferred",
        "kafka_topic_partition_replicas",
        "kafka_topic_partition_in_sync_replica",
        "kafka_topic_partition_under_replicated_partition",
        "kafka_consumergroup_current_offset",
        "kafka_consumergroup_lag",
    ] {
        assert!(names.contains(&name), "X3: a query of the dashboard asks for {name}");
    }
}

/// One that the exporter would show as dead: its members come from another request, its lag from the same.
#[test]
fn a_group_whose_members_are_unknown_has_a_lag() {
    let group = Group { members: None, assigned: None, ..group(&[("t", 0, 90)]) };
    let lag = of_group(group.clone(), &filter())[2].clone();
    assert_eq!(lag, ["t-0 10", "t-1 -1"], "X4.6");
    let picture = Picture { groups: vec![group], ..Picture::default() };
    assert_eq!(lines(Family::GroupMembers, &picture, &filter()), [""; 0], "X4.4");
}
