//! The rules by scenarios, and under generated delays, losses, pauses and crashes.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn candidate(name: &str) -> Candidate {
    Candidate::new(name, Timing::default())
}

fn held(version: &str, holder: &str) -> Option<Found> {
    Some(Found {
        version: version.to_owned(),
        holder: Some(holder.to_owned()),
        duration: seconds(15),
        transitions: 3,
    })
}

fn replace(version: &str, transitions: i32) -> Move {
    Move::Replace { version: version.to_owned(), transitions }
}

#[test]
fn the_first_one_creates_it_and_renews_without_reading() {
    let mut a = candidate("a");
    assert_eq!(a.next(seconds(0)), Move::Read);
    assert_eq!(a.consider(seconds(0), None), Move::Create);
    assert!(!a.leads());
    a.wrote(seconds(0), "1".to_owned(), 0);
    assert_eq!(a.next(seconds(2)), replace("1", 0));
    a.wrote(seconds(2), "2".to_owned(), 0);
    assert_eq!(a.next(seconds(4)), replace("2", 0));
}

#[test]
fn one_of_somebody_else_is_taken_after_it_was_unchanged_for_its_whole_time() {
    let mut b = candidate("b");
    assert_eq!(b.consider(seconds(0), held("1", "a")), Move::Wait);
    assert_eq!(b.consider(seconds(14), held("1", "a")), Move::Wait);
    // It was renewed: the time begins again.
    assert_eq!(b.consider(seconds(16), held("2", "a")), Move::Wait);
    assert_eq!(b.consider(seconds(30), held("2", "a")), Move::Wait);
    assert_eq!(b.consider(seconds(31), held("2", "a")), replace("2", 4));
}

#[test]
fn a_released_one_and_the_own_one_are_taken_at_once() {
    let mut b = candidate("b");
    let released = held("7", "a").map(|found| Found { holder: None, ..found });
    assert_eq!(b.consider(seconds(0), released), replace("7", 4));
    // The process before this one in the same pod; it did not change hands.
    assert_eq!(b.consider(seconds(0), held("7", "b")), replace("7", 3));
}

#[test]
fn a_holder_with_more_time_has_more_time() {
    let mut b = candidate("b");
    let long = held("1", "a").map(|found| Found { duration: seconds(60), ..found });
    assert_eq!(b.consider(seconds(0), long.clone()), Move::Wait);
    assert_eq!(b.consider(seconds(59), long.clone()), Move::Wait);
    assert_eq!(b.consider(seconds(60), long), replace("1", 4));
}

#[test]
fn one_that_was_deleted_under_its_holder_is_not_made_again_at_once() {
    let mut b = candidate("b");
    assert_eq!(b.consider(seconds(0), held("1", "a")), Move::Wait);
    assert_eq!(b.consider(seconds(2), None), Move::Wait);
    assert_eq!(b.consider(seconds(15), None), Move::Create);
}

#[test]
fn a_leader_in_doubt_reads_before_it_writes_again() {
    let mut a = candidate("a");
    a.wrote(seconds(0), "1".to_owned(), 0);
    a.failed();
    assert_eq!(a.next(seconds(2)), Move::Read);
    // It was written after all; the version is another, the holder the same.
    assert_eq!(a.consider(seconds(2), held("2", "a")), replace("2", 0));
    a.failed();
    assert_eq!(a.consider(seconds(4), held("3", "b")), Move::Resign);
}

#[test]
fn a_leader_that_cannot_renew_gives_up_before_its_time_is_over() {
    let mut a = candidate("a");
    a.wrote(seconds(0), "1".to_owned(), 0);
    a.failed();
    assert_eq!(a.next(seconds(9)), Move::Read);
    assert_eq!(a.next(seconds(10)), Move::Resign);
    assert_eq!(a.consider(seconds(10), held("1", "a")), Move::Resign);
}

/// What the API server does.
#[derive(Debug, Default)]
struct Store {
    lease: Option<Found>,
    version: u64,
}

impl Store {
    /// The new version, if the write was not refused.
    fn write(&mut self, expected: Option<&str>, holder: &str, transitions: i32) -> Option<String> {
        if self.lease.as_ref().map(|lease| lease.version.as_str()) != expected {
            return None;
        }
        self.version += 1;
        let version = self.version.to_string();
        self.lease = Some(Found {
            version: version.clone(),
            holder: Some(holder.to_owned()),
            duration: Timing::default().lease,
            transitions,
        });
        Some(version)
    }
}

/// What a process waits for, until a time.
#[derive(Debug, Clone)]
enum Doing {
    Pausing {
        until: u64,
    },
    /// A request is on its way to the server.
    Sending {
        request: Move,
        sent: u64,
        arrives: u64,
    },
    /// The answer is on its way back; `None` if it was lost and the call will run out.
    Waiting {
        request: Move,
        sent: u64,
        answer: Option<Answer>,
        arrives: u64,
    },
    Gone {
        until: u64,
    },
}

#[derive(Debug, Clone)]
enum Answer {
    Read(Option<Found>),
    Written(Option<String>),
}

struct Process {
    candidate: Candidate,
    doing: Doing,
    /// The end of its term, as the fence has it.
    fence: u64,
    chance: VecDeque<u8>,
}

/// Tenths of a second.
fn tenths(time: u64) -> Duration {
    Duration::from_millis(time * 100)
}

impl Process {
    fn draw(&mut self) -> u64 {
        let drawn = self.chance.pop_front().unwrap_or(1);
        self.chance.push_back(drawn);
        u64::from(drawn)
    }

    /// How long something takes: mostly little, sometimes seconds, now and then half a minute.
    fn delay(&mut self) -> u64 {
        match self.draw() {
            drawn @ 0..=199 => drawn % 4,
            drawn @ 200..=239 => drawn % 40,
            drawn => (drawn - 239) * 20,
        }
    }

    fn send(&mut self, now: u64, request: Move) {
        let arrives = now + self.delay();
        self.doing = match request {
            Move::Wait => Doing::Pausing { until: now + 20 + self.delay() },
            Move::Resign => Doing::Gone { until: now + self.delay() },
            request => Doing::Sending { request, sent: now, arrives },
        };
    }

    fn step(&mut self, now: u64, store: &mut Store) {
        match self.doing.clone() {
            Doing::Pausing { until } if now >= until => {
                let request = self.candidate.next(tenths(now));
                self.send(now, request);
            }
            Doing::Gone { until } if now >= until => {
                // A new process, in a pod of the same name.
                let identity = self.candidate.identity().to_owned();
                self.candidate = Candidate::new(&identity, Timing::default());
                self.doing = Doing::Pausing { until: now };
            }
            Doing::Sending { request, sent, arrives } if now >= arrives => {
                let holder = self.candidate.identity().to_owned();
                let answer = match &request {
                    Move::Create => Answer::Written(store.write(None, &holder, 0)),
                    Move::Replace { version, transitions } => {
                        Answer::Written(store.write(Some(version), &holder, *transitions))
                    }
                    _ => Answer::Read(store.lease.clone()),
                };
                let lost = self.draw() > 235;
                let arrives = now + if lost { 30 } else { self.delay() };
                let answer = (!lost).then_some(answer);
                self.doing = Doing::Waiting { request, sent, answer, arrives };
            }
            Doing::Waiting { request, sent, answer, arrives } if now >= arrives => {
                self.answered(now, &request, sent, answer);
            }
            Doing::Pausing { .. }
            | Doing::Gone { .. }
            | Doing::Sending { .. }
            | Doing::Waiting { .. } => {}
        }
    }

    fn answered(&mut self, now: u64, request: &Move, sent: u64, answer: Option<Answer>) {
        let pause = |process: &mut Self| process.send(now, Move::Wait);
        match answer {
            Some(Answer::Read(found)) => {
                let request = self.candidate.consider(tenths(now), found);
                self.send(now, request);
            }
            Some(Answer::Written(Some(version))) => {
                let transitions = match request {
                    Move::Replace { transitions, .. } => *transitions,
                    _ => 0,
                };
                self.candidate.wrote(tenths(sent), version, transitions);
                self.fence = sent + 150;
                if self.draw() > 245 {
                    // Killed: its fence dies with it.
                    self.fence = 0;
                    self.doing = Doing::Gone { until: now + 1 };
                } else {
                    pause(self);
                }
            }
            Some(Answer::Written(None)) | None => {
                self.candidate.failed();
                pause(self);
            }
        }
        if matches!(self.doing, Doing::Gone { .. }) {
            self.fence = 0;
        }
    }
}

proptest! {
    #[test]
    fn whatever_is_slow_lost_paused_or_killed_two_never_lead(
        chances in prop::collection::vec(prop::collection::vec(any::<u8>(), 30..60), 3)
    ) {
        let mut store = Store::default();
        let mut processes: Vec<_> = chances
            .into_iter()
            .enumerate()
            .map(|(index, chance)| Process {
                candidate: candidate(&format!("pod-{index}")),
                doing: Doing::Pausing { until: 0 },
                fence: 0,
                chance: chance.into(),
            })
            .collect();
        let mut led = 0;
        for now in 0..6_000 {
            for process in &mut processes {
                process.step(now, &mut store);
            }
            let leaders = processes.iter().filter(|process| process.fence > now).count();
            prop_assert!(leaders <= 1, "{leaders} lead after {now} tenths of a second");
            led += leaders;
        }
        // Delays of half a minute everywhere may keep everybody from it, but not for ever.
        prop_assert!(led > 0, "nobody ever led");
    }
}
