//! Resources, Secrets and facts for tests.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::annotations::Annotation;

pub(super) const NOW: i64 = 1_800_000_000;
pub(super) const DAY: i64 = 86_400;

/// A resource with nothing but a kind of authentication.
pub(super) fn resource(login: Login) -> Resource {
    let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Resource {
        namespace: "ns".to_owned(),
        name: "u".to_owned(),
        uid: "uid".to_owned(),
        generation: 3,
        observed_generation: Some(2),
        failure: None,
        cluster: Some("c".to_owned()),
        is_deleting: false,
        is_paused: false,
        labels: [label(concat!("strimzi.io/", "cluster"), "c")].into(),
        own_labels: [label(concat!("strimzi.io/", "kind"), "KafkaUser")].into(),
        key: KeyKind::P256,
        spec: Some(Spec { login, ..Spec::default() }),
    }
}

pub(super) fn facts() -> Facts {
    Facts {
        settings: Settings::default(),
        cluster_id: "id".to_owned(),
        view: View::default(),
        authority: Authority::Found { print: "ca".to_owned(), can_sign: true },
        passwords: BTreeMap::new(),
        now: NOW,
        window_is_open: true,
    }
}

/// The Secret that the plan for a resource writes, as it is afterwards.
pub(super) fn written(resource: &Resource, plan: &Plan) -> Stored {
    let SecretAct::Write(secret) = &plan.secret else { panic!("{:?}", plan.secret) };
    let by_password = secret.notes_password;
    let entries: &[&str] = match by_password {
        true => &["password", "sasl.jaas.config"],
        false => &["ca.crt", "user.crt", "user.key", "user.p12", "user.password"],
    };
    let mut annotations = secret.annotations.clone();
    if by_password {
        let mark = Annotation::ScramCredential.name().to_owned();
        annotations.entry(mark).or_insert_with(|| "id print".to_owned());
    }
    Stored {
        cluster: resource.cluster.clone(),
        owner: Owner::User(resource.name.clone(), resource.uid.clone()),
        is_deleting: false,
        is_held: false,
        labels: secret.labels.clone(),
        annotations,
        entries: entries.iter().map(|entry| (*entry).to_owned()).collect(),
        authority: (!by_password).then(|| "ca".to_owned()),
        not_after: (!by_password).then_some(NOW + 365 * DAY),
        password: by_password.then(|| "print".to_owned()),
        login: by_password.then(|| resource.name.clone()),
    }
}

/// A resource that is as it should be, its Secret, and what Kafka has then.
pub(super) fn settled(login: Login) -> (Resource, Option<Stored>, Facts) {
    let (resource, mut facts) = (resource(login), facts());
    let first = plan(&resource, None, Claims::default(), &facts).unwrap();
    if first.kafka.sets_password {
        facts.view.scram.insert(resource.name.clone());
    }
    let stored = match &first.secret {
        SecretAct::Write(_) => Some(written(&resource, &first)),
        SecretAct::Nothing | SecretAct::Delete => None,
    };
    (resource, stored, facts)
}

pub(super) fn rule_spec(permission: Permission, name: Option<&str>) -> RuleSpec {
    RuleSpec {
        permission,
        kind: ResourceKind::Topic,
        name: name.map(str::to_owned),
        pattern: Pattern::Literal,
        host: "*".to_owned(),
        operations: vec![Operation::Read],
    }
}

pub(super) fn rule(permission: Permission, name: &str) -> Rule {
    Rule {
        permission,
        kind: ResourceKind::Topic,
        name: name.to_owned(),
        pattern: Pattern::Literal,
        host: "*".to_owned(),
        operation: Operation::Read,
    }
}

pub(super) fn access(rules: &[Rule]) -> Access {
    Access { rules: rules.iter().cloned().collect::<BTreeSet<_>>(), others: 0 }
}

pub(super) const ALL_CLAIMS: Claims = Claims { scram: true, plain: true, certificate: true };
