//! An authority through its life, Secret by Secret, with every crash between two writes.

use control::certificates::authority::{Cause, PodGenerations, Reason, Stage};
use rcgen::{CertificateParams, DnType, IsCa, PKCS_RSA_SHA512, RsaKeySize};

use super::*;

const DAY: i64 = 86_400;
pub(in crate::pki) const NOW: i64 = 1_800_000_000;
pub(in crate::pki) const CLOCK: Clock = Clock { now: NOW, window_open: true };

pub(in crate::pki) const SPEC: Spec = Spec {
    kind: Kind::Cluster,
    source: Source::Generated,
    expiry: Expiry::RenewCertificate,
    validity_days: 365,
    renewal_days: 30,
};

/// What is stored in a cluster, and its pods.
#[derive(Debug, Default, Clone)]
pub(in crate::pki) struct Store {
    pub(in crate::pki) keys: Option<SecretContent>,
    pub(in crate::pki) certificates: Option<SecretContent>,
    bundle: Option<String>,
    pods: Vec<Option<PodGenerations>>,
}

impl Store {
    pub(in crate::pki) fn next(&self, spec: &Spec, now: i64) -> Outcome {
        let observed = Observed {
            keys: self.keys.as_ref(),
            certificates: self.certificates.as_ref(),
            published: self.bundle.as_ref().map(String::as_bytes),
        };
        let users = Users { pods: Some(&self.pods), stored: Some(&[]) };
        next(&observed, spec, &users, &Clock { now, ..CLOCK }).unwrap()
    }

    /// One pass that dies after so many writes.
    pub(in crate::pki) fn pass(&mut self, spec: &Spec, now: i64, writes: usize) -> Outcome {
        let outcome = self.next(spec, now);
        let mut left = writes;
        let mut may = |wanted: bool| {
            let may = wanted && left > 0;
            left -= usize::from(may);
            may
        };
        if may(outcome.key_secret.is_some()) {
            self.keys.clone_from(&outcome.key_secret);
        } else if outcome.key_secret.is_some() {
            return outcome;
        }
        if may(outcome.cert_secret.is_some()) {
            self.certificates.clone_from(&outcome.cert_secret);
        } else if outcome.cert_secret.is_some() {
            return outcome;
        }
        if outcome.trust_bundle.is_some() && may(outcome.trust_bundle != self.bundle) {
            self.bundle.clone_from(&outcome.trust_bundle);
        }
        outcome
    }

    pub(in crate::pki) fn restart_pods(&mut self) {
        let certificates = self.certificates.as_ref().unwrap();
        let pod = PodGenerations {
            certificates: certificates.number(names::CERT_GENERATION).unwrap(),
            key: self.keys.as_ref().unwrap().number(names::KEY_GENERATION).unwrap(),
        };
        self.pods = vec![Some(pod); 3];
    }

    fn entries(&self) -> Vec<&str> {
        let all = [&self.keys, &self.certificates].into_iter().flatten();
        all.flat_map(|content| content.data.keys().map(String::as_str)).collect()
    }

    fn key(&self) -> Vec<u8> {
        self.keys.as_ref().unwrap().data[names::CA_KEY].clone()
    }

    fn certificate(&self) -> Certificate {
        Certificate::first(&self.certificates.as_ref().unwrap().data[names::CA_CRT]).unwrap()
    }
}

pub(in crate::pki) fn new_store() -> Store {
    let mut store = Store::default();
    store.pass(&SPEC, NOW, usize::MAX);
    store
}

#[test]
fn a_new_authority_says_what_strimzi_s_says() {
    let store = new_store();
    assert_eq!(store.entries(), ["ca.key", "ca.crt", "ca.p12", "ca.password"]);
    let certificate = store.certificate();
    assert_eq!(certificate.subject.common_name, "cluster-ca v0");
    assert_eq!(certificate.subject.organization.as_deref(), Some("io.strimzi"));
    assert!(certificate.is_signed_by(&certificate));
    assert_eq!(certificate.validity.not_after, NOW + 365 * DAY);
    assert_eq!(certificate.validity.not_before, NOW - 3600);
    let x509 = certificate::parse(&certificate.der).unwrap();
    assert!(x509.is_ca());
    let usage = x509.key_usage().unwrap().unwrap();
    assert!(usage.critical && usage.value.key_cert_sign() && usage.value.crl_sign());
    assert!(x509.subject().to_string().contains("O=io.strimzi, CN=cluster-ca v0"));
    let keys = store.keys.as_ref().unwrap();
    assert_eq!(keys.annotations[names::KEY_GENERATION], "0");
    let certificates = store.certificates.as_ref().unwrap();
    assert_eq!(certificates.annotations[names::CERT_GENERATION], "0");
    assert_eq!(store.bundle.as_deref().unwrap().as_bytes(), &certificates.data[names::CA_CRT]);
    let clients = Store::default().next(&Spec { kind: Kind::Clients, ..SPEC }, NOW);
    let content = clients.cert_secret.unwrap();
    let certificate = Certificate::first(&content.data[names::CA_CRT]).unwrap();
    assert_eq!(certificate.subject.common_name, "clients-ca v0");
}

#[test]
fn nothing_is_written_when_nothing_changed() {
    let store = new_store();
    for now in [NOW, NOW + 300 * DAY, NOW - 5 * DAY] {
        let outcome = store.next(&SPEC, now);
        assert_eq!(outcome.decision.act, Act::Keep);
        assert!(outcome.key_secret.is_none() && outcome.cert_secret.is_none());
        assert_eq!(outcome.trust_bundle, store.bundle);
        assert!(outcome.signer.is_some() && outcome.warnings.is_empty());
    }
}

#[test]
fn a_creation_that_dies_after_any_write_is_finished_with_the_same_key() {
    for writes in 1..3 {
        let mut store = Store::default();
        store.pass(&SPEC, NOW, writes);
        let key = store.key();
        for _ in 0..3 {
            store.pass(&SPEC, NOW, 1);
        }
        assert_eq!(store.key(), key);
        assert_eq!(store.next(&SPEC, NOW).decision.act, Act::Keep);
        assert_eq!(store.certificate().subject.common_name, "cluster-ca v0");
        assert!(store.bundle.is_some());
    }
}

#[test]
fn a_renewed_certificate_has_the_key_and_the_subject_of_the_former_one() {
    let mut store = new_store();
    store.restart_pods();
    let (key, former) = (store.key(), store.certificate());
    let later = NOW + 340 * DAY;
    let outcome = store.pass(&SPEC, later, usize::MAX);
    assert_eq!(outcome.decision.act, Act::Renew(Cause::Expiring));
    assert_eq!(outcome.cert_generation, 1);
    let renewed = store.certificate();
    assert_eq!(store.key(), key);
    assert_ne!(renewed.der, former.der);
    assert_eq!((&renewed.key, &renewed.raw_subject), (&former.key, &former.raw_subject));
    assert_eq!(renewed.validity.not_after, later + 365 * DAY);
    assert!(former.is_signed_by(&renewed) && renewed.is_signed_by(&former));
    assert_eq!(store.next(&SPEC, later).decision.act, Act::Keep);
    assert_eq!(store.entries(), ["ca.key", "ca.crt", "ca.p12", "ca.password"]);
}

#[test]
fn what_a_user_asks_for_is_done_once() {
    let mut store = new_store();
    store.restart_pods();
    store.certificates.as_mut().unwrap().annotate(names::FORCE_RENEW, "true");
    store.certificates.as_mut().unwrap().annotate("theirs", "kept");
    assert_eq!(store.pass(&SPEC, NOW, 9).decision.act, Act::Renew(Cause::Forced));
    assert_eq!(store.pass(&SPEC, NOW, 9).decision.act, Act::Keep);
    assert_eq!(store.certificates.as_ref().unwrap().annotations["theirs"], "kept");
    store.keys.as_mut().unwrap().annotate(names::FORCE_REPLACE, "true");
    assert_eq!(store.pass(&SPEC, NOW, 9).decision.act, Act::Stage(Cause::Forced));
    assert_eq!(store.pass(&SPEC, NOW, 9).decision.act, Act::Keep);
}

/// Replaces the key, where every pass dies after so many writes.
fn replaced(writes: usize) {
    let mut store = new_store();
    store.restart_pods();
    store.keys.as_mut().unwrap().annotate(names::FORCE_REPLACE, "true");
    let (key, former) = (store.key(), store.certificate());
    let settle = |store: &mut Store| {
        let mut last = store.pass(&SPEC, NOW, writes);
        for _ in 0..4 {
            last = store.pass(&SPEC, NOW, writes);
        }
        last
    };
    let outcome = settle(&mut store);
    assert_eq!(outcome.decision.stage, Stage::Distributing);
    assert_eq!(store.key(), key);
    assert_eq!(outcome.signer.unwrap().key_generation(), 0);
    let bundle = Certificate::all(store.bundle.as_ref().unwrap().as_bytes()).unwrap();
    assert_eq!(bundle.len(), 2);
    assert_eq!((&bundle[0], bundle[1].subject.common_name.as_str()), (&former, "cluster-ca v1"));

    store.restart_pods();
    let outcome = settle(&mut store);
    assert_eq!(outcome.decision.stage, Stage::Switching);
    assert_ne!(store.key(), key);
    assert_eq!(outcome.signer.unwrap().key_generation(), 1);
    assert_eq!(store.certificate().subject.common_name, "cluster-ca v1");
    let name = "ca-2028-01-15T08-00-00Z.crt";
    let old = Certificate::first(&store.certificates.as_ref().unwrap().data[name]).unwrap();
    assert_eq!(old, former);
    let still = Certificate::all(store.bundle.as_ref().unwrap().as_bytes()).unwrap();
    assert_eq!(still.len(), 2);

    store.restart_pods();
    assert_eq!(settle(&mut store).decision.stage, Stage::Steady);
    assert_eq!(store.entries(), ["ca.key", "ca.crt", "ca.p12", "ca.password"]);
    let bundle = Certificate::all(store.bundle.as_ref().unwrap().as_bytes()).unwrap();
    assert_eq!(bundle, [store.certificate()]);
    assert_eq!(store.next(&SPEC, NOW).decision.act, Act::Keep);
}

#[test]
fn a_key_is_replaced_in_stages_whenever_the_operator_dies() {
    for writes in [usize::MAX, 2, 1] {
        replaced(writes);
    }
}

#[test]
fn a_bundle_that_is_not_written_yet_is_not_trusted() {
    let mut store = new_store();
    store.keys.as_mut().unwrap().annotate(names::FORCE_REPLACE, "true");
    // No pods: all of them trust everything, but one that starts now reads the bundle.
    store.pass(&SPEC, NOW, 2);
    assert_eq!(store.next(&SPEC, NOW).decision.act, Act::Keep);
    store.pass(&SPEC, NOW, 9);
    assert_eq!(store.next(&SPEC, NOW).decision.act, Act::Promote);
}

#[test]
fn a_lost_secret_holds_or_is_made_to_fit_and_its_generation_goes_on() {
    let mut store = new_store();
    store.restart_pods();
    let lost = Store { keys: None, certificates: None, ..store.clone() };
    let outcome = lost.next(&SPEC, NOW);
    assert_eq!(outcome.decision.act, Act::Hold(Reason::Lost));
    assert!(outcome.trust_bundle.is_none() && outcome.signer.is_none());
    assert!(outcome.warnings[0].contains("backup"));

    let lost = Store { keys: None, ..store.clone() };
    let outcome = lost.next(&SPEC, NOW);
    assert_eq!(outcome.decision.act, Act::Hold(Reason::KeyLost));
    assert_eq!(outcome.trust_bundle, store.bundle);

    let mut lost = Store { certificates: None, ..store.clone() };
    let outcome = lost.pass(&SPEC, NOW, 9);
    assert_eq!(outcome.decision.act, Act::Finish);
    assert_eq!(outcome.cert_generation, u64::try_from(NOW / 60).unwrap());
    assert_eq!(lost.certificate().raw_subject, store.certificate().raw_subject);
    assert_eq!(lost.key(), store.key());
}

#[test]
fn the_generation_of_a_lost_key_is_known_from_elsewhere() {
    let mut store = new_store();
    store.restart_pods();
    store.keys = None;
    let content = store.certificates.as_mut().unwrap();
    content.annotate(names::FORCE_RENEW, "true");
    content.annotate(names::KEY_GENERATION, 7);
    let outcome = store.next(&SPEC, NOW);
    assert_eq!(outcome.decision.act, Act::Stage(Cause::KeyLost));
    let next = &outcome.cert_secret.unwrap().data[names::NEXT_CRT];
    assert_eq!(Certificate::first(next).unwrap().subject.common_name, "cluster-ca v8");
    store.certificates.as_mut().unwrap().annotations.remove(names::KEY_GENERATION);
    let outcome = store.next(&SPEC, NOW);
    assert_eq!(outcome.key_generation, 0);
    assert!(outcome.cert_secret.unwrap().annotations[names::KEY_GENERATION] == "0");
}

/// As Strimzi makes one: RSA, with OpenSSL's way of writing things.
fn foreign(name: &[(DnType, &str)]) -> Store {
    let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA512, RsaKeySize::_2048).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    for (kind, value) in name {
        params.distinguished_name.push(kind.clone(), *value);
    }
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
    params.not_before = OffsetDateTime::from_unix_timestamp(NOW).unwrap();
    params.not_after = OffsetDateTime::from_unix_timestamp(NOW + 365 * DAY).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let mut store = Store::default();
    let mut keys = SecretContent::default();
    keys.put(names::CA_KEY, key.serialize_pem());
    keys.annotate(names::KEY_GENERATION, 0);
    let mut certificates = SecretContent::default();
    certificates.put(names::CA_CRT, certificate.pem());
    certificates.annotate(names::CERT_GENERATION, 3);
    store.bundle = Some(certificate.pem());
    (store.keys, store.certificates) = (Some(keys), Some(certificates));
    store
}

#[test]
fn an_authority_with_an_rsa_key_is_used_and_renewed_as_it_is() {
    let strimzi = [(DnType::OrganizationName, "io.strimzi"), (DnType::CommonName, "cluster-ca v0")];
    let mut store = foreign(&strimzi);
    store.restart_pods();
    let outcome = store.next(&SPEC, NOW);
    assert_eq!(outcome.decision.act, Act::Keep);
    assert!(outcome.signer.is_some());
    let former = store.certificate();
    let outcome = store.pass(&SPEC, NOW + 350 * DAY, 9);
    assert_eq!(outcome.decision.act, Act::Renew(Cause::Expiring));
    assert_eq!(outcome.cert_generation, 4);
    let renewed = store.certificate();
    assert_eq!((&renewed.key, &renewed.raw_subject), (&former.key, &former.raw_subject));
    assert!(former.is_signed_by(&renewed));
}

#[test]
fn what_openssl_made_for_strimzi_is_read_renewed_and_signs() {
    let mut store = Store::default();
    let (mut keys, mut certificates) = (SecretContent::default(), SecretContent::default());
    keys.put(names::CA_KEY, include_bytes!("testdata/strimzi-ca.key"));
    certificates.put(names::CA_CRT, include_bytes!("testdata/strimzi-ca.crt"));
    certificates.annotate(names::FORCE_RENEW, "true");
    (store.keys, store.certificates) = (Some(keys), Some(certificates));
    store.pods = vec![Some(PodGenerations { certificates: 0, key: 0 })];
    let former = store.certificate();
    let outcome = store.pass(&SPEC, NOW, 9);
    assert_eq!(outcome.decision.act, Act::Renew(Cause::Forced));
    let renewed = store.certificate();
    assert_eq!((&renewed.key, &renewed.raw_subject), (&former.key, &former.raw_subject));
    assert!(former.is_signed_by(&renewed) && renewed.is_signed_by(&former));
    // The way in which we would name the key ourselves is OpenSSL's.
    let lost = Store { certificates: None, ..store.clone() };
    let remade = lost.next(&SPEC, NOW).cert_secret.unwrap();
    let remade = Certificate::first(&remade.data[names::CA_CRT]).unwrap();
    assert_eq!(remade.raw_subject, former.raw_subject);
    assert_eq!(key_name(&remade), key_name(&former));
    let user = {
        let order = super::super::user::Order { user: "u", days: 1, now: NOW, is_rsa: false };
        super::super::user::issue(&outcome.signer.unwrap(), &order).unwrap()
    };
    let user = Certificate::first(&user.data["user.crt"]).unwrap();
    assert!(user.is_signed_by(&former) && user.is_signed_by(&remade));
}

fn key_name(certificate: &Certificate) -> Vec<u8> {
    use x509_parser::extensions::ParsedExtension;
    let x509 = certificate::parse(&certificate.der).unwrap();
    let mut names = x509.iter_extensions().filter_map(|one| match one.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
        _ => None,
    });
    names.next().unwrap()
}

#[test]
fn a_supplied_authority_is_never_written_and_its_absence_is_said() {
    let supplied = Spec { source: Source::Supplied, ..SPEC };
    let outcome = Store::default().next(&supplied, NOW);
    assert_eq!(outcome.decision.act, Act::Hold(Reason::NotSupplied));
    assert!(outcome.warnings[0].contains("create them"), "{:?}", outcome.warnings);
    let store = foreign(&[(DnType::CommonName, "Example")]);
    let outcome = store.next(&supplied, NOW + 350 * DAY);
    assert!(outcome.key_secret.is_none() && outcome.cert_secret.is_none());
    assert!(outcome.signer.is_some());
    assert!(outcome.warnings[0].contains("expires soon"), "{:?}", outcome.warnings);
}

#[test]
fn no_key_is_shown() {
    let outcome = Store::default().next(&SPEC, NOW);
    let shown = format!("{outcome:?}");
    assert!(!shown.contains("PRIVATE") && !shown.contains("serialized"), "{shown}");
}
