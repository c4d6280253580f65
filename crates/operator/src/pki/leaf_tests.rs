//! Certificates of nodes and of the operator, and users' ones.

use std::collections::BTreeSet;

use control::certificates::authority::Kind;
use control::certificates::leaf::Cause;

use super::super::authority::tests::{CLOCK, NOW, SPEC, new_store};
use super::super::user;
use super::*;

const DAY: i64 = 86_400;

fn node(names: &[&str]) -> Wanted {
    let dns = names.iter().map(|name| (*name).to_owned()).collect();
    let addresses = BTreeSet::from(["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()]);
    Wanted::node("c", "c-p-0", Names { dns, addresses }, &SPEC)
}

fn issued(causes: &[Cause]) -> Decision {
    Decision::Issue(causes.iter().copied().collect())
}

#[test]
fn a_node_gets_a_certificate_for_its_names_and_keeps_it() {
    let authority = new_store().next(&SPEC, NOW);
    let wanted = node(&["c-kafka-bootstrap", "c-kafka-bootstrap.ns.svc"]);
    let first = next(None, &wanted, &authority, &CLOCK).unwrap();
    assert_eq!(first.decision, issued(&[Cause::Missing]));
    assert_eq!(first.key_generation, Some(0));
    let secret = first.secret.unwrap();
    assert_eq!(secret.data.keys().collect::<Vec<_>>(), ["c-p-0.crt", "c-p-0.key"]);
    assert!(secret.data["c-p-0.key"].starts_with(b"-----BEGIN PRIVATE KEY-----"));
    let chain = Certificate::all(&secret.data["c-p-0.crt"]).unwrap();
    assert_eq!(chain.len(), 2);
    assert!(chain[0].is_signed_by(&chain[1]));
    let names = ["127.0.0.1", "::1", "c-kafka-bootstrap", "c-kafka-bootstrap.ns.svc"];
    assert_eq!(chain[0].names, names.map(str::to_owned).into());
    let x509 = certificate::parse(&chain[0].der).unwrap();
    assert!(!x509.is_ca());
    assert_eq!(x509.subject().to_string(), "O=io.strimzi, CN=c-kafka");
    let usage = x509.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.server_auth && usage.client_auth);

    let kept = next(Some(&secret), &wanted, &authority, &CLOCK).unwrap();
    assert_eq!(kept.decision, Decision::Keep);
    assert!(kept.secret.is_none());
    assert_eq!((kept.thumbprint, kept.key_generation), (first.thumbprint, Some(0)));
}

#[test]
fn a_certificate_is_issued_again_when_it_no_longer_fits() {
    let mut store = new_store();
    let authority = store.next(&SPEC, NOW);
    let wanted = node(&["a"]);
    let secret = next(None, &wanted, &authority, &CLOCK).unwrap().secret.unwrap();
    let decided = |secret: &SecretContent, wanted: &Wanted, authority, now| {
        next(Some(secret), wanted, authority, &Clock { now, ..CLOCK }).unwrap().decision
    };
    assert_eq!(decided(&secret, &node(&["a", "b"]), &authority, NOW), issued(&[Cause::Names]));
    let operator = Wanted { entry: "c-p-0".to_owned(), ..Wanted::operator(&SPEC) };
    let both = issued(&[Cause::Subject, Cause::Names]);
    assert_eq!(decided(&secret, &operator, &authority, NOW), both);
    let soon = NOW + 336 * DAY;
    assert_eq!(decided(&secret, &wanted, &authority, soon), issued(&[Cause::Expiring]));
    let mut damaged = secret.clone();
    damaged.put("c-p-0.key", "no key");
    assert_eq!(decided(&damaged, &wanted, &authority, NOW), issued(&[Cause::Unreadable]));
    damaged.put("c-p-0.key", store.keys.as_ref().unwrap().data["ca.key"].clone());
    assert_eq!(decided(&damaged, &wanted, &authority, NOW), issued(&[Cause::OtherKey]));
    damaged.data.remove("c-p-0.key");
    assert_eq!(decided(&damaged, &wanted, &authority, NOW), issued(&[Cause::Missing]));

    let other = new_store().next(&SPEC, NOW);
    let replaced = issued(&[Cause::AuthorityReplaced, Cause::AuthorityRenewed]);
    assert_eq!(decided(&secret, &wanted, &other, NOW), replaced);
    store.certificates.as_mut().unwrap().annotate(names::FORCE_RENEW, "true");
    let renewed = store.pass(&SPEC, NOW, 9);
    assert_eq!(decided(&secret, &wanted, &renewed, NOW), issued(&[Cause::AuthorityRenewed]));
}

#[test]
fn a_good_certificate_of_another_operator_is_marked_and_kept() {
    let authority = new_store().next(&SPEC, NOW);
    let mut secret = next(None, &node(&[]), &authority, &CLOCK).unwrap().secret.unwrap();
    secret.annotations.clear();
    let outcome = next(Some(&secret), &node(&[]), &authority, &CLOCK).unwrap();
    assert_eq!((outcome.decision, outcome.key_generation), (Decision::Keep, Some(0)));
    let marked = outcome.secret.unwrap();
    assert_eq!(marked.data, secret.data);
    assert!(next(Some(&marked), &node(&[]), &authority, &CLOCK).unwrap().secret.is_none());
}

#[test]
fn entries_of_others_are_kept() {
    let authority = new_store().next(&SPEC, NOW);
    let mut content = SecretContent::default();
    content.put("tls-9093.crt", "theirs");
    let outcome = next(Some(&content), &node(&[]), &authority, &CLOCK).unwrap();
    assert_eq!(outcome.secret.unwrap().data["tls-9093.crt"], b"theirs");
}

#[test]
fn nothing_is_issued_while_the_authority_must_not_sign() {
    let mut store = new_store();
    store.keys = None;
    let mut spec = SPEC;
    spec.source = control::certificates::authority::Source::Supplied;
    let authority = store.next(&spec, NOW);
    let outcome = next(None, &node(&[]), &authority, &CLOCK).unwrap();
    assert!(matches!(outcome.decision, Decision::Hold { .. }), "{:?}", outcome.decision);
    assert!(outcome.secret.is_none());
    assert!(outcome.warning.unwrap().contains("c-p-0"));
}

#[test]
fn a_supplied_key_that_was_replaced_in_silence_signs_nothing() {
    let mut spec = SPEC;
    spec.source = control::certificates::authority::Source::Supplied;
    let (mut before, mut after) = (new_store(), new_store());
    before.restart_pods();
    after.restart_pods();
    let authority = before.next(&spec, NOW);
    let secret = next(None, &node(&[]), &authority, &CLOCK).unwrap().secret.unwrap();
    assert_eq!(
        next(Some(&secret), &node(&[]), &authority, &CLOCK).unwrap().decision,
        Decision::Keep
    );
    let outcome = next(Some(&secret), &node(&[]), &after.next(&spec, NOW), &CLOCK).unwrap();
    assert!(matches!(outcome.decision, Decision::Hold { .. }), "{:?}", outcome.decision);
    assert!(outcome.warning.unwrap().contains("raise strimzi.io/ca-key-generation"));
    // With its generation raised it signs, once it is trusted.
    after.keys.as_mut().unwrap().annotate(names::KEY_GENERATION, 1);
    let announced = after.next(&spec, NOW);
    let outcome = next(Some(&secret), &node(&[]), &announced, &CLOCK).unwrap();
    assert!(matches!(outcome.decision, Decision::Issue(_)), "{:?}", outcome.decision);
}

#[test]
fn serial_numbers_are_positive_and_differ() {
    let authority = new_store().next(&SPEC, NOW);
    let serial = || {
        let secret = next(None, &node(&[]), &authority, &CLOCK).unwrap().secret.unwrap();
        let own = Certificate::first(&secret.data["c-p-0.crt"]).unwrap();
        certificate::parse(&own.der).unwrap().raw_serial().to_vec()
    };
    let (one, two) = (serial(), serial());
    assert_ne!(one, two);
    assert!(one.len() == 16 && one[0] < 0x80 && two[0] < 0x80);
}

#[test]
fn a_user_is_known_by_the_common_name_alone() {
    let store = new_store();
    let (keys, certificates) = (store.keys.unwrap(), store.certificates.unwrap());
    let signer = Signer::load(Kind::Clients, &keys, &certificates).unwrap();
    let content =
        user::issue(&signer, &user::Order { user: "alice", days: 90, now: NOW, is_rsa: false })
            .unwrap();
    let entries = ["ca.crt", "user.crt", "user.key", "user.p12", "user.password"];
    assert_eq!(content.data.keys().collect::<Vec<_>>(), entries, "U5.1 to U5.5");
    assert_eq!(Certificate::all(&content.data["user.crt"]).unwrap().len(), 1, "U5.2");
    assert!(content.data["user.key"].starts_with(b"-----BEGIN PRIVATE KEY-----"), "U5.3");
    let own = Certificate::first(&content.data["user.crt"]).unwrap();
    let x509 = certificate::parse(&own.der).unwrap();
    assert_eq!(x509.subject().to_string(), "CN=alice", "U7.11");
    let usage = x509.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.client_auth && !usage.server_auth);
    assert_eq!(user::not_after(&content.data["user.crt"]), Some(NOW + 90 * DAY));
    assert!(own.is_signed_by(&Certificate::first(&content.data["ca.crt"]).unwrap()));
    let other = new_store().keys.unwrap();
    assert!(Signer::load(Kind::Clients, &other, &certificates).is_none());
}

#[test]
fn a_user_may_have_an_rsa_key_and_its_key_store_can_be_made_again() {
    let store = new_store();
    let (keys, certificates) = (store.keys.unwrap(), store.certificates.unwrap());
    let signer = Signer::load(Kind::Clients, &keys, &certificates).unwrap();
    let order = user::Order { user: "alice", days: 90, now: NOW, is_rsa: true };
    let content = user::issue(&signer, &order).unwrap();
    let own = Certificate::first(&content.data["user.crt"]).unwrap();
    let x509 = certificate::parse(&own.der).unwrap();
    assert_eq!(x509.public_key().parsed().unwrap().key_size(), 2048);
    assert!(own.is_signed_by(&Certificate::first(&content.data["ca.crt"]).unwrap()));
    let again = user::key_store("alice", &content.data).unwrap().unwrap();
    assert_eq!(again.data.keys().collect::<Vec<_>>(), ["user.p12", "user.password"], "U5.13");
    assert_ne!(again.data["user.password"], content.data["user.password"]);
    let mut damaged = content.data;
    damaged.insert("user.key".to_owned(), b"no key".to_vec());
    assert!(user::key_store("alice", &damaged).unwrap().is_none());
}
