//! A small world of Secrets and pods, in which keys are replaced while everything restarts and crashes.
//!
//! After every single write and every restart, each pod must trust what each other pod presents.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::*;

const DAY: i64 = 86_400;
const PODS: usize = 3;

/// A pod that runs: what its annotations say, and what it has read.
#[derive(Debug, Clone)]
struct Pod {
    says: PodGenerations,
    trusts: BTreeSet<KeyId>,
    presents: KeyId,
}

#[derive(Debug)]
struct World {
    settings: Settings,
    now: i64,
    keys_made: usize,
    keys: Stored<Keys>,
    certificates: Stored<Certificates>,
    bundle: BTreeSet<KeyId>,
    /// What is stored for each node: who signed it, and of which generation that key was.
    leaves: [Option<(KeyId, u64)>; PODS],
    /// What the next pod of each node will say.
    manifests: [Option<PodGenerations>; PODS],
    pods: [Option<Pod>; PODS],
}

#[derive(Debug, Clone)]
enum Event {
    /// One pass of the operator, which dies after so many writes. A pod may restart amid it.
    Pass {
        dies_after: usize,
        unread: Option<usize>,
        restart: Option<(usize, usize)>,
    },
    /// A new pod, with new annotations.
    Replace(usize),
    /// The same pod, a new process.
    Crash(usize),
    Delete(usize),
    ForceReplace,
    ForceRenew,
    LoseKeys,
    LoseNextKey,
    Days(i64),
}

enum Write {
    Keys(Keys),
    Certificates(Certificates),
    Bundle(BTreeSet<KeyId>),
    Leaf(usize, KeyId, u64),
    Manifest(usize, PodGenerations),
}

impl World {
    fn new(expiry: Expiry) -> Self {
        Self {
            settings: Settings { kind: Kind::Cluster, source: Source::Generated, expiry },
            now: 0,
            keys_made: 0,
            keys: Stored::Absent,
            certificates: Stored::Absent,
            bundle: BTreeSet::new(),
            leaves: Default::default(),
            manifests: Default::default(),
            pods: Default::default(),
        }
    }

    fn facts(&self, unread: Option<usize>) -> Facts {
        let seen = |(index, pod): (usize, &Option<Pod>)| {
            pod.as_ref().map(|pod| (Some(index) != unread).then_some(pod.says))
        };
        let pods: Vec<_> = self.pods.iter().enumerate().filter_map(seen).collect();
        let stored: Vec<_> =
            self.leaves.iter().flatten().map(|(_, generation)| Some(*generation)).collect();
        let users = Users { pods: Some(&pods), stored: Some(&stored) };
        let trusted = match &self.certificates {
            Stored::Present(certificates) if trusted(certificates) == self.bundle => {
                users.all_trust(certificates.generation)
            }
            Stored::Present(_) | Stored::Absent => Some(false),
        };
        let used = match &self.keys {
            Stored::Present(keys) => users.all_use(keys.generation),
            Stored::Absent => None,
        };
        Facts {
            keys: self.keys.clone(),
            certificates: self.certificates.clone(),
            in_use: users.in_use(),
            trusted_by_all: trusted,
            used_by_all: used,
            timing: Timing { now: self.now, renewal_days: 30, window_open: true },
        }
    }

    fn certificate(&self, key: &KeyId) -> Entry<Certificate> {
        let validity = Validity { not_before: self.now, not_after: self.now + 365 * DAY };
        Entry::Read(Certificate { key: key.clone(), validity })
    }

    /// What a pass would write about the authority itself.
    fn apply(&mut self, act: &Act) -> (Option<Keys>, Option<Certificates>) {
        let none = Keys {
            current: Entry::Missing,
            next: Entry::Missing,
            generation: 0,
            force_replace: false,
        };
        let keys = stored(&self.keys).unwrap_or(none);
        let mut certificates = stored(&self.certificates).unwrap_or(Certificates {
            current: Entry::Missing,
            next: Entry::Missing,
            old: Vec::new(),
            generation: 0,
            force_renew: false,
        });
        certificates.generation += 1;
        let mut new_key = || {
            self.keys_made += 1;
            KeyId(format!("key{}", self.keys_made))
        };
        match act {
            Act::Keep | Act::Hold(_) => (None, None),
            Act::Create => {
                let key = new_key();
                certificates.current = self.certificate(&key);
                (Some(Keys { current: Entry::Read(key), ..keys }), Some(certificates))
            }
            Act::Finish | Act::Renew(_) => {
                certificates.current = self.certificate(keys.current.read().unwrap());
                certificates.force_renew = false;
                (None, Some(certificates))
            }
            Act::Stage(_) => {
                let key = new_key();
                certificates.next = self.certificate(&key);
                certificates.force_renew = false;
                (
                    Some(Keys { next: Entry::Read(key), force_replace: false, ..keys }),
                    Some(certificates),
                )
            }
            Act::Publish => {
                certificates.next = self.certificate(keys.next.read().unwrap());
                (None, Some(certificates))
            }
            Act::Promote | Act::FinishPromotion => {
                let former = std::mem::replace(&mut certificates.current, Entry::Missing);
                let name = format!("ca-{}.crt", certificates.generation);
                certificates.old.push((name, former));
                certificates.current = std::mem::replace(&mut certificates.next, Entry::Missing);
                let promoted = (*act == Act::Promote).then(|| Keys {
                    current: keys.next,
                    next: Entry::Missing,
                    generation: keys.generation + 1,
                    force_replace: keys.force_replace,
                });
                (promoted, Some(certificates))
            }
            Act::Abandon => {
                certificates.next = Entry::Missing;
                (None, Some(certificates))
            }
            Act::DropOld(names) => {
                certificates.old.retain(|(name, _)| !names.contains(name));
                (None, Some(certificates))
            }
        }
    }

    /// All writes of a pass, in their order.
    fn plan(&mut self, unread: Option<usize>) -> Vec<Write> {
        let decision = decide(&self.settings, &self.facts(unread));
        let (keys, certificates) = self.apply(&decision.act);
        let mut writes = Vec::new();
        let keys_now = keys.clone().or_else(|| stored(&self.keys));
        let certificates_now = certificates.clone().or_else(|| stored(&self.certificates));
        writes.extend(keys.map(Write::Keys));
        writes.extend(certificates.map(Write::Certificates));
        let Some(certificates) = certificates_now else { return writes };
        writes.push(Write::Bundle(trusted(&certificates)));
        for node in 0..PODS {
            let mut leaf = self.leaves[node].clone();
            if let (Signing::Allowed, Some(keys)) = (&decision.signing, &keys_now) {
                let key = keys.current.read().unwrap().clone();
                if leaf.as_ref().is_none_or(|(signer, _)| *signer != key) {
                    leaf = Some((key.clone(), keys.generation));
                    writes.push(Write::Leaf(node, key, keys.generation));
                }
            }
            if let Some((_, key)) = leaf {
                let says = PodGenerations { certificates: certificates.generation, key };
                writes.push(Write::Manifest(node, says));
            }
        }
        writes
    }

    fn write(&mut self, write: Write) {
        match write {
            Write::Keys(keys) => self.keys = Stored::Present(keys),
            Write::Certificates(certificates) => {
                self.certificates = Stored::Present(certificates);
            }
            Write::Bundle(bundle) => self.bundle = bundle,
            Write::Leaf(node, key, generation) => self.leaves[node] = Some((key, generation)),
            Write::Manifest(node, says) => self.manifests[node] = Some(says),
        }
    }

    fn start(&mut self, node: usize, says: PodGenerations) {
        if let Some((presents, _)) = self.leaves[node].clone() {
            self.pods[node] = Some(Pod { says, trusts: self.bundle.clone(), presents });
        }
    }

    fn replace(&mut self, node: usize) {
        if let Some(says) = self.manifests[node] {
            self.start(node, says);
        }
    }

    fn happens(&mut self, event: &Event) -> Result<(), TestCaseError> {
        match event {
            Event::Pass { dies_after, unread, restart } => {
                for (index, write) in self.plan(*unread).into_iter().enumerate() {
                    if index == *dies_after {
                        break;
                    }
                    self.write(write);
                    self.check()?;
                    if let Some((_, node)) = restart.filter(|(when, _)| *when == index) {
                        self.replace(node);
                        self.check()?;
                    }
                }
            }
            Event::Replace(node) => self.replace(*node),
            Event::Crash(node) => {
                if let Some(pod) = &self.pods[*node] {
                    self.start(*node, pod.says);
                }
            }
            Event::Delete(node) => self.pods[*node] = None,
            Event::ForceReplace => {
                if let Stored::Present(keys) = &mut self.keys {
                    keys.force_replace = true;
                }
            }
            Event::ForceRenew => {
                if let Stored::Present(certificates) = &mut self.certificates {
                    certificates.force_renew = true;
                }
            }
            Event::LoseKeys => {
                if let Stored::Present(keys) = &mut self.keys {
                    keys.current = Entry::Missing;
                }
            }
            Event::LoseNextKey => {
                if let Stored::Present(keys) = &mut self.keys {
                    keys.next = Entry::Missing;
                }
            }
            Event::Days(days) => self.now += days * DAY,
        }
        self.check()
    }

    /// Invariant 1.
    fn check(&self) -> Result<(), TestCaseError> {
        for one in self.pods.iter().flatten() {
            for other in self.pods.iter().flatten() {
                prop_assert!(other.trusts.contains(&one.presents), "{self:#?}");
            }
        }
        Ok(())
    }

    /// Passes and restarts until nothing changes; how a replacement must end.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..12 {
            self.happens(&Event::Pass { dies_after: usize::MAX, unread: None, restart: None })?;
            for node in 0..PODS {
                self.happens(&Event::Replace(node))?;
            }
        }
        Ok(())
    }
}

fn stored<T: Clone>(stored: &Stored<T>) -> Option<T> {
    match stored {
        Stored::Present(value) => Some(value.clone()),
        Stored::Absent => None,
    }
}

fn trusted(certificates: &Certificates) -> BTreeSet<KeyId> {
    let old = certificates.old.iter().map(|(_, entry)| entry);
    let all = [&certificates.current, &certificates.next].into_iter().chain(old);
    all.filter_map(Entry::read).map(|certificate| certificate.key.clone()).collect()
}

fn event() -> impl Strategy<Value = Event> {
    let pass = (
        prop_oneof![2 => Just(usize::MAX), 3 => 0..9_usize],
        prop::option::weighted(0.2, 0..PODS),
        prop::option::weighted(0.3, (0..9_usize, 0..PODS)),
    );
    prop_oneof![
        8 => pass.prop_map(|(dies_after, unread, restart)| {
            Event::Pass { dies_after, unread, restart }
        }),
        6 => (0..PODS).prop_map(Event::Replace),
        2 => (0..PODS).prop_map(Event::Crash),
        1 => (0..PODS).prop_map(Event::Delete),
        1 => Just(Event::ForceReplace),
        1 => Just(Event::ForceRenew),
        1 => Just(Event::LoseKeys),
        1 => Just(Event::LoseNextKey),
        1 => (1..400_i64).prop_map(Event::Days),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_pod_trusts_what_every_other_presents(
        replace in any::<bool>(),
        events in prop::collection::vec(event(), 1..80),
    ) {
        let expiry = if replace { Expiry::ReplaceKey } else { Expiry::RenewCertificate };
        let mut world = World::new(expiry);
        for event in &events {
            world.happens(event)?;
        }
        // Whatever came before, a lost key can be replaced on request, and all ends well.
        world.happens(&Event::ForceRenew)?;
        world.settle()?;
        let facts = world.facts(None);
        let decision = decide(&world.settings, &facts);
        prop_assert_eq!(&decision.act, &Act::Keep, "{:#?}", world);
        prop_assert_eq!(decision.signing, Signing::Allowed);
        prop_assert_eq!(facts.used_by_all, Some(true));
        prop_assert_eq!(decision.stage, Stage::Steady);
    }
}

#[test]
fn a_forced_replacement_goes_through_all_stages() {
    let mut world = World::new(Expiry::RenewCertificate);
    world.settle().unwrap();
    world.happens(&Event::ForceReplace).unwrap();
    let mut stages = BTreeMap::new();
    for round in 0..12 {
        let decision = decide(&world.settings, &world.facts(None));
        stages.insert(round, decision.act);
        let pass = Event::Pass { dies_after: usize::MAX, unread: None, restart: None };
        world.happens(&pass).unwrap();
        if round % 2 == 1 {
            (0..PODS).for_each(|node| world.replace(node));
        }
    }
    let seen: Vec<_> = stages.into_values().filter(|act| *act != Act::Keep).collect();
    assert!(matches!(seen.as_slice(), [Act::Stage(Cause::Forced), Act::Promote, Act::DropOld(_)]));
    assert_eq!(world.keys_made, 2);
}

#[test]
fn a_creation_that_dies_after_each_write_ends_with_one_authority() {
    for dies_after in 0..8 {
        let mut world = World::new(Expiry::RenewCertificate);
        for _ in 0..20 {
            world.happens(&Event::Pass { dies_after, unread: None, restart: None }).unwrap();
        }
        world.settle().unwrap();
        // A pass that dies before its first write has made a key that was never used.
        let made = if dies_after == 0 { 21 } else { 1 };
        assert_eq!(world.keys_made, made, "{dies_after}");
        assert_eq!(decide(&world.settings, &world.facts(None)).act, Act::Keep);
    }
}
