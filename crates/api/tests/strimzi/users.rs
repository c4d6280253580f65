//! Whatever Strimzi's schema accepts as a `KafkaUser`, decisions take: each gets a status or is left unchanged, and none panics.

use std::collections::{BTreeMap, BTreeSet};

use api::{KafkaUser, read};
use control::users::{
    Access, Authority, Claims, Facts, Login, Operation, Owner, PasswordFound, Pattern, Permission,
    Plan, ResourceKind, Rule, SecretAct, Settings, Stored, View, of_vanished, plan,
};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::random;

const NAME: &str = "u";
const BY_CERTIFICATE: &str = "CN=u";

fn any_metadata() -> impl Strategy<Value = Value> {
    let pause = prop_oneof!["true", "TRUE", "false", ".{0,6}"];
    let key = prop_oneof!["ec", "rsa", ".{0,6}"];
    let label = prop_oneof!["team", "strimzi.io/pod", "app.kubernetes.io/name"];
    (any::<bool>(), pause, key, prop::option::of(label), any::<i64>()).prop_map(
        |(is_deleting, pause, key, label, generation)| {
            let mut labels = json!({ "strimzi.io/cluster": "c" });
            if let Some(label) = label {
                labels[label] = "x".into();
            }
            json!({
                "name": NAME, "namespace": "n", "uid": "uid", "generation": generation,
                "labels": labels,
                "deletionTimestamp":
                    if is_deleting { json!("2026-01-01T00:00:00Z") } else { Value::Null },
                "annotations": {
                    "strimzi.io/pause-reconciliation": pause, "gregor.io/user-key": key,
                },
            })
        },
    )
}

fn any_stored() -> impl Strategy<Value = Stored> {
    let names = ["ca.crt", "user.crt", "user.key", "user.p12", "password", "sasl.jaas.config", "x"];
    let owner = prop_oneof![
        Just(Owner::Unowned),
        Just(Owner::User(NAME.to_owned(), "uid".to_owned())),
        Just(Owner::User(NAME.to_owned(), "former".to_owned())),
        Just(Owner::User("v".to_owned(), "other".to_owned())),
        Just(Owner::Another("Kafka c".to_owned())),
    ];
    let cluster = prop::option::of(prop_oneof!["c", "d"]);
    let entries = prop::collection::btree_set(select(names.to_vec()), 0..7);
    let annotation = prop_oneof![
        "gregor.io/scram-credential",
        "gregor.io/secret-metadata",
        "strimzi.io/force-renew",
        "foreign"
    ];
    let annotations =
        prop::collection::btree_map(annotation, prop_oneof!["true", "id p", ".{0,9}"], 0..4);
    let prints = (prop::option::of("[pq]"), prop::option::of(any::<i64>()), any::<bool>());
    (owner, cluster, entries, annotations, prints, any::<(bool, bool)>()).prop_map(
        |(owner, cluster, entries, annotations, (print, not_after, logs_in), flags)| Stored {
            cluster,
            owner,
            is_deleting: flags.0,
            is_held: flags.1,
            annotations,
            entries: entries.into_iter().map(str::to_owned).collect(),
            authority: print.clone(),
            // Times of a certificate are those of its format, which has years up to 9999.
            not_after: not_after.map(|at| at.rem_euclid(253_402_300_800)),
            password: print,
            login: logs_in.then(|| NAME.to_owned()),
            ..Stored::default()
        },
    )
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let of = (select(Permission::ALL), select(ResourceKind::ALL), select(Operation::ALL));
    (of, select(Pattern::ALL), "[ab*]").prop_map(
        |((permission, kind, operation), pattern, name)| Rule {
            permission,
            kind,
            name,
            pattern,
            host: "*".to_owned(),
            operation,
        },
    )
}

fn any_view() -> impl Strategy<Value = View> {
    let name = || select(vec![NAME.to_owned(), BY_CERTIFICATE.to_owned(), "CN=u,O=x".to_owned()]);
    let rules = prop::collection::btree_set(any_rule(), 0..4);
    let access = (rules, 0..3_usize).prop_map(|(rules, others)| Access { rules, others });
    let key = select(vec!["producer_byte_rate".to_owned(), "connection_creation_rate".to_owned()]);
    let quotas = prop::collection::btree_map(key, 0.0..9.0_f64, 0..3);
    (
        prop::collection::btree_map(name(), access, 0..4),
        prop::collection::btree_map(name(), quotas, 0..4),
        prop::collection::btree_set(name(), 0..3),
    )
        .prop_map(|(access, quotas, scram)| View { access, quotas, scram })
}

fn any_claims() -> impl Strategy<Value = Claims> {
    any::<(bool, bool, bool)>().prop_map(|(scram, plain, certificate)| Claims {
        scram,
        plain,
        certificate,
    })
}

fn any_facts() -> impl Strategy<Value = Facts> {
    let authority = prop_oneof![
        Just(Authority::NotRead),
        Just(Authority::Missing("x".to_owned())),
        any::<bool>().prop_map(|can_sign| Authority::Found { print: "p".to_owned(), can_sign }),
    ];
    (any_view(), authority, any::<[bool; 4]>()).prop_map(|(view, authority, flags)| Facts {
        settings: Settings {
            has_access_rules: flags[0],
            takes_certificates: flags[1],
            takes_passwords: flags[2],
            ..Settings::default()
        },
        cluster_id: "id".to_owned(),
        view,
        authority,
        passwords: BTreeMap::new(),
        now: 1_800_000_000,
        window_is_open: flags[3],
    })
}

/// The view after Kafka has done what was planned.
fn after(plan: &Plan, mut view: View) -> View {
    for (name, rule) in &plan.kafka.creates {
        view.access.entry(name.clone()).or_default().rules.insert(rule.clone());
    }
    for (name, rule) in &plan.kafka.deletes {
        assert!(view.access.get_mut(name).unwrap().rules.remove(rule), "it was there");
    }
    for (name, changes) in &plan.kafka.quotas {
        let quotas = view.quotas.entry(name.clone()).or_default();
        for (key, value) in changes {
            match value {
                Some(value) => drop(quotas.insert((*key).to_owned(), *value)),
                None => drop(quotas.remove(*key)),
            }
        }
    }
    if plan.kafka.sets_password {
        view.scram.insert(NAME.to_owned());
    }
    if plan.kafka.deletes_password {
        view.scram.remove(NAME);
    }
    view
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_user_that_strimzi_accepts_panics_or_stays_without_an_answer(
        seed: u64,
        metadata in any_metadata(),
        stored in prop::option::of(any_stored()),
        recorded in any_claims(),
        mut facts in any_facts(),
        password in select(vec!["print", "empty", "none"]),
    ) {
        let mut object = random::object("KafkaUser", seed);
        object["metadata"] = metadata;
        let user: KafkaUser = serde_json::from_value(object).unwrap();
        let resource = read::user(&user, true);
        if let Login::Scram(Some(reference)) = resource.spec.as_ref().map(|it| &it.login).unwrap() {
            let found = match password {
                "print" => PasswordFound::Print("p".to_owned()),
                "empty" => PasswordFound::Empty,
                _ => PasswordFound::NoEntry,
            };
            facts.passwords.insert((NAME.to_owned(), reference.clone()), found);
        }
        let Some(first) = plan(&resource, stored.as_ref(), recorded, &facts) else {
            prop_assert!(resource.is_deleting);
            return Ok(());
        };
        prop_assert!(!resource.is_deleting);
        let report = first.report(&resource, None);
        prop_assert!(!report.conditions.is_empty());
        if first.only.is_some() {
            let is_nothing = first.kafka.is_empty() && first.secret == SecretAct::Nothing;
            prop_assert!(is_nothing && first.claims_before == recorded, "an error changes nothing");
        }
        prop_assert_eq!(first.claims_before, recorded.with(first.claims_before));
        // What belongs to somebody else is not touched.
        let is_ours = |name: &str| name == NAME || name == BY_CERTIFICATE;
        let kafka = &first.kafka;
        let names = kafka.creates.iter().chain(&kafka.deletes).map(|(name, _)| name);
        prop_assert!(names.chain(kafka.quotas.keys()).all(|name| is_ours(name)));
        let owner = stored.as_ref().map_or(Owner::Unowned, |stored| stored.owner.clone());
        let is_foreign = match &owner {
            Owner::Another(_) => true,
            Owner::User(name, _) => name != NAME,
            Owner::Unowned => false,
        };
        prop_assert!(!is_foreign || first.secret == SecretAct::Nothing);
        if !facts.settings.has_access_rules {
            prop_assert!(kafka.creates.is_empty() && kafka.deletes.is_empty());
        }
        // What denies is created first and deleted last.
        prop_assert!(kafka.creates.is_sorted_by_key(|(_, rule)| rule.permission));
        prop_assert!(kafka.deletes.is_sorted_by_key(|(_, rule)| std::cmp::Reverse(rule.permission)));
        // Nothing is left to do about rules and quotas afterwards.
        if first.only.is_none() {
            let facts = Facts { view: after(&first, facts.view.clone()), ..facts.clone() };
            let second = plan(&resource, stored.as_ref(), first.claims_after, &facts).unwrap();
            let left = &second.kafka;
            let is_settled = left.creates.is_empty() && left.deletes.is_empty()
                && left.quotas.is_empty() && !left.deletes_password;
            prop_assert!(is_settled, "{:?}", left);
        }
    }

    #[test]
    fn what_is_forgotten_of_a_user_was_recorded(recorded in any_claims(), facts in any_facts()) {
        let forgotten = of_vanished(NAME, recorded, &facts);
        prop_assert!(forgotten.creates.is_empty() && !forgotten.sets_password);
        let of: BTreeSet<_> =
            forgotten.deletes.iter().map(|(name, _)| name).chain(forgotten.quotas.keys()).collect();
        let is_recorded = |name: &str| match name {
            NAME => recorded.plain,
            BY_CERTIFICATE => recorded.certificate,
            _ => false,
        };
        prop_assert!(of.into_iter().all(|name| is_recorded(name)));
        prop_assert!(recorded.scram || !forgotten.deletes_password);
    }
}
