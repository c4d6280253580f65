//! Rows of deletion, annotations, errors and takeover.

use super::samples::{ID, OTHER_ID, config, found, new, partition, resource};
use super::tests::{READY, alone, line, named, plan_of, said, status, with};
use super::*;

#[test]
fn an_annotation_that_is_removed_again_leaves_no_trace() {
    #[rustfmt::skip]
    let rows: [(&str, fn(&mut Resource), &str); 5] = [
        ("T6.2 unmanaged",              |one| one.is_managed = false, "Unmanaged | - -"),
        ("T6.5 managed again",          |one| one.is_managed = true,  "reconcile a"),
        ("T6.3 paused",                 |one| one.is_paused = true,   "ReconciliationPaused | a -"),
        ("T6.5 no longer",              |one| one.is_paused = false,  "reconcile a"),
        ("T5.10 paused and deleted",    |one| (one.is_paused, one.is_deleting) = (true, true), "delete a"),
    ];
    let mut one = resource("a");
    for (row, change, expected) in rows {
        change(&mut one);
        assert_eq!(said(&alone(&one)), expected, "{row}");
        // The status that the operator writes is what the next pass sees.
        if let Triage::Report(report) = alone(&one) {
            (one.status.topic_name, one.status.topic_id) = (report.topic_name, report.topic_id);
        }
    }
    // T6.5: the id is read anew, also that of a topic that was created again meanwhile.
    let status = Status { topic_id: None, ..resource("a").status };
    let managed_again = Resource { status, ..resource("a") };
    assert_eq!(super::tests::status(&managed_again, &plan_of(&managed_again, found(&[]))), READY);
}

#[test]
fn the_finalizer_of_a_resource_that_is_left_alone_is_neither_set_nor_removed() {
    // T5.2: only a plan sets or removes it, and what is left unchanged gets a status and no plan.
    for has_finalizer in [true, false] {
        for (is_managed, is_paused) in [(false, false), (true, true), (false, true)] {
            let one = Resource { has_finalizer, is_managed, is_paused, ..resource("a") };
            assert!(matches!(alone(&one), Triage::Report(_)), "T5.2 {has_finalizer}");
        }
    }
}

#[test]
fn a_status_is_about_the_generation_that_was_seen() {
    let problem = || Problem::kafka(40, "x");
    let plan = plan_of(&resource("a"), found(&[]));
    let answers = Answers { problem: Some(problem()), ..Answers::default() };
    for report in [
        plan.report(&resource("a"), Answers::default()),
        plan.report(&resource("a"), answers),
        Report::failed(&resource("a"), None, problem()),
        Report::unmanaged(&resource("a")),
        Report::paused(&resource("a")),
    ] {
        assert_eq!(report.observed_generation, 3, "T1.6");
    }
}

/// A loser keeps nothing of the topic that it does not manage.
#[test]
fn a_conflict_has_one_condition_and_no_id() {
    let owner = Resource { created_s: 1, spec: named("t"), ..new("owner") };
    let loser = Resource { spec: named("t"), ..new("loser") };
    let Triage::Report(report) = triage(&loser, &Ownership::of([&loser, &owner])) else {
        panic!("it is a loser")
    };
    assert_eq!(report.conditions.len(), 1, "T4.11");
    assert_eq!(report.conditions[0].reason, Some(Reason::ResourceConflict), "T11.1");
    assert_eq!((report.topic_name.as_deref(), report.topic_id), (Some("t"), None), "T4.11, T11.6");
}

#[test]
fn which_resource_owns_a_topic_does_not_depend_on_the_order_after_a_restart() {
    let of = |name: &str, created_s| Resource { created_s, spec: named("t"), ..new(name) };
    let all = [of("young", 9), of("old", 5), of("older", 4)];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1], [2, 0, 1], [1, 0, 2]] {
        let ownership = Ownership::of(order.map(|at| &all[at]));
        assert_eq!(ownership.owner("t"), Some("older"), "T4.10 {order:?}");
    }
}

#[test]
fn errors_of_kafka_keep_their_class_and_the_id_if_the_topic_was_seen() {
    let text = "Unknown topic config name: no.such";
    let resource = with(Spec { config: config(&[("no.such", "1")]), ..Spec::default() });
    let refused = || Answers { problem: Some(Problem::kafka(40, text)), ..Answers::default() };
    let errors = "org.apache.kafka.common.errors.";
    let expected = format!("!Ready KafkaError: {errors}InvalidConfigurationException: {text} | a");
    let there = plan_of(&resource, found(&[]));
    assert_eq!(
        line(&there.report(&resource, refused())),
        format!("{expected} {ID}"),
        "T7.11, T11.6"
    );
    let absent = plan(&resource, &View::Absent, &Settings::default());
    assert_eq!(line(&absent.report(&resource, refused())), format!("{expected} -"), "T11.6");
    #[rustfmt::skip]
    let rows = [
        (-1, "UnknownServer"), (3, "UnknownTopicOrPartition"), (7, "Timeout"), (17, "InvalidTopic"),
        (29, "TopicAuthorization"), (31, "ClusterAuthorization"), (36, "TopicExists"),
        (37, "InvalidPartitions"), (38, "InvalidReplicationFactor"), (39, "InvalidReplicaAssignment"),
        (40, "InvalidConfiguration"), (41, "NotController"), (42, "InvalidRequest"), (44, "PolicyViolation"),
        (60, "ReassignmentInProgress"), (73, "TopicDeletionDisabled"), (89, "ThrottlingQuotaExceeded"),
    ];
    for (code, class) in rows {
        let problem = Problem::kafka(code, "why");
        assert_eq!(problem.message, format!("{errors}{class}Exception: why"), "T11.3");
        assert_eq!(problem.reason.name(), "KafkaError", "T11.3");
    }
}

#[test]
fn reasons_have_the_names_of_strimzi() {
    let rows = [
        ("T11.1", Reason::ResourceConflict, "ResourceConflict"),
        ("T11.2", Reason::NotSupported, "NotSupported"),
        ("T11.3", Reason::KafkaError, "KafkaError"),
        ("T11.4", Reason::InternalError, "InternalError"),
        ("T11.5", Reason::InvalidConfig, "InvalidConfig"),
    ];
    for (row, reason, name) in rows {
        assert_eq!(reason.name(), name, "{row}");
    }
}

#[test]
fn a_topic_that_was_created_again_behind_its_resource_is_told() {
    let other = Found { id: OTHER_ID.parse().unwrap(), ..found(&[]) };
    let news = |resource: &Resource, topic: Found| {
        let plan = plan_of(resource, topic);
        plan.report(resource, Answers::default()).news(resource).map(|news| news.reason)
    };
    assert_eq!(news(&resource("a"), other.clone()), Some("TopicRecreated"), "T7.16");
    assert_eq!(news(&resource("a"), found(&[])), None, "T7.16");
    assert_eq!(news(&new("a"), other), None, "T7.16 the first look");
    // Deleted, and created again by this operator.
    let absent = plan(&resource("a"), &View::Absent, &Settings::default());
    assert!(absent.create.is_some(), "T7.16");
    let answers = Answers { created: OTHER_ID.parse().ok(), ..Answers::default() };
    let told = absent.report(&resource("a"), answers).news(&resource("a")).unwrap();
    assert!(told.is_warning && told.message.contains("records that it had are gone"), "T7.16");
}

/// What is in the status is not what decides: after a restart of Cruise Control it may say anything.
#[test]
fn a_change_of_replicas_that_another_engine_began_is_followed_up() {
    let of = |change: ReplicasChange| {
        let status = Status { replicas_change: Some(change), ..resource("a").status };
        Resource { status, ..with(Spec { replicas: Some(2), ..Spec::default() }) }
    };
    let ongoing = || ReplicasChange::ongoing(2, "a-task-of-cruise-control");
    let with_error = || ReplicasChange {
        message: Some("Replicas change completed with error".to_owned()),
        session: None,
        ..ongoing()
    };
    let lost = || ReplicasChange { state: Some(ChangeState::Pending), session: None, ..ongoing() };
    let done = || Found { partitions: vec![partition(0, 2), partition(1, 2)], ..found(&[]) };
    #[rustfmt::skip]
    let rows = [
        ("M8 in flight",                    ongoing(),    found(&[]), true),
        ("M8 ended before the takeover",    ongoing(),    done(),     false),
        ("T9.5 completed with an error",    with_error(), found(&[]), true),
        ("T9.6 no task is known any more",  lost(),       found(&[]), true),
        ("T9.6 and it was done",            lost(),       done(),     false),
        ("T9.7 a failed call, done since",  with_error(), done(),     false),
    ];
    for (row, change, topic, is_wanted) in rows {
        let resource = of(change);
        let plan = plan_of(&resource, topic);
        assert_eq!(plan.replicas.is_some(), is_wanted, "{row}");
        let now = ReplicasChange::ongoing(2, "ours");
        let answers = Answers { replicas: is_wanted.then(|| now.clone()), ..Answers::default() };
        let report = plan.report(&resource, answers);
        assert_eq!(report.replicas_change, is_wanted.then_some(now), "{row}");
        assert!(report.is_good(), "T8.8 {row}");
    }
    // T8.7: no Cruise Control is needed, and nothing asks for one.
    let resource = with(Spec { replicas: Some(2), ..Spec::default() });
    let plan = plan_of(&resource, found(&[]));
    assert!(plan.replicas.is_some(), "T8.7");
    assert_eq!(status(&resource, &plan), READY, "T8.7");
}

/// What a healthy operator of Strimzi leaves behind is what this one would leave behind.
#[test]
fn taking_over_a_topic_that_is_in_sync_changes_nothing() {
    let spec = || Spec {
        partitions: Some(2),
        replicas: Some(3),
        config: config(&[("retention.ms", "7")]),
        ..Spec::default()
    };
    assert_eq!(FINALIZER, "strimzi.io/topic-operator", "M6");
    let rows = [
        ("M9 with a configuration", spec(), found(&[("retention.ms", "7"), ("*flush.ms", "9")])),
        ("M9 with nothing but a name", Spec::default(), found(&[("*flush.ms", "9")])),
        (
            "M9 with its own name",
            Spec { topic_name: Some("a".to_owned()), ..spec() },
            found(&[("retention.ms", "7")]),
        ),
    ];
    for (row, spec, topic) in rows {
        let resource = with(spec);
        let plan = plan_of(&resource, topic);
        let nothing = plan.finalizer.is_none()
            && !plan.notes_kept_config
            && plan.create.is_none()
            && plan.config.is_empty()
            && plan.partitions.is_none()
            && plan.replicas.is_none();
        assert!(nothing, "{row}: {plan:?}");
        let report = plan.report(&resource, Answers::default());
        assert_eq!(line(&report), READY, "{row}");
        assert_eq!(report.news(&resource), None, "{row}");
    }
    let renamed = Resource { spec: named("b"), ..resource("a") };
    assert!(matches!(alone(&renamed), Triage::Report(_)), "M7: status.topicName is remembered");
}
