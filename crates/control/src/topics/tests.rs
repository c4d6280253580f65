//! Rows of resources and topics, with what is done and what is said.

use std::collections::BTreeMap;

use super::config::{Change, is_same};
use super::samples::{ID, OTHER_ID, config, found, new, partition, resource};
use super::*;

pub(super) fn alone(resource: &Resource) -> Triage {
    triage(resource, &Ownership::of([resource]))
}

/// A status in one line: conditions, topic name, topic id.
pub(super) fn line(report: &Report) -> String {
    let conditions: Vec<_> = report
        .conditions
        .iter()
        .map(|one| {
            let reason = one.reason.map(|reason| format!(" {}", reason.name()));
            let message = one.message.as_ref().map(|message| format!(": {message}"));
            let mark = if one.holds { "" } else { "!" };
            let kind = one.kind.name();
            format!("{mark}{kind}{}{}", reason.unwrap_or_default(), message.unwrap_or_default())
        })
        .collect();
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    format!(
        "{} | {} {}",
        conditions.join("; "),
        or_none(&report.topic_name),
        or_none(&report.topic_id)
    )
}

pub(super) fn said(triage: &Triage) -> String {
    match triage {
        Triage::Report(report) => {
            assert_eq!(report.observed_generation, 3);
            line(report)
        }
        Triage::Ignore => "ignore".to_owned(),
        Triage::Release => "release".to_owned(),
        Triage::Delete { topic, id } => match id {
            Some(id) => format!("delete {topic} {id}"),
            None => format!("delete {topic}"),
        },
        Triage::Reconcile { topic } => format!("reconcile {topic}"),
    }
}

pub(super) fn named(topic: &str) -> Option<Spec> {
    Some(Spec { topic_name: Some(topic.to_owned()), ..Spec::default() })
}

const RENAMED: &str = "!Ready NotSupported: Changing spec.topicName is not supported: set it back to a, and create \
                       another KafkaTopic for b | a -";

#[test]
#[rustfmt::skip]
fn one_resource_alone() {
    let a = || resource("a");
    let rows = [
        ("T4.1 by the name of the resource",        new("a"),                                                    "reconcile a"),
        ("T1.1 by its own name",                    Resource { spec: named("b_1"), ..new("a") },                 "reconcile b_1"),
        ("T4.2 rename",                             Resource { spec: named("b"), ..a() },                        RENAMED),
        ("T4.2 rename blocks the deletion",         Resource { spec: named("b"), is_deleting: true, ..a() },     RENAMED),
        ("T4.3 name that Kafka refuses",            Resource { spec: named(".."), ..new("a") },
            "!Ready KafkaError: org.apache.kafka.common.errors.InvalidTopicException: Topic name is invalid: \"..\" is not a \
             topic name (1 to 249 letters, digits, dots, dashes and underscores) | .. -"),
        ("T5.4 deletion by id",                     Resource { is_deleting: true, ..a() },                       "delete a U3fHvCoMVWiCVYa2ri_K5w"),
        ("T5.4 deletion before the first status",   Resource { is_deleting: true, has_finalizer: true, ..new("a") }, "delete a"),
        ("deletion of a name that cannot be",       Resource { is_deleting: true, has_finalizer: true, spec: named("..") , ..new("a") }, "release"),
        ("deletion without finalizer",              Resource { is_deleting: true, ..new("a") },                  "ignore"),
        ("T5.9 unmanaged deletion",                 Resource { is_deleting: true, is_managed: false, ..a() },    "release"),
        ("T5.10 paused deletion",                   Resource { is_deleting: true, is_paused: true, ..a() },      "delete a U3fHvCoMVWiCVYa2ri_K5w"),
        ("T6.2 unmanaged",                          Resource { is_managed: false, ..a() },                       "Unmanaged | - -"),
        ("T6.3 paused",                             Resource { is_paused: true, ..a() },                         "ReconciliationPaused | a -"),
        ("T6.4 both",                               Resource { is_managed: false, is_paused: true, ..a() },      "Unmanaged | - -"),
        ("no spec",                                 Resource { spec: None, ..new("a") },                         "ignore"),
    ];
    for (row, resource, expected) in rows {
        assert_eq!(said(&alone(&resource)), expected, "{row}");
    }
}

/// Resources that claim topic `t`, with what each of them needs.
#[test]
fn several_resources_for_one_topic() {
    let of = |name: &str, created_s| Resource { created_s, spec: named("t"), ..new(name) };
    let owns = |one: Resource| {
        let status = Status { topic_name: Some("t".to_owned()), is_ready: true, ..one.status };
        Resource { has_finalizer: true, status, ..one }
    };
    let deleting = |one: Resource| Resource { is_deleting: true, has_finalizer: true, ..one };
    let conflict = |owner: &str| {
        format!(
            "!Ready ResourceConflict: Managed by Ref{{namespace='ns', name='{owner}'}}: delete one of the two, which deletes \
             no topic, or set another spec.topicName | t -"
        )
    };
    let renamed = |from: &str, to: &str| {
        RENAMED
            .replace("to a,", &format!("to {from},"))
            .replace("for b | a", &format!("for {to} | {from}"))
    };
    let go = || "reconcile t".to_owned();
    let release = || "release".to_owned();
    #[rustfmt::skip]
    let rows = [
        ("T4.4 the oldest",            vec![of("a", 9), of("b", 5)],                            vec![conflict("b"), go()]),
        ("T4.5 the one that is ready", vec![of("a", 5), owns(of("b", 5))],                      vec![conflict("b"), go()]),
        ("T4.5 the first by name",     vec![of("b", 5), of("a", 5)],                            vec![conflict("a"), go()]),
        ("T4.6 the owner is gone",     vec![of("a", 9)],                                        vec![go()]),
        ("T4.7 unmanaged owner",       vec![Resource { is_managed: false, ..of("a", 1) }, of("b", 5)],
            vec!["Unmanaged | - -".to_owned(), go()]),
        ("T4.8 paused owner",          vec![Resource { is_paused: true, ..of("a", 1) }, of("b", 5)],
            vec!["ReconciliationPaused | t -".to_owned(), conflict("a")]),
        ("T5.7 loser deleted",         vec![owns(of("a", 1)), deleting(of("b", 5))],            vec![go(), release()]),
        ("T5.7 owner deleted",         vec![deleting(owns(of("a", 1))), of("b", 5)],            vec![release(), go()]),
        ("T5.7 both deleted",          vec![deleting(owns(of("a", 1))), deleting(of("b", 5))],  vec!["delete t".to_owned(), release()]),
        ("rename onto an owned topic", vec![owns(of("a", 1)), Resource { spec: named("t"), ..resource("b") }],
            vec![go(), renamed("b", "t")]),
        ("a renamed one keeps its own", vec![of("b", 9), Resource { spec: named("x"), ..owns(of("a", 5)) }],
            vec![conflict("a"), renamed("t", "x")]),
    ];
    for (row, resources, expected) in rows {
        let ownership = Ownership::of(&resources);
        let found: Vec<_> = resources.iter().map(|one| said(&triage(one, &ownership))).collect();
        assert_eq!(found, expected, "{row}");
        let backwards = Ownership::of(resources.iter().rev());
        assert_eq!(ownership, backwards, "{row}: the order of events does not matter");
    }
}

#[test]
fn without_a_finalizer_only_a_topic_that_is_known_by_its_id_is_deleted() {
    let gone = || Resource { has_finalizer: false, ..resource("a") };
    let unknown = Resource { status: Status { topic_id: None, ..gone().status }, ..gone() };
    let other = Resource { spec: named("a"), ..new("b") };
    let nobody = Ownership::default();
    let id = ID.parse().ok();
    #[rustfmt::skip]
    let rows = [
        ("T5.8 managed",      gone(),                                         &nobody, id),
        ("never reconciled",  unknown,                                        &nobody, None),
        ("unmanaged",         Resource { is_managed: false, ..gone() },       &nobody, None),
        ("renamed",           Resource { spec: named("b"), ..gone() },        &nobody, None),
        ("claimed by another", gone(),                                        &Ownership::of([&other]), None),
    ];
    for (row, resource, ownership, expected) in rows {
        assert_eq!(of_vanished(&resource, ownership), expected, "{row}");
    }
}

pub(super) fn with(spec: Spec) -> Resource {
    Resource { spec: Some(spec), ..resource("a") }
}

pub(super) fn plan_of(resource: &Resource, topic: Found) -> Plan {
    plan(resource, &View::Found(topic), &Settings::default())
}

pub(super) fn status(resource: &Resource, plan: &Plan) -> String {
    line(&plan.report(resource, Answers::default()))
}

fn set(name: &str, value: &str) -> Change {
    Change::Set(name.to_owned(), value.to_owned())
}

fn delete(name: &str) -> Change {
    Change::Delete(name.to_owned())
}

pub(super) const READY: &str = "Ready | a U3fHvCoMVWiCVYa2ri_K5w";

#[test]
fn a_topic_that_does_not_exist_is_created_with_what_the_spec_says() {
    let spec = Spec { partitions: Some(4), config: config(&[("x", "1")]), ..Spec::default() };
    let resource = Resource { spec: Some(spec), ..new("a") };
    let settings = Settings { alterable: Alterable::of("NONE"), ..Settings::default() };
    let plan_of = |resource| plan(resource, &View::Absent, &settings);
    let made = plan_of(&resource);
    let expected = NewTopic {
        partitions: Some(4),
        replicas: None,
        config: BTreeMap::from([("x".to_owned(), "1".to_owned())]),
    };
    assert_eq!(made.create, Some(expected), "T7.2");
    assert_eq!(made.finalizer, Some(true), "T5.1");
    let id = ID.parse().ok();
    let answers = Answers { created: id, ..Answers::default() };
    assert_eq!(line(&made.report(&resource, answers)), READY);
    let existed = || Answers { existed: true, ..Answers::default() };
    assert_eq!(line(&made.report(&resource, existed())), "Ready | a -", "T7.3");
    let known = Resource { spec: resource.spec.clone(), ..super::samples::resource("a") };
    assert_eq!(line(&made.report(&known, existed())), READY, "an outdated view forgets no id");
    let refused = Problem::kafka(38, "Unable to replicate the partition 9 time(s)");
    let answers = Answers { problem: Some(refused), ..Answers::default() };
    assert_eq!(
        line(&made.report(&resource, answers)),
        "!Ready KafkaError: org.apache.kafka.common.errors.InvalidReplicationFactorException: Unable to replicate the \
         partition 9 time(s) | a -",
        "T7.18"
    );
    let unset = plan_of(&new("a"));
    let nothing = NewTopic { partitions: None, replicas: None, config: BTreeMap::new() };
    assert_eq!(unset.create, Some(nothing), "T1.2, T1.3: Kafka's defaults");
}

#[test]
fn a_value_that_kafka_cannot_be_given_harms_its_own_resource_only() {
    for (value, expected) in [
        (
            Value::Null,
            "!Ready KafkaError: org.apache.kafka.common.errors.InvalidConfigurationException: Null value not supported \
             for topic configs: x | a",
        ),
        (
            Value::Nested,
            "!Ready InternalError: Invalid value for topic config 'x': use a string, a number, a boolean or a list of \
             these | a",
        ),
    ] {
        let config = Some(BTreeMap::from([("x".to_owned(), value)]));
        let resource = with(Spec { config, partitions: Some(5), ..Spec::default() });
        let absent = plan(&resource, &View::Absent, &Settings::default());
        assert_eq!(absent.create, None, "T7.8, T7.9");
        assert_eq!(status(&resource, &absent), format!("{expected} -"));
        let there = plan_of(&resource, found(&[("y", "1")]));
        assert_eq!((there.config.len(), there.partitions), (0, Some(5)));
        assert_eq!(status(&resource, &there), format!("{expected} {ID}"));
    }
}

/// Settings as a row writes them.
type Values = &'static [(&'static str, &'static str)];

#[test]
fn configuration_is_brought_to_the_spec() {
    const THROTTLE: &str = "leader.replication.throttled.replicas";
    let here: Values = &[("retention.ms", "7"), ("*cleanup.policy", "delete"), ("*flush.ms", "9")];
    #[rustfmt::skip]
    let rows: Vec<(&str, Values, Values, Vec<Change>)> = vec![
        ("as it is",                   &[("retention.ms", "7")],             here,                        vec![]),
        ("T7.4 not in the spec",       &[],                                  here,                        vec![delete("retention.ms")]),
        ("T7.5 another value",         &[("retention.ms", "8")],             here,                        vec![set("retention.ms", "8")]),
        ("T7.5 unknown to Kafka",      &[("retention.ms", "7"), ("z", "1")], here,                        vec![set("z", "1")]),
        ("T7.6 as inherited",          &[("retention.ms", "7"), ("flush.ms", "9")], here,                 vec![]),
        ("T7.7 a list with blanks",    &[("cleanup.policy", "compact, delete")], &[("cleanup.policy", "compact,delete")], vec![]),
        ("T7.12 throttles",            &[],                                  &[(THROTTLE, "*")],          vec![]),
        ("T7.13 throttles in the spec", &[(THROTTLE, "0:1")],                &[(THROTTLE, "*")],          vec![set(THROTTLE, "0:1")]),
    ];
    for (row, spec, topic, expected) in rows {
        let resource = with(Spec { config: config(spec), ..Spec::default() });
        assert_eq!(plan_of(&resource, found(topic)).config, expected, "{row}");
    }
}

#[test]
fn overrides_of_a_topic_that_existed_before_are_kept_if_the_spec_says_nothing() {
    let topic = || found(&[("retention.ms", "7"), ("flush.ms", "1")]);
    let kept = format!(
        "Ready; Warning ConfigKept: The topic existed before this resource, which has no spec.config: its overrides \
         flush.ms, retention.ms are kept. To manage the configuration, set spec.config; to reset it to the defaults, set \
         the annotation gregor.io/topic-config to replace | a {ID}"
    );
    let both = || vec![delete("flush.ms"), delete("retention.ms")];
    let with_mode = |one: Resource, mode| Resource { config_mode: Some(mode), ..one };
    let recreated = || {
        let status = Status { topic_id: Some(OTHER_ID.to_owned()), ..resource("a").status };
        Resource { status, ..resource("a") }
    };
    let empty = |one: Resource| Resource {
        spec: Some(Spec { config: config(&[]), ..Spec::default() }),
        ..one
    };
    #[rustfmt::skip]
    let rows = [
        ("adopted",                      new("a"),                                          vec![], true,  kept.as_str()),
        ("adopted before",               with_mode(resource("a"), ConfigMode::Keep),        vec![], false, &kept),
        ("recreated by another",         recreated(),                                       vec![], true,  &kept),
        ("its own",                      resource("a"),                                     both(), false, READY),
        ("replace",                      with_mode(new("a"), ConfigMode::Replace),          both(), false, READY),
        ("a spec that says none",        empty(new("a")),                                   both(), false, READY),
        ("said later",                   with_mode(empty(resource("a")), ConfigMode::Keep), both(), false, READY),
    ];
    for (row, resource, changes, notes, expected) in rows {
        let plan = plan_of(&resource, topic());
        assert_eq!((&plan.config, plan.notes_kept_config), (&changes, notes), "{row}");
        assert_eq!(status(&resource, &plan), expected, "{row}");
    }
    let plan = plan_of(&new("a"), found(&[("*retention.ms", "7")]));
    assert_eq!((plan.notes_kept_config, plan.config.len()), (false, 0), "nothing to keep");
}

#[test]
fn configuration_that_may_not_be_altered_is_left_and_said() {
    let spec = Spec { config: config(&[("b", "1"), ("a", "1")]), ..Spec::default() };
    let topic = || found(&[("a", "2"), ("b", "2"), ("c", "2")]);
    #[rustfmt::skip]
    let rows = [
        ("T7.14 a list", "b",    vec![set("b", "1")], vec!["a"]),
        ("T7.15 none",   "NONE", vec![],              vec!["a", "b"]),
        ("T7.15 wrong",  "b; a", vec![],              vec!["a", "b"]),
        ("all",          "ALL",  vec![set("a", "1"), set("b", "1"), delete("c")], vec![]),
    ];
    for (row, alterable, changes, ignored) in rows {
        let settings = Settings { alterable: Alterable::of(alterable), ..Settings::default() };
        let resource = with(spec.clone());
        let plan = plan(&resource, &View::Found(topic()), &settings);
        assert_eq!(plan.config, changes, "{row}");
        let warnings = ignored.iter().map(|name| {
            format!(
                "; Warning InvalidConfig: Property {name} is ignored according to alterable config"
            )
        });
        let expected = format!("Ready{} | a {ID}", warnings.collect::<String>());
        assert_eq!(status(&resource, &plan), expected, "{row}");
    }
    let throttles = config(&[
        ("leader.replication.throttled.replicas", "*"),
        ("follower.replication.throttled.replicas", "*"),
    ]);
    let resource = with(Spec { config: throttles, ..Spec::default() });
    let settings = Settings { alterable: Alterable::of("NONE"), ..Settings::default() };
    let plan = plan(&resource, &View::Found(found(&[])), &settings);
    assert_eq!(plan.config.len(), 2, "T7.14: throttles are exempt");
    let said = status(&resource, &plan);
    let follower = said.find("follower.replication.throttled.replicas may conflict").unwrap();
    let leader = said.find("leader.replication.throttled.replicas may conflict").unwrap();
    assert!(follower < leader, "T7.13: {said}");
}

#[test]
fn partitions_grow_and_nothing_else() {
    let fewer = format!(
        "!Ready NotSupported: Decreasing partitions not supported: the topic has 2. Set spec.partitions to 2 or more | a {ID}"
    );
    let spec = |partitions, replicas| Spec { partitions, replicas, ..Spec::default() };
    #[rustfmt::skip]
    let rows = [
        ("T8.1 more",            spec(Some(5), None),    found(&[]), Some(5), READY),
        ("T8.2 fewer",           spec(Some(1), None),    found(&[]), None,    &fewer),
        ("T8.3 equal",           spec(Some(2), None),    found(&[]), None,    READY),
        ("T8.3 unset",           spec(None, None),       found(&[]), None,    READY),
    ];
    for (row, spec, topic, partitions, expected) in rows {
        let resource = with(spec);
        let plan = plan_of(&resource, topic);
        assert_eq!(plan.partitions, partitions, "{row}");
        assert_eq!(status(&resource, &plan), expected, "{row}");
    }
    let spec = Spec { config: config(&[("x", "1")]), ..spec(Some(1), None) };
    let resource = with(spec);
    let plan = plan_of(&resource, found(&[]));
    assert_eq!(plan.config, [set("x", "1")], "T7.10: the rest is done");
    assert_eq!(status(&resource, &plan), fewer);
}

#[test]
fn partitions_with_another_number_of_replicas_are_found() {
    let spec = |partitions, replicas| Spec { partitions, replicas, ..Spec::default() };
    let mixed = || Found { partitions: vec![partition(0, 3), partition(1, 2)], ..found(&[]) };
    #[rustfmt::skip]
    let rows = [
        ("T8.4 as the spec says",  spec(None, Some(3)),    found(&[]), None),
        ("T1.3 unset",             spec(None, None),       mixed(),    None),
        ("T8.4 another",           spec(None, Some(2)),    found(&[]), Some(vec![0, 1])),
        ("T8.5 mixed",             spec(None, Some(2)),    mixed(),    Some(vec![0])),
        ("more partitions too",    spec(Some(5), Some(2)), found(&[]), Some(vec![0, 1])),
        ("fewer partitions too",   spec(Some(1), Some(2)), found(&[]), Some(vec![0, 1])),
    ];
    for (row, spec, topic, expected) in rows {
        let plan = plan_of(&with(spec), topic);
        let found = plan.replicas.map(|wanted| {
            wanted.partitions.iter().map(|partition| partition.number).collect::<Vec<_>>()
        });
        assert_eq!(found, expected, "{row}");
    }
    let new = plan(&with(spec(None, Some(2))), &View::Absent, &Settings::default());
    assert_eq!(new.replicas, None, "a new topic has what it is created with");
}

#[test]
fn the_least_number_of_replicas_follows_from_the_configuration() {
    const LEAST: &str = "min.insync.replicas";
    let inherited = || found(&[("*min.insync.replicas", "2")]);
    #[rustfmt::skip]
    let rows: [(&str, Option<Values>, Found, usize); 6] = [
        ("inherited",              None,                    inherited(),           2),
        ("override",               Some(&[(LEAST, "3")]),   found(&[(LEAST, "3")]), 3),
        ("changed with it",        Some(&[(LEAST, "1")]),   found(&[(LEAST, "2")]), 1),
        ("deleted with it",        Some(&[]),               found(&[(LEAST, "2")]), 2),
        ("nothing known",          None,                    found(&[]),            1),
        ("no number",              Some(&[(LEAST, "x")]),   inherited(),           1),
    ];
    for (row, values, topic, expected) in rows {
        let config = values.and_then(config);
        let resource = with(Spec { replicas: Some(2), config, ..Spec::default() });
        let found = plan_of(&resource, topic).replicas.map(|wanted| wanted.min_in_sync);
        assert_eq!(found, Some(expected), "{row}");
    }
}

#[test]
fn a_status_says_how_far_a_change_of_replicas_is() {
    let before = ReplicasChange::ongoing(2, "old");
    let of = |change: Option<&ReplicasChange>| {
        let status = Status { replicas_change: change.cloned(), ..resource("a").status };
        Resource { status, ..with(Spec { replicas: Some(2), ..Spec::default() }) }
    };
    let new = ReplicasChange::pending(2, "why".to_owned());
    let failed = || Some(Problem::kafka(40, "x"));
    let same = Found { partitions: vec![partition(0, 2)], ..found(&[]) };
    #[rustfmt::skip]
    let rows = [
        ("T9.1 begun",              None,          found(&[]),   Some(&new), None,     Some(&new)),
        ("T9.4 done",               Some(&before), same.clone(), None,       None,     None),
        ("T6.6 an error keeps it",  Some(&before), found(&[]),   None,       failed(), Some(&before)),
        ("T6.6 done and an error",  Some(&before), same,         None,       failed(), Some(&before)),
        ("not looked at",           Some(&before), found(&[]),   None,       None,     Some(&before)),
        ("an error and a step",     Some(&before), found(&[]),   Some(&new), failed(), Some(&new)),
    ];
    for (row, before, topic, replicas, problem, expected) in rows {
        let resource = of(before);
        let plan = plan_of(&resource, topic);
        let answers = Answers { replicas: replicas.cloned(), problem, ..Answers::default() };
        let report = plan.report(&resource, answers);
        assert_eq!(report.replicas_change.as_ref(), expected, "{row}");
        let is_ready = report.conditions[0].holds;
        assert_eq!(is_ready, !row.contains("error"), "T8.8 {row}: it stays ready");
    }
    let left = Resource { is_paused: true, ..of(Some(&before)) };
    let Triage::Report(report) = alone(&left) else { panic!("it is paused") };
    assert_eq!(report.replicas_change, None, "T6.3");
}

#[test]
fn a_topic_that_cannot_be_read_is_not_changed() {
    let resource =
        with(Spec { partitions: Some(9), config: config(&[("x", "1")]), ..Spec::default() });
    let view = View::Refused(Problem::kafka(29, "Not authorized"));
    let plan = plan(&resource, &view, &Settings::default());
    assert!(plan.create.is_none() && plan.config.is_empty() && plan.partitions.is_none());
    assert_eq!(
        status(&resource, &plan),
        "!Ready KafkaError: org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized | a -"
    );
}

#[test]
fn finalizers_follow_the_switch() {
    let off = Settings { uses_finalizers: false, ..Settings::default() };
    let on = Settings::default();
    #[rustfmt::skip]
    let rows = [
        ("T5.1 added",   new("a"),      &on,  Some(true)),
        ("there",        resource("a"), &on,  None),
        ("T5.3 removed", resource("a"), &off, Some(false)),
        ("not there",    new("a"),      &off, None),
    ];
    for (row, resource, settings, expected) in rows {
        let plan = plan(&resource, &View::Found(found(&[])), settings);
        assert_eq!(plan.finalizer, expected, "{row}");
    }
}

#[test]
fn values_are_compared_as_kafka_reads_them() {
    #[rustfmt::skip]
    let rows = [
        ("7", "7", true), ("7", "7.0", true), ("7", "8", false), ("0.5", ".50", true),
        ("9223372036854775807", "9223372036854775806", false),
        ("compact,delete", "compact, delete", true), ("compact,delete", "delete,compact", false),
        ("true", "True", true), ("true", "false", false), ("true", "1", false),
        ("lz4", "LZ4", false), ("", "x", false), ("nan", "nAn", false),
    ];
    for (current, desired, expected) in rows {
        assert_eq!(is_same(current, desired), expected, "{current} {desired}");
    }
}

#[test]
fn a_new_status_is_no_reason_for_a_pass() {
    let before = resource("a");
    let written = Resource { status: Status::default(), ..before.clone() };
    assert!(!written.differs_from(&before));
    for changed in [
        Resource { generation: 4, ..before.clone() },
        Resource { is_deleting: true, ..before.clone() },
        Resource { has_finalizer: false, ..before.clone() },
        Resource { is_paused: true, ..before.clone() },
        Resource { cluster: None, ..before.clone() },
        Resource { config_mode: Some(ConfigMode::Replace), ..before.clone() },
    ] {
        assert!(changed.differs_from(&before), "{changed:?}");
    }
}

#[test]
fn errors_of_kafka_have_the_words_of_its_java_client() {
    for (code, text, expected) in [
        (
            40,
            "Unknown topic config name: x",
            "org.apache.kafka.common.errors.InvalidConfigurationException: Unknown topic config name: x",
        ),
        (
            73,
            "Topic deletion is disabled.",
            "org.apache.kafka.common.errors.TopicDeletionDisabledException: Topic deletion is disabled.",
        ),
        (999, "what", "Kafka answered with error 999: what"),
    ] {
        let problem = Problem::kafka(code, text);
        assert_eq!((problem.reason, problem.message.as_str()), (Reason::KafkaError, expected));
    }
    let silent = Problem::refused(73, "TOPIC_DELETION_DISABLED (73)", None);
    let expected = "org.apache.kafka.common.errors.TopicDeletionDisabledException: Topic deletion is disabled.";
    assert_eq!(silent.message, expected, "T5.5");
    let unnamed = Problem::refused(44, "POLICY_VIOLATION (44)", None);
    let expected = "org.apache.kafka.common.errors.PolicyViolationException: POLICY_VIOLATION (44)";
    assert_eq!(unnamed.message, expected);
}

#[test]
fn news_are_told_once() {
    let failed = |before: Option<(&str, &str)>| {
        let failure = before.map(|(reason, message)| (reason.to_owned(), message.to_owned()));
        let resource =
            Resource { status: Status { failure, ..resource("a").status }, ..resource("a") };
        let report = Report::failed(&resource, None, Problem::no_answer("x"));
        report.news(&resource).map(|news| (news.is_warning, news.reason))
    };
    let text = "x; the operator tries again";
    let told = Some((true, "KafkaError"));
    assert_eq!(failed(None), told);
    assert_eq!(failed(Some(("KafkaError", "another"))), told);
    assert_eq!(failed(Some(("KafkaError", text))), None);
    let pending = || ReplicasChange::pending(2, "why".to_owned());
    let ongoing = |target| ReplicasChange::ongoing(target, "s");
    let (started, ended) = (Some("ReplicasChangeStarted"), Some("ReplicasChangeEnded"));
    #[rustfmt::skip]
    let rows = [
        (None,             None,             None),
        (None,             Some(pending()),  None),
        (Some(pending()),  Some(ongoing(2)), started),
        (Some(ongoing(2)), Some(ongoing(2)), None),
        (Some(ongoing(2)), Some(ongoing(3)), started),
        (Some(ongoing(2)), None,             ended),
        (Some(pending()),  None,             None),
    ];
    for (before, now, expected) in rows {
        let status = Status { replicas_change: before.clone(), ..resource("a").status };
        let resource = Resource { status, ..resource("a") };
        let plan = plan_of(&resource, found(&[]));
        let answers = Answers { replicas: now.clone(), ..Answers::default() };
        let news = plan.report(&resource, answers).news(&resource).map(|news| news.reason);
        assert_eq!(news, expected, "{before:?} {now:?}");
    }
}
