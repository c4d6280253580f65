//! The rows of the decision: what is stored, who knows it, what is done.

use super::*;

const DAY: i64 = 86_400;

pub(super) fn key(name: &str) -> KeyId {
    KeyId(name.to_owned())
}

/// A year, beginning at day 0.
fn certificate(name: &str) -> Entry<Certificate> {
    let validity = Validity { not_before: 0, not_after: 365 * DAY };
    Entry::Read(Certificate { key: key(name), validity })
}

fn keys(current: Entry<KeyId>, next: Entry<KeyId>) -> Stored<Keys> {
    Stored::Present(Keys { current, next, generation: 0, force_replace: false })
}

fn certificates(current: Entry<Certificate>, next: Entry<Certificate>) -> Stored<Certificates> {
    let old = Vec::new();
    Stored::Present(Certificates { current, next, old, generation: 0, force_renew: false })
}

fn one(name: &str) -> Entry<KeyId> {
    Entry::Read(key(name))
}

/// A steady authority `a` of a cluster that runs, ten days old.
fn steady_facts() -> Facts {
    Facts {
        keys: keys(one("a"), Entry::Missing),
        certificates: certificates(certificate("a"), Entry::Missing),
        in_use: Some(true),
        trusted_by_all: Some(true),
        used_by_all: Some(true),
        timing: Timing { now: 10 * DAY, renewal_days: 30, window_open: true },
    }
}

const GENERATED: Settings =
    Settings { kind: Kind::Cluster, source: Source::Generated, expiry: Expiry::RenewCertificate };

fn check(settings: Settings, change: impl FnOnce(&mut Facts), expected: (Act, Stage, Signing)) {
    let mut facts = steady_facts();
    change(&mut facts);
    let decision = decide(&settings, &facts);
    assert_eq!((decision.act, decision.stage, decision.signing), expected, "{facts:#?}");
}

fn held(reason: Reason) -> (Act, Stage, Signing) {
    (Act::Hold(reason), Stage::Steady, Signing::Held(reason))
}

fn done(act: Act, stage: Stage) -> (Act, Stage, Signing) {
    (act, stage, Signing::Allowed)
}

fn present<T>(stored: &mut Stored<T>) -> &mut T {
    match stored {
        Stored::Present(value) => value,
        Stored::Absent => panic!("it is there"),
    }
}

fn add_old(facts: &mut Facts, name: &str, not_after: i64) {
    let validity = Validity { not_before: 0, not_after };
    let old = Entry::Read(Certificate { key: key("before"), validity });
    present(&mut facts.certificates).old.push((name.to_owned(), old));
}

#[test]
fn a_new_authority_is_made_only_where_no_pod_can_know_an_old_one() {
    let with = |in_use| {
        move |facts: &mut Facts| {
            facts.keys = Stored::Absent;
            facts.certificates = Stored::Absent;
            facts.in_use = in_use;
        }
    };
    check(GENERATED, with(Some(false)), done(Act::Create, Stage::Steady));
    check(GENERATED, with(Some(true)), held(Reason::Lost));
    check(GENERATED, with(None), held(Reason::UseUnknown));
}

#[test]
fn a_half_that_is_missing_is_made_to_fit_the_other() {
    let no_certificates = |facts: &mut Facts| facts.certificates = Stored::Absent;
    check(GENERATED, no_certificates, done(Act::Finish, Stage::Steady));
    let no_entry = |facts: &mut Facts| {
        facts.certificates = certificates(Entry::Missing, Entry::Missing);
    };
    check(GENERATED, no_entry, done(Act::Finish, Stage::Steady));
    let damaged = |facts: &mut Facts| {
        facts.certificates = certificates(Entry::Unreadable, Entry::Missing);
    };
    check(GENERATED, damaged, done(Act::Finish, Stage::Steady));
    let mut facts = steady_facts();
    damaged(&mut facts);
    assert_eq!(decide(&GENERATED, &facts).notes, [Note::CertificateRestored]);
}

#[test]
fn what_we_do_not_understand_is_left_alone() {
    let key_damaged = |facts: &mut Facts| facts.keys = keys(Entry::Unreadable, Entry::Missing);
    check(GENERATED, key_damaged, held(Reason::KeyUnreadable));
    let alone = |facts: &mut Facts| {
        facts.keys = keys(Entry::Unreadable, Entry::Missing);
        facts.certificates = Stored::Absent;
        facts.in_use = Some(false);
    };
    check(GENERATED, alone, held(Reason::KeyUnreadable));
    let empty = |facts: &mut Facts| {
        facts.keys = keys(Entry::Missing, Entry::Missing);
        facts.certificates = Stored::Absent;
    };
    check(GENERATED, empty, held(Reason::Lost));
    let only_next = |facts: &mut Facts| {
        facts.keys = keys(Entry::Missing, one("b"));
        facts.certificates = Stored::Absent;
        facts.in_use = Some(false);
    };
    check(GENERATED, only_next, held(Reason::KeyLost));
    let other = |facts: &mut Facts| facts.keys = keys(one("b"), Entry::Missing);
    check(GENERATED, other, held(Reason::Mismatch));
}

#[test]
fn a_lost_key_signs_nothing_until_it_is_put_back_or_replaced() {
    let lost = |facts: &mut Facts| facts.keys = Stored::Absent;
    check(GENERATED, lost, held(Reason::KeyLost));
    let unknown = |facts: &mut Facts| {
        facts.keys = Stored::Absent;
        facts.in_use = None;
    };
    check(GENERATED, unknown, held(Reason::KeyLost));
    let replaced = || {
        let signing = Signing::Held(Reason::KeyLost);
        (Act::Stage(Cause::KeyLost), Stage::Distributing, signing)
    };
    let nobody = |facts: &mut Facts| {
        facts.keys = Stored::Absent;
        facts.in_use = Some(false);
    };
    check(GENERATED, nobody, replaced());
    let due = |facts: &mut Facts| {
        facts.keys = Stored::Absent;
        facts.timing.now = 340 * DAY;
    };
    check(GENERATED, due, replaced());
    let asked = |facts: &mut Facts| {
        facts.keys = Stored::Absent;
        present(&mut facts.certificates).force_renew = true;
    };
    check(GENERATED, asked, replaced());
    let staged = |trusted| {
        move |facts: &mut Facts| {
            facts.keys = keys(Entry::Missing, one("b"));
            facts.certificates = certificates(certificate("a"), certificate("b"));
            facts.trusted_by_all = trusted;
        }
    };
    let waits = (Act::Keep, Stage::Distributing, Signing::Held(Reason::KeyLost));
    check(GENERATED, staged(Some(false)), waits);
    check(GENERATED, staged(Some(true)), done(Act::Promote, Stage::Switching));
}

#[test]
fn a_certificate_is_renewed_with_its_key_or_the_key_is_replaced_as_the_user_asks() {
    let at = |day: i64| move |facts: &mut Facts| facts.timing.now = day * DAY;
    let replace = Settings { expiry: Expiry::ReplaceKey, ..GENERATED };
    check(GENERATED, at(334), done(Act::Keep, Stage::Steady));
    check(GENERATED, at(335), done(Act::Renew(Cause::Expiring), Stage::Steady));
    check(replace, at(335), done(Act::Stage(Cause::Expiring), Stage::Distributing));
    check(GENERATED, at(500), done(Act::Renew(Cause::Expiring), Stage::Steady));
    let closed = |facts: &mut Facts| {
        facts.timing.now = 335 * DAY;
        facts.timing.window_open = false;
    };
    check(GENERATED, closed, done(Act::Keep, Stage::Steady));
    let mut facts = steady_facts();
    closed(&mut facts);
    let waits = Note::WaitsForWindow { not_after: 365 * DAY };
    assert_eq!(decide(&GENERATED, &facts).notes, [waits]);
    let renew = |facts: &mut Facts| present(&mut facts.certificates).force_renew = true;
    check(GENERATED, renew, done(Act::Renew(Cause::Forced), Stage::Steady));
    let force = |facts: &mut Facts| present(&mut facts.keys).force_replace = true;
    check(GENERATED, force, done(Act::Stage(Cause::Forced), Stage::Distributing));
}

#[test]
fn a_next_key_signs_only_when_it_is_trusted_everywhere() {
    let staged = |trusted| {
        move |facts: &mut Facts| {
            facts.keys = keys(one("a"), one("b"));
            facts.certificates = certificates(certificate("a"), certificate("b"));
            facts.trusted_by_all = trusted;
        }
    };
    check(GENERATED, staged(Some(false)), done(Act::Keep, Stage::Distributing));
    check(GENERATED, staged(None), done(Act::Keep, Stage::Distributing));
    check(GENERATED, staged(Some(true)), done(Act::Promote, Stage::Switching));
    let publish = |next| {
        move |facts: &mut Facts| {
            facts.keys = keys(one("a"), one("b"));
            facts.certificates = certificates(certificate("a"), next);
        }
    };
    for next in [Entry::Missing, Entry::Unreadable, certificate("c")] {
        check(GENERATED, publish(next), done(Act::Publish, Stage::Distributing));
    }
    let between = |facts: &mut Facts| {
        facts.keys = keys(one("b"), Entry::Missing);
        facts.certificates = certificates(certificate("a"), certificate("b"));
    };
    check(GENERATED, between, done(Act::FinishPromotion, Stage::Switching));
    let key_gone = |facts: &mut Facts| {
        facts.certificates = certificates(certificate("a"), certificate("b"));
    };
    check(GENERATED, key_gone, done(Act::Abandon, Stage::Steady));
    let damaged = |facts: &mut Facts| facts.keys = keys(one("a"), Entry::Unreadable);
    check(GENERATED, damaged, done(Act::Hold(Reason::KeyUnreadable), Stage::Distributing));
}

#[test]
fn former_certificates_are_trusted_until_nothing_they_signed_is_in_use() {
    let used = |used| {
        move |facts: &mut Facts| {
            add_old(facts, "ca-x.crt", 5 * DAY);
            facts.used_by_all = used;
        }
    };
    let dropped = |names: &[&str]| Act::DropOld(names.iter().map(|n| (*n).to_owned()).collect());
    check(GENERATED, used(None), done(Act::Keep, Stage::Switching));
    check(GENERATED, used(Some(false)), done(Act::Keep, Stage::Switching));
    check(GENERATED, used(Some(true)), done(dropped(&["ca-x.crt"]), Stage::Steady));
    // Nobody can tell what users present, before it has expired.
    let clients = Settings { kind: Kind::Clients, ..GENERATED };
    let two = |facts: &mut Facts| {
        add_old(facts, "ca-x.crt", 5 * DAY);
        add_old(facts, "ca-y.crt", 20 * DAY);
    };
    check(clients, two, done(dropped(&["ca-x.crt"]), Stage::Switching));
    let later = |facts: &mut Facts| add_old(facts, "ca-y.crt", 20 * DAY);
    check(clients, later, done(Act::Keep, Stage::Switching));
}

#[test]
fn a_supplied_authority_is_used_and_never_written() {
    let supplied = Settings { source: Source::Supplied, ..GENERATED };
    check(supplied, |_| {}, done(Act::Keep, Stage::Steady));
    for absent in [true, false] {
        let change = move |facts: &mut Facts| match absent {
            true => facts.keys = Stored::Absent,
            false => facts.certificates = Stored::Absent,
        };
        check(supplied, change, held(Reason::NotSupplied));
    }
    let no_key = |facts: &mut Facts| facts.keys = keys(Entry::Missing, Entry::Missing);
    check(supplied, no_key, held(Reason::NotSupplied));
    let other = |facts: &mut Facts| facts.keys = keys(one("b"), Entry::Missing);
    check(supplied, other, held(Reason::Mismatch));
    let damaged = |facts: &mut Facts| facts.keys = keys(Entry::Unreadable, Entry::Missing);
    check(supplied, damaged, held(Reason::KeyUnreadable));
    let damaged = |facts: &mut Facts| {
        facts.certificates = certificates(Entry::Unreadable, Entry::Missing);
    };
    check(supplied, damaged, held(Reason::CertificateUnreadable));

    let replaced = |trusted, used| {
        move |facts: &mut Facts| {
            facts.trusted_by_all = trusted;
            facts.used_by_all = used;
        }
    };
    let waits = || (Act::Keep, Stage::Distributing, Signing::Held(Reason::NotTrustedYet));
    check(supplied, replaced(Some(false), Some(false)), waits());
    check(supplied, replaced(None, None), waits());
    check(supplied, replaced(Some(true), Some(false)), done(Act::Keep, Stage::Steady));
    check(supplied, replaced(Some(false), Some(true)), done(Act::Keep, Stage::Steady));

    let mut facts = steady_facts();
    facts.timing.now = 340 * DAY;
    present(&mut facts.certificates).force_renew = true;
    let notes = decide(&supplied, &facts).notes;
    assert_eq!(notes, [Note::SuppliedExpires { not_after: 365 * DAY }, Note::NotOurs]);
}

#[test]
fn a_pod_that_was_not_read_neither_trusts_nor_has_switched() {
    let pod = |certificates, key| Some(PodGenerations { certificates, key });
    let rows: [(&[Option<PodGenerations>], Option<bool>); 5] = [
        (&[], Some(true)),
        (&[pod(2, 0), pod(3, 0)], Some(true)),
        (&[pod(2, 0), None], None),
        (&[pod(1, 0), None], Some(false)),
        (&[pod(1, 9), pod(2, 9)], Some(false)),
    ];
    for (pods, expected) in rows {
        let users = Users { pods: Some(pods), stored: Some(&[]) };
        assert_eq!(users.all_trust(2), expected, "{pods:?}");
        assert_eq!(users.in_use(), Some(!pods.is_empty()));
    }
    let unread = Users { pods: None, stored: Some(&[Some(1)]) };
    assert_eq!((unread.all_trust(0), unread.all_use(0), unread.in_use()), (None, None, None));
    assert_eq!(unread.all_use(2), Some(false));
    let pods = [pod(0, 2)];
    let with = |stored| Users { pods: Some(&pods), stored }.all_use(2);
    assert_eq!(with(None), None);
    assert_eq!(with(Some(&[Some(2)])), Some(true));
    assert_eq!(with(Some(&[Some(2), None])), None);
    assert_eq!(with(Some(&[Some(1), None])), Some(false));
}

#[test]
fn a_reason_says_what_to_do() {
    let rows = [
        (Reason::NotSupplied, "create them"),
        (Reason::Lost, "backup"),
        (Reason::KeyLost, "force-renew"),
        (Reason::Mismatch, "do not belong together"),
        (Reason::NotTrustedYet, "before all pods"),
    ];
    for (reason, expected) in rows {
        assert!(reason.to_string().contains(expected), "{reason}");
    }
}
