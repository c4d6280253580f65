//! Rows of names, rules, deletion, statuses and takeover.

use std::collections::BTreeMap;

use super::samples::*;
use super::*;

const SCRAM: Login = Login::Scram(None);

fn of(resource: &Resource, stored: Option<&Stored>, facts: &Facts) -> Plan {
    plan(resource, stored, ALL_CLAIMS, facts).unwrap()
}

#[test]
fn another_prefix_is_another_secret_and_the_former_one_stays() {
    let (resource, stored, mut facts) = settled(SCRAM);
    assert_eq!(of(&resource, stored.as_ref(), &facts).secret, SecretAct::Nothing);
    facts.settings.secret_prefix = "p-".to_owned();
    // There is no Secret of the new name. The former one goes with its owner.
    let plan = of(&resource, None, &facts);
    assert!(matches!(&plan.secret, SecretAct::Write(_)), "U5.14 {:?}", plan.secret);
    assert!(plan.kafka.sets_password, "U5.14");
    assert_eq!(plan.report(&resource, None).secret.as_deref(), Some("p-u"), "E4, U5.14");
}

#[test]
fn labels_are_copied_as_the_template_of_the_container_says() {
    let (mut resource, stored, mut facts) = settled(SCRAM);
    resource.labels.insert("team".to_owned(), "x".to_owned());
    let mut planned = |pattern: &str| {
        let environment = ("STRIMZI_LABELS_EXCLUSION_PATTERN".to_owned(), pattern.to_owned());
        facts.settings.not_copied = Settings::read(&[environment], None).not_copied;
        let plan = of(&resource, stored.as_ref(), &facts);
        let warned = plan.report(&resource, None).conditions.into_iter();
        let reasons: Vec<_> = warned.filter_map(|one| one.reason).collect();
        let is_copied = match &plan.secret {
            SecretAct::Write(secret) => secret.labels.contains_key("team"),
            SecretAct::Nothing | SecretAct::Delete => false,
        };
        (is_copied, reasons)
    };
    assert_eq!(planned(""), (true, vec![]), "E6");
    assert_eq!(planned("te.*"), (false, vec![]), "E6");
    assert_eq!(planned("te(?!am)"), (true, vec![Reason::InvalidSetting]), "E6");
}

#[test]
fn every_operation_on_every_kind_is_taken() {
    let (mut resource, stored, facts) = settled(SCRAM);
    for kind in ResourceKind::ALL {
        for operation in Operation::ALL {
            let rule = RuleSpec {
                kind: *kind,
                operations: vec![*operation],
                ..rule_spec(Permission::Allow, Some("n"))
            };
            resource.spec.as_mut().unwrap().rules = Some(vec![rule]);
            let plan = of(&resource, stored.as_ref(), &facts);
            let created = plan.kafka.creates.iter().map(|(_, rule)| (rule.kind, rule.operation));
            assert_eq!(created.collect::<Vec<_>>(), [(*kind, *operation)], "U8.4");
        }
    }
}

/// Names that only look like those of a user: as Kafka has them, each is a user of its own.
#[test]
fn users_with_other_names_are_never_touched() {
    let mut facts = facts();
    let others = ["CN=u,O=x", "O=x,CN=u", "CN=", "CN=u+OU=y", "cn=u", "U", "uu", "", "CN=CN=u"];
    for name in others {
        let rules = access(&[rule(Permission::Allow, "t")]);
        facts.view.access.insert(name.to_owned(), rules);
        let quota = [("producer_byte_rate".to_owned(), 1.0)].into();
        facts.view.quotas.insert(name.to_owned(), quota);
        facts.view.scram.insert(name.to_owned());
    }
    assert!(of_vanished("u", ALL_CLAIMS, &facts).is_empty(), "U10.8, U12.5");
    for login in [SCRAM, Login::Tls(None), Login::TlsExternal, Login::None] {
        let (resource, stored, settled) = settled(login);
        let mut facts = Facts { view: facts.view.clone(), ..settled.clone() };
        facts.view.scram.extend(settled.view.scram);
        let plan = of(&resource, stored.as_ref(), &facts);
        assert!(plan.kafka.is_empty(), "U10.3, U10.5, U10.7, U10.8: {:?}", plan.kafka);
    }
}

#[test]
fn a_credential_that_kafka_does_not_list_is_not_deleted() {
    let (resource, stored, mut facts) = settled(Login::Tls(None));
    facts.view.scram.insert("u".to_owned());
    assert!(of(&resource, stored.as_ref(), &facts).kafka.deletes_password, "U4.4");
    facts.view.scram.clear();
    assert!(!of(&resource, stored.as_ref(), &facts).kafka.deletes_password, "U6.6");
    assert!(!of_vanished("u", ALL_CLAIMS, &facts).deletes_password, "U6.6");
}

/// Users that only have a credential of another mechanism are not listed: the view has those with SCRAM-SHA-512.
#[test]
fn a_password_that_kafka_does_not_have_is_given_to_it() {
    let (resource, stored, mut facts) = settled(SCRAM);
    facts.view.scram.clear();
    let plan = of(&resource, stored.as_ref(), &facts);
    assert!(plan.kafka.sets_password, "U6.7, M10");
    assert_eq!(plan.secret, SecretAct::Nothing, "U6.7: the password is the one that it had");
}

#[test]
fn a_failure_is_one_condition_and_told_once() {
    let problem = || Problem::refused(42, "INVALID_REQUEST", Some("why"));
    let report = Report::failed(&resource(SCRAM), problem());
    let kinds: Vec<_> = report.conditions.iter().map(|one| one.kind.name()).collect();
    assert_eq!(kinds, ["NotReady"], "U11.6: never a Ready that does not hold");
    assert_eq!((report.username.clone(), report.secret.clone()), (None, None), "U11.3");
    let message = problem().message;
    let known = |reason: &str, message: &str| Resource {
        failure: Some((reason.to_owned(), message.to_owned())),
        ..resource(SCRAM)
    };
    #[rustfmt::skip]
    let rows = [
        ("new",                resource(SCRAM),                  true),
        ("known",              known("KafkaError", &message),    false),
        ("another message",    known("KafkaError", "other"),     true),
        ("another reason",     known("InvalidResource", &message), true),
    ];
    for (row, resource, is_news) in rows {
        assert_eq!(report.news(&resource).is_some(), is_news, "{row}");
    }
    let told = report.news(&resource(SCRAM)).unwrap();
    assert!(told.is_warning && told.reason == "KafkaError" && told.message == message);
    let (good, stored, facts) = settled(SCRAM);
    let good_report = of(&good, stored.as_ref(), &facts).report(&good, None);
    assert_eq!(good_report.news(&good), None);
    assert!(!known("a", "b").differs_from(&resource(SCRAM)), "a status is no reason for a pass");
}

/// What is in Kafka without a `KafkaUser`, as an operator of Strimzi would delete it.
#[test]
fn orphans_of_a_takeover_stay() {
    let mut facts = facts();
    for name in ["by-hand", "CN=by-hand", "mirror"] {
        facts.view.access.insert(name.to_owned(), access(&[rule(Permission::Allow, "t")]));
    }
    facts.view.scram.insert("by-hand".to_owned());
    // Nothing is recorded when this operator takes over.
    for name in ["by-hand", "mirror"] {
        assert!(of_vanished(name, Claims::default(), &facts).is_empty(), "M13 {name}");
    }
}

/// Secrets and Kafka as a healthy operator of Strimzi leaves them: no note on the Secret, its labels, its key.
#[test]
fn taking_over_a_user_that_is_in_sync_sends_nothing_to_kafka() {
    for login in [SCRAM, Login::Tls(None)] {
        let (mut resource, stored, mut facts) = settled(login.clone());
        let mut stored = stored.unwrap();
        stored.annotations = BTreeMap::new();
        let spec = resource.spec.as_mut().unwrap();
        spec.rules = Some(vec![rule_spec(Permission::Allow, Some("t"))]);
        spec.quotas.insert("producer_byte_rate", 7.0);
        let known_as = if login == SCRAM { "u" } else { "CN=u" };
        let rules = access(&[rule(Permission::Allow, "t")]);
        facts.view.access.insert(known_as.to_owned(), rules);
        let quotas = [("producer_byte_rate".to_owned(), 7.0)].into();
        facts.view.quotas.insert(known_as.to_owned(), quotas);
        let plan = plan(&resource, Some(&stored), Claims::default(), &facts).unwrap();
        assert!(plan.kafka.is_empty(), "M9, M10 {:?}", plan.kafka);
        let SecretAct::Write(secret) = &plan.secret else { panic!("{:?}", plan.secret) };
        assert_eq!(secret.credential, Credential::Kept, "M10, M11: only notes are written");
    }
}

/// The API server takes any number of days, as long as there are fewer for the renewal.
#[test]
fn a_certificate_that_was_issued_just_now_is_not_due() {
    for (validity, renewal) in [
        (365, 30),
        (2, 1),
        (1, i64::MAX),
        (365_000, 364_999),
        (100_000_000, 99_999_999),
        (i64::MAX, i64::MAX - 1),
        (i64::MIN, i64::MIN),
    ] {
        let mut facts = facts();
        let resource = resource(Login::Tls(Some(Days { validity, renewal })));
        let first = of(&resource, None, &facts);
        let SecretAct::Write(secret) = &first.secret else { panic!("{:?}", first.secret) };
        let Credential::Issued { days, .. } = secret.credential else { panic!("{secret:?}") };
        let mut stored = written(&resource, &first);
        stored.not_after = Some(NOW + days * DAY);
        let second = of(&resource, Some(&stored), &facts);
        assert_eq!(second.secret, SecretAct::Nothing, "U7.4 {validity} {renewal}");
        facts.now = NOW + days * DAY + 1;
        let last = of(&resource, Some(&stored), &facts);
        assert!(matches!(last.secret, SecretAct::Write(_)), "U7.4 {validity} {renewal}");
    }
}
