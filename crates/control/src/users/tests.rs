//! The rows of the tables.

use std::collections::BTreeMap;

use super::samples::*;
use super::*;

const SCRAM: Login = Login::Scram(None);
const TLS: Login = Login::Tls(None);

fn of(resource: &Resource, stored: Option<&Stored>, facts: &Facts) -> Plan {
    plan(resource, stored, ALL_CLAIMS, facts).unwrap()
}

/// The reason and the message of the first condition.
fn said(resource: &Resource, stored: Option<&Stored>, facts: &Facts) -> (Reason, String) {
    let plan = of(resource, stored, facts);
    assert!(plan.kafka.is_empty() && plan.secret == SecretAct::Nothing, "nothing is done");
    let first = plan.report(resource, None).conditions.remove(0);
    assert_eq!(first.kind, Kind::NotReady, "U11.3");
    (first.reason.unwrap(), first.message.unwrap())
}

fn credential(plan: &Plan) -> Option<&Credential> {
    match &plan.secret {
        SecretAct::Write(secret) => Some(&secret.credential),
        SecretAct::Nothing | SecretAct::Delete => None,
    }
}

fn edit(resource: &mut Resource, change: impl FnOnce(&mut Spec)) {
    change(resource.spec.as_mut().unwrap());
}

#[test]
fn a_user_is_known_by_its_name_or_by_its_certificate() {
    let rows = [
        ("U3.1", TLS, "CN=u", true),
        ("U3.2", Login::TlsExternal, "CN=u", false),
        ("U3.3", SCRAM, "u", true),
        ("U3.4", Login::None, "u", false),
    ];
    for (row, login, known_as, has_secret) in rows {
        let mut resource = resource(login.clone());
        edit(&mut resource, |spec| {
            spec.rules = Some(vec![rule_spec(Permission::Allow, Some("t"))]);
            spec.quotas.insert("producer_byte_rate", 1.0);
        });
        let plan = of(&resource, None, &facts());
        let kafka = &plan.kafka;
        assert_eq!(kafka.creates, [(known_as.to_owned(), rule(Permission::Allow, "t"))], "{row}");
        assert_eq!(kafka.quotas.keys().collect::<Vec<_>>(), [known_as], "{row}");
        assert_eq!(kafka.sets_password, login == SCRAM, "{row}");
        assert_eq!(credential(&plan).is_some(), has_secret, "{row}");
        let report = plan.report(&resource, None);
        assert_eq!(report.username.as_deref(), Some(known_as), "U11.1 {row}");
        assert_eq!(report.secret.is_some(), has_secret, "U11.1 {row}");
    }
}

#[test]
fn names_and_labels_that_cannot_be_are_told() {
    for (row, login, letters, is_good) in [
        ("U3.5", TLS, 64, true),
        ("U3.5", TLS, 65, false),
        ("U3.5", SCRAM, 65, true),
        ("U3.5", Login::TlsExternal, 200, true),
    ] {
        let resource = Resource { name: "a".repeat(letters), ..resource(login) };
        let report = of(&resource, None, &facts()).report(&resource, None);
        assert_eq!(report.is_good(), is_good, "{row} {letters}");
    }
    let long = Resource { name: "a".repeat(65), ..resource(TLS) };
    assert!(said(&long, None, &facts()).1.contains("only up to 64 characters long"), "U3.5");
    let mut labelled = resource(SCRAM);
    labelled.labels.insert("strimzi.io/cluster-name".to_owned(), "x".to_owned());
    assert!(of(&labelled, None, &facts()).report(&labelled, None).is_good(), "U3.6");
    labelled.labels.insert("strimzi.io/pod".to_owned(), "x".to_owned());
    let (reason, message) = said(&labelled, None, &facts());
    assert_eq!(reason, Reason::InvalidResource);
    assert!(message.contains("remove strimzi.io/pod"), "U3.6 {message}");
    let mut template = resource(SCRAM);
    edit(&mut template, |spec| {
        spec.secret_annotations.insert("strimzi.io/a".to_owned(), String::new());
    });
    assert!(said(&template, None, &facts()).1.contains("strimzi.io/a"), "U5.12");
}

#[test]
fn nothing_is_done_for_a_user_that_is_as_it_should_be() {
    for login in [TLS, SCRAM, Login::TlsExternal, Login::None] {
        let (resource, stored, facts) = settled(login.clone());
        let plan = of(&resource, stored.as_ref(), &facts);
        assert!(plan.kafka.is_empty(), "U6.5 {login:?} {:?}", plan.kafka);
        assert_eq!(plan.secret, SecretAct::Nothing, "{login:?}");
    }
}

#[test]
fn a_paused_user_gets_only_a_status_and_one_that_is_deleted_nothing() {
    let mut resource = Resource { is_paused: true, ..resource(SCRAM) };
    let plan_of = |resource: &Resource| plan(resource, None, Claims::default(), &facts());
    let plan = plan_of(&resource).unwrap();
    assert!(plan.kafka.is_empty() && plan.secret == SecretAct::Nothing, "U4.3");
    assert_eq!(plan.claims_before, Claims::default());
    let report = plan.report(&resource, None);
    assert_eq!(report.conditions[0].kind, Kind::ReconciliationPaused, "U11.5");
    assert_eq!((report.observed_generation, report.username), (2, None), "U11.5");
    resource.observed_generation = None;
    assert_eq!(plan_of(&resource).unwrap().report(&resource, None).observed_generation, 0);
    resource.is_deleting = true;
    assert_eq!(plan_of(&resource), None, "U4.2: no new Secret for one that goes");
    assert_eq!(plan_of(&Resource { spec: None, ..resource }), None);
}

#[test]
fn another_kind_of_authentication_moves_what_the_user_has() {
    let old = rule(Permission::Allow, "t");
    let quota = BTreeMap::from([("producer_byte_rate".to_owned(), 7.0)]);
    let (_, stored, mut facts) = settled(SCRAM);
    facts.view.access.insert("u".to_owned(), access(std::slice::from_ref(&old)));
    facts.view.quotas.insert("u".to_owned(), quota);
    let mut resource = resource(TLS);
    edit(&mut resource, |spec| {
        spec.rules = Some(vec![rule_spec(Permission::Allow, Some("t"))]);
    });
    let recorded = Claims { scram: true, plain: true, certificate: false };
    let moved = plan(&resource, stored.as_ref(), recorded, &facts).unwrap();
    assert_eq!(moved.kafka.creates, [("CN=u".to_owned(), old.clone())], "U4.4");
    assert_eq!(moved.kafka.deletes, [("u".to_owned(), old)], "U4.4");
    assert_eq!(moved.kafka.quotas["u"], [("producer_byte_rate", None)].into(), "U4.4");
    assert!(moved.kafka.deletes_password, "U4.4");
    assert_eq!(moved.claims_before, ALL_CLAIMS, "recorded before it is done");
    assert_eq!(moved.claims_after, Claims { certificate: true, ..Claims::default() });
    assert!(matches!(credential(&moved), Some(Credential::Issued { .. })), "U5.8");
    // Somebody else may have created a user of the other name.
    let recorded = Claims { certificate: true, ..Claims::default() };
    let kept = plan(&resource, stored.as_ref(), recorded, &facts).unwrap();
    assert!(kept.kafka.deletes.is_empty() && kept.kafka.quotas.is_empty());
    assert!(!kept.kafka.deletes_password);
}

#[test]
fn a_secret_has_the_labels_of_the_resource_and_keeps_those_of_others() {
    let (mut resource, stored, facts) = settled(SCRAM);
    let mut stored = stored.unwrap();
    stored.labels.insert("foreign".to_owned(), "1".to_owned());
    stored.annotations.insert("foreign".to_owned(), "1".to_owned());
    assert_eq!(of(&resource, Some(&stored), &facts).secret, SecretAct::Nothing, "U5.10 kept");
    for label in ["team", "app.kubernetes.io/name", "app.kubernetes.io/part-of"] {
        resource.labels.insert(label.to_owned(), "x".to_owned());
    }
    edit(&mut resource, |spec| {
        spec.secret_labels.insert("added".to_owned(), "2".to_owned());
        spec.secret_labels.insert("app.kubernetes.io/x".to_owned(), "2".to_owned());
        spec.secret_annotations.insert("noted".to_owned(), "3".to_owned());
    });
    let plan = of(&resource, Some(&stored), &facts);
    assert_eq!(credential(&plan), Some(&Credential::Kept));
    let after = written(&resource, &plan);
    let names = |of: &BTreeMap<String, String>| of.keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(
        names(&after.labels),
        "added app.kubernetes.io/part-of foreign strimzi.io/cluster strimzi.io/kind team",
        "U2.5, U5.12"
    );
    assert_eq!(
        names(&after.annotations),
        "foreign gregor.io/scram-credential gregor.io/secret-metadata noted"
    );
    // What the resource no longer asks for goes, what others wrote stays.
    edit(&mut resource, |spec| {
        spec.secret_labels.clear();
        spec.secret_annotations.clear();
    });
    resource.labels.remove("team");
    let last = written(&resource, &of(&resource, Some(&after), &facts));
    assert_eq!(
        names(&last.labels),
        "app.kubernetes.io/part-of foreign strimzi.io/cluster strimzi.io/kind"
    );
    assert!(!last.annotations.contains_key("noted") && last.annotations.contains_key("foreign"));
}

#[test]
fn a_secret_of_something_else_is_left_alone() {
    let (resource, stored, facts) = settled(SCRAM);
    let stored = stored.unwrap();
    let owned = |owner| Stored { owner, ..stored.clone() };
    let user = |name: &str, uid: &str| Owner::User(name.to_owned(), uid.to_owned());
    for (row, found) in [
        ("of another user", owned(user("v", "x"))),
        ("of a CA", owned(Owner::Another("Kafka c".to_owned()))),
        ("of another cluster", Stored { cluster: Some("d".to_owned()), ..stored.clone() }),
    ] {
        let (reason, message) = said(&resource, Some(&found), &facts);
        assert_eq!(reason, Reason::SecretConflict, "U5.11 {row}");
        assert!(message.contains("The Secret u is not changed"), "U5.11 {row} {message}");
    }
    // One that `gregor user` created before, and one of a resource that was created anew, are taken over.
    for (row, found) in [
        ("M12", Stored { is_held: true, ..owned(Owner::Unowned) }),
        ("a former resource", owned(user("u", "former"))),
    ] {
        let plan = of(&resource, Some(&found), &facts);
        assert_eq!(credential(&plan), Some(&Credential::Kept), "{row}");
        assert!(!plan.kafka.sets_password, "{row}: the password stays");
    }
    let going = Stored { is_deleting: true, ..stored };
    assert_eq!(said(&resource, Some(&going), &facts).0, Reason::KubernetesError);
}

#[test]
fn a_user_without_credentials_has_no_secret() {
    for login in [Login::None, Login::TlsExternal] {
        let (_, stored, facts) = settled(TLS);
        let resource = resource(login);
        let plan = of(&resource, stored.as_ref(), &facts);
        assert_eq!(plan.secret, SecretAct::Delete, "U5.8");
        let foreign = Stored { owner: Owner::Unowned, ..stored.unwrap() };
        assert_eq!(of(&resource, Some(&foreign), &facts).secret, SecretAct::Nothing);
    }
}

#[test]
#[rustfmt::skip]
fn a_password_is_given_to_kafka_once_and_again_when_it_changes() {
    type Change = fn(&mut Stored, &mut Facts);
    fn noted(stored: &mut Stored, text: &str) {
        stored.annotations.insert("gregor.io/scram-credential".to_owned(), text.to_owned());
    }
    fn unnoted(stored: &mut Stored) {
        stored.annotations.remove("gregor.io/scram-credential");
    }
    // What differs from a user that is as it should be; whether Kafka is given the password; what is written.
    let rows: [(&str, Change, bool, Option<Credential>); 11] = [
        ("U6.5 as it was",               |_, _| {},                                      false, None),
        ("deleted in Kafka",             |_, f| f.view.scram.clear(),                    true,  None),
        ("another password",             |s, _| s.password = Some("new".to_owned()),     true,  Some(Credential::Kept)),
        ("another cluster",              |_, f| f.cluster_id = "new".to_owned(),         true,  Some(Credential::Kept)),
        ("M10 of Strimzi",               |s, _| unnoted(s),                              false, Some(Credential::Kept)),
        ("M10, but not in Kafka",        |s, f| { unnoted(s); f.view.scram.clear(); },   true,  Some(Credential::Kept)),
        ("of nobody, without a note",    |s, _| { unnoted(s); s.owner = Owner::Unowned; }, true, Some(Credential::Kept)),
        ("of an older operator",         |s, _| noted(s, "setting x"),                   true,  Some(Credential::Kept)),
        ("U7.3 forced",                  |s, _| drop(s.annotations.insert("strimzi.io/force-renew".to_owned(), "true".to_owned())), true, Some(Credential::Generated { letters: 32 })),
        ("U6.1 emptied",                 |s, _| { s.entries.remove("password"); },      true,  Some(Credential::Generated { letters: 32 })),
        ("U5.7 login is not the user's", |s, _| s.login = None,                          false, Some(Credential::Same)),
    ];
    for (row, change, is_set, written) in rows {
        let (resource, stored, mut facts) = settled(SCRAM);
        let mut stored = stored.unwrap();
        change(&mut stored, &mut facts);
        let plan = of(&resource, Some(&stored), &facts);
        assert_eq!(plan.kafka.sets_password, is_set, "{row}");
        assert_eq!(credential(&plan), written.as_ref(), "{row}");
    }
    let (resource, _, facts) = settled(SCRAM);
    let plan = of(&resource, None, &facts);
    assert!(plan.kafka.sets_password, "U5.9: the Secret was deleted");
    assert_eq!(credential(&plan), Some(&Credential::Generated { letters: 32 }), "U5.9, U6.2");
}

#[test]
fn a_password_of_the_user_is_used_or_what_is_wrong_is_told() {
    let text = |text: &str| Some(text.to_owned());
    let whole = PasswordReference { secret: text("s"), key: text("k") };
    let (mut resource, stored, mut facts) = settled(SCRAM);
    let mut found = |reference: &PasswordReference, found: PasswordFound| {
        edit(&mut resource, |spec| spec.login = Login::Scram(Some(reference.clone())));
        facts.passwords = [(("u".to_owned(), reference.clone()), found)].into();
        (resource.clone(), facts.clone())
    };
    let rows = [
        (PasswordFound::NoSecret, Reason::InvalidReference, "Secret s in namespace ns not found"),
        (PasswordFound::NoEntry, Reason::InvalidReference, "Secret s does not contain the key k"),
        (PasswordFound::Empty, Reason::InvalidReference, "The key k of Secret s holds no text"),
    ];
    for (what, reason, words) in rows {
        let (resource, facts) = found(&whole, what);
        for stored in [None, stored.as_ref()] {
            let (is, message) = said(&resource, stored, &facts);
            assert!(is == reason && message.contains(words), "U6.3 {message}");
        }
    }
    for half in [
        PasswordReference { key: None, ..whole.clone() },
        PasswordReference { secret: text(""), ..whole.clone() },
    ] {
        let (resource, facts) = found(&half, PasswordFound::NoSecret);
        assert!(said(&resource, None, &facts).1.contains("set name and key"), "U6.3");
    }
    let entry = PasswordEntry { secret: "s".to_owned(), key: "k".to_owned() };
    let print = |text: &str| PasswordFound::Print(text.to_owned());
    let (resource, facts) = found(&whole, print("print"));
    let same = of(&resource, stored.as_ref(), &facts);
    assert_eq!((same.kafka.sets_password, &same.secret), (false, &SecretAct::Nothing));
    let first = of(&resource, None, &facts);
    let given = Credential::Given(entry);
    assert_eq!(credential(&first), Some(&given), "U6.1");
    let (resource, facts) = found(&whole, print("other"));
    let changed = of(&resource, stored.as_ref(), &facts);
    assert!(changed.kafka.sets_password && credential(&changed) == Some(&given), "U6.4");
    assert_eq!(written(&resource, &changed).annotations["gregor.io/scram-credential"], "id other");
}

#[test]
#[rustfmt::skip]
fn a_certificate_is_issued_when_it_is_missing_outdated_or_due() {
    type Change = fn(&mut Stored, &mut Facts, &mut Resource);
    fn ends_in(stored: &mut Stored, days: i64) {
        stored.not_after = Some(NOW + days * DAY);
    }
    fn chosen(resource: &mut Resource, validity: i64, renewal: i64) {
        resource.spec.as_mut().unwrap().login = Login::Tls(Some(Days { validity, renewal }));
    }
    fn replaced(facts: &mut Facts) {
        facts.authority = Authority::Found { print: "new".to_owned(), can_sign: true };
    }
    const ISSUED: Option<Credential> = Some(Credential::Issued { days: 365, is_rsa: false });
    let rows: [(&str, Change, Option<Credential>); 17] = [
        ("M11 good",                   |_, _, _| {},                                              None),
        ("U7.1 no certificate",        |s, _, _| { s.entries.remove("user.crt"); },              ISSUED),
        ("U7.1 no key",                |s, _, _| { s.entries.remove("user.key"); },              ISSUED),
        ("U7.1 not readable",          |s, _, _| s.not_after = None,                              ISSUED),
        ("U7.2, U7.10 another CA",            |_, f, _| replaced(f),                                     ISSUED),
        ("U7.2 outside the windows",   |_, f, _| { replaced(f); f.window_is_open = false; },      ISSUED),
        ("U7.3 forced",                |s, _, _| drop(s.annotations.insert("strimzi.io/force-renew".to_owned(), "true".to_owned())), ISSUED),
        ("U7.4 not due",               |s, _, _| ends_in(s, 30),                                  None),
        ("U7.4 due",                   |s, _, _| ends_in(s, 29),                                  ISSUED),
        ("U7.5 outside the windows",   |s, f, _| { ends_in(s, 29); f.window_is_open = false; },   None),
        ("U7.5 past its end",          |s, f, _| { ends_in(s, -1); f.window_is_open = false; },   None),
        ("U7.7 lower validity",        |_, _, r| chosen(r, 10, 5),                                None),
        ("U7.8 more renewal days",     |s, _, r| { ends_in(s, 300); chosen(r, 365, 301); },       ISSUED),
        ("U1.3 own days",              |s, _, r| { ends_in(s, 4); chosen(r, 10, 5); },            Some(Credential::Issued { days: 10, is_rsa: false })),
        ("RSA where asked",            |_, f, r| { replaced(f); r.key = KeyKind::Rsa; },          Some(Credential::Issued { days: 365, is_rsa: true })),
        ("U5.13 no key store",         |s, _, _| { s.entries.remove("user.p12"); },              Some(Credential::KeyStore)),
        ("U5.8 entry of another kind", |s, _, _| { s.entries.insert("password".to_owned()); },   Some(Credential::Same)),
    ];
    for (row, change, expected) in rows {
        let (mut resource, stored, mut facts) = settled(TLS);
        let mut stored = stored.unwrap();
        change(&mut stored, &mut facts, &mut resource);
        assert_eq!(credential(&of(&resource, Some(&stored), &facts)), expected.as_ref(), "{row}");
    }
    let (resource, _, facts) = settled(TLS);
    assert_eq!(credential(&of(&resource, None, &facts)), ISSUED.as_ref(), "U5.9");
}

#[test]
fn without_a_clients_ca_users_with_certificates_wait() {
    let (resource, stored, mut facts) = settled(TLS);
    facts.authority = Authority::Missing("Secret c-clients-ca-cert not found".to_owned());
    let (reason, message) = said(&resource, None, &facts);
    assert_eq!(reason, Reason::AuthorityError);
    assert!(message.contains("Secret c-clients-ca-cert not found"), "U7.9 {message}");
    facts.authority = Authority::Found { print: "ca".to_owned(), can_sign: false };
    assert_eq!(said(&resource, None, &facts).0, Reason::AuthorityError);
    let good = of(&resource, stored.as_ref(), &facts);
    assert!(good.report(&resource, None).is_good(), "who has a certificate keeps it");
    // Others need none.
    let (other, stored, _) = settled(SCRAM);
    facts.authority = Authority::NotRead;
    assert!(of(&other, stored.as_ref(), &facts).report(&other, None).is_good());
}

#[test]
fn rules_are_compared_as_sets_and_never_open_a_gap() {
    let (mut resource, stored, mut facts) = settled(SCRAM);
    let [allow, deny] = [Permission::Allow, Permission::Deny];
    let old = [rule(allow, "old"), rule(deny, "old"), rule(allow, "kept")];
    facts.view.access.insert("u".to_owned(), access(&old));
    let mut both = rule_spec(allow, Some("new"));
    both.operations = vec![Operation::Read, Operation::Write, Operation::Read];
    edit(&mut resource, |spec| {
        let more = [(allow, "kept"), (deny, "new")]
            .map(|(permission, name)| rule_spec(permission, Some(name)));
        spec.rules = Some([vec![both], more.to_vec()].concat());
    });
    let plan = of(&resource, stored.as_ref(), &facts);
    let lines = |rules: &[(String, Rule)]| {
        let line = |(of, rule): &(String, Rule)| {
            let (permission, operation) = (rule.permission.name(), rule.operation.name());
            format!("{of} {permission} {operation} {}", rule.name)
        };
        rules.iter().map(line).collect::<Vec<_>>().join("; ")
    };
    let created = "u deny Read new; u allow Read new; u allow Write new";
    assert_eq!(lines(&plan.kafka.creates), created, "U8.1, U8.5, U8.10, what denies first");
    let deleted = "u allow Read old; u deny Read old";
    assert_eq!(lines(&plan.kafka.deletes), deleted, "U8.5, U8.7, what denies last");
    for none in [None, Some(vec![])] {
        edit(&mut resource, |spec| spec.rules = none);
        assert_eq!(of(&resource, stored.as_ref(), &facts).kafka.deletes.len(), 3, "U8.6");
    }
}

#[test]
fn rules_name_what_they_are_about() {
    let (mut resource, stored, facts) = settled(SCRAM);
    let mut about = |kind, name: Option<&str>, pattern| {
        let rule = RuleSpec { kind, pattern, ..rule_spec(Permission::Allow, name) };
        edit(&mut resource, |spec| spec.rules = Some(vec![rule]));
        let plan = of(&resource, stored.as_ref(), &facts);
        let first = plan.kafka.creates.first().map(|(_, rule)| (rule.name.clone(), rule.pattern));
        first.ok_or_else(|| said(&resource, stored.as_ref(), &facts).1)
    };
    let cluster = about(ResourceKind::Cluster, Some("x"), Pattern::Prefix);
    assert_eq!(cluster, Ok(("kafka-cluster".to_owned(), Pattern::Literal)), "U8.2");
    let star = about(ResourceKind::Topic, Some("*"), Pattern::Prefix);
    assert_eq!(star, Ok(("*".to_owned(), Pattern::Prefix)), "U8.3");
    for kind in [ResourceKind::Topic, ResourceKind::Group, ResourceKind::TransactionalId] {
        for name in [None, Some("")] {
            let message = about(kind, name, Pattern::Literal).unwrap_err();
            assert!(
                message.contains(&format!("resource type {} has no name", kind.name())),
                "U8.2"
            );
        }
    }
}

#[test]
fn without_authorization_rules_are_neither_set_nor_deleted() {
    let (mut resource, stored, mut facts) = settled(SCRAM);
    facts.settings.has_access_rules = false;
    facts.view.access.insert("u".to_owned(), access(&[rule(Permission::Allow, "t")]));
    assert!(of(&resource, stored.as_ref(), &facts).kafka.is_empty(), "U10.4");
    assert!(of_vanished("u", ALL_CLAIMS, &facts).deletes.is_empty(), "U10.4");
    edit(&mut resource, |spec| spec.rules = Some(vec![]));
    let (reason, message) = said(&resource, stored.as_ref(), &facts);
    assert_eq!(reason, Reason::InvalidResource);
    assert!(message.contains("set spec.kafka.authorization"), "U11.7 {message}");
}

#[test]
fn what_a_user_should_know_is_a_warning_and_it_is_ready() {
    let check = |row: &str, login: Login, reason, change: fn(&mut Facts, &mut Resource)| {
        let (mut resource, stored, mut facts) = settled(login);
        change(&mut facts, &mut resource);
        let report = of(&resource, stored.as_ref(), &facts).report(&resource, None);
        let kinds: Vec<_> = report.conditions.iter().map(|one| (one.kind, one.reason)).collect();
        assert_eq!(kinds, [(Kind::Ready, None), (Kind::Warning, Some(reason))], "{row}");
    };
    let no_tls = |facts: &mut Facts, _: &mut Resource| facts.settings.takes_certificates = false;
    check("U11.8", TLS, Reason::NoListener, no_tls);
    check("U11.8", Login::TlsExternal, Reason::NoListener, no_tls);
    check("U11.8", SCRAM, Reason::NoListener, |facts, _| facts.settings.takes_passwords = false);
    check("U8.8, U8.9", SCRAM, Reason::RulesKept, |facts, _| {
        facts.view.access.insert("u".to_owned(), Access { others: 2, ..Access::default() });
    });
    check("a kind of key", TLS, Reason::UnknownAnnotation, |_, resource| {
        resource.key = KeyKind::of(Some("dsa"));
    });
}

#[test]
fn quotas_are_compared_and_removed() {
    type Rows<'a> = &'a [(&'static str, f64)];
    let changes = |desired: Rows<'_>, found: Rows<'_>| {
        let (mut resource, stored, mut facts) = settled(SCRAM);
        edit(&mut resource, |spec| spec.quotas = desired.iter().copied().collect());
        let found: BTreeMap<_, _> =
            found.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        facts.view.quotas.insert("u".to_owned(), found);
        let plan = of(&resource, stored.as_ref(), &facts);
        let all = plan.kafka.quotas.get("u").cloned().unwrap_or_default();
        let line = |(name, value): (&&str, &Option<f64>)| match value {
            Some(value) => format!("{name}={value}"),
            None => format!("-{name}"),
        };
        all.iter().map(line).collect::<Vec<_>>().join(" ")
    };
    let (bytes, rate) = ("producer_byte_rate", "controller_mutation_rate");
    let rows: [(&str, Rows<'_>, Rows<'_>, &str); 8] = [
        ("U9.1", &[(bytes, 7.0)], &[], "producer_byte_rate=7"),
        (
            "U9.3",
            &[],
            &[(bytes, 7.0), (rate, 1.0)],
            "-controller_mutation_rate -producer_byte_rate",
        ),
        ("U9.4", &[(bytes, 7.0)], &[(bytes, 7.5)], ""),
        ("U9.4", &[(rate, 0.5)], &[(rate, 0.25)], "controller_mutation_rate=0.5"),
        ("U9.4", &[(rate, 0.5)], &[(rate, 0.5)], ""),
        ("U9.5", &[], &[], ""),
        ("U9.6", &[(bytes, 0.0)], &[], "producer_byte_rate=0"),
        ("U9.8", &[], &[("connection_creation_rate", 1.0)], ""),
    ];
    for (row, desired, found, expected) in rows {
        assert_eq!(changes(desired, found), expected, "{row}");
    }
}

#[test]
fn only_what_was_recorded_is_deleted_of_a_user_that_is_gone() {
    let mut facts = facts();
    facts.view.scram = ["u", "other"].map(str::to_owned).into();
    let rules = [rule(Permission::Deny, "t"), rule(Permission::Allow, "t")];
    for name in ["u", "CN=u", "other"] {
        facts.view.access.insert(name.to_owned(), access(&rules));
        let quota = [("producer_byte_rate".to_owned(), 1.0)].into();
        facts.view.quotas.insert(name.to_owned(), quota);
    }
    let all = of_vanished("u", ALL_CLAIMS, &facts);
    assert!(all.deletes_password && all.creates.is_empty(), "U10.1");
    let order: Vec<_> = all.deletes.iter().map(|(_, rule)| rule.permission).collect();
    let [allow, deny] = [Permission::Allow, Permission::Deny];
    assert_eq!(order, [allow, allow, deny, deny], "U10.1, what denies last");
    assert_eq!(all.quotas.keys().collect::<Vec<_>>(), ["CN=u", "u"], "U10.1");
    // U10.3: whatever was not recorded is somebody else's.
    assert!(of_vanished("u", Claims::default(), &facts).is_empty());
    let plain = of_vanished("u", Claims { plain: true, ..Claims::default() }, &facts);
    assert!(!plain.deletes_password && plain.deletes.iter().all(|(of, _)| of == "u"), "U10.3");
    assert!(of_vanished("gone", ALL_CLAIMS, &facts).is_empty(), "U10.2: nothing is left to do");
}

#[test]
fn a_problem_of_kafka_is_told_and_names_of_the_status_go() {
    let (resource, stored, facts) = settled(SCRAM);
    let plan = of(&resource, stored.as_ref(), &facts);
    let problem = Problem::refused(42, "INVALID_REQUEST", Some("Quota must be greater than 0"));
    let report = plan.report(&resource, Some(problem));
    assert_eq!((report.username.as_deref(), report.secret.as_deref()), (None, None), "U11.3");
    assert_eq!(report.observed_generation, 3);
    let [one] = report.conditions.as_slice() else { panic!("{report:?}") };
    assert_eq!((one.kind, one.reason), (Kind::NotReady, Some(Reason::KafkaError)), "U9.6, U11.3");
    let message = one.message.as_deref().unwrap();
    let expected =
        "org.apache.kafka.common.errors.InvalidRequestException: Quota must be greater than 0";
    assert_eq!(message, expected);
}
